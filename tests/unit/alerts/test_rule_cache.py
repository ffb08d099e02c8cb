"""Which entries of the rule cache a database notification invalidates."""

from collections.abc import Collection
from typing import cast

import pytest

from gridfleet.domains.alerts.matches import Checks
from gridfleet.domains.alerts.rule_cache import RuleCache
from gridfleet.domains.telemetry.frames.models import SourceOwner
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id

ORGANIZATION, OTHER, PLANT, SECOND, FOREIGN = (new_id() for _ in range(5))
SOURCES = {
    1: SourceOwner(1, ORGANIZATION, PLANT, None),
    2: SourceOwner(2, ORGANIZATION, PLANT, "D1"),
    3: SourceOwner(3, ORGANIZATION, SECOND, None),
    4: SourceOwner(4, OTHER, FOREIGN, None),
}
KEYS = [(source_id, layout_id) for source_id in SOURCES for layout_id in (10, 11)]


async def read(keys: Collection[tuple[int, int]]) -> dict[tuple[int, int], Checks]:
    return {key: Checks(SOURCES[key[0]], (), ()) for key in keys}


@pytest.mark.parametrize(
    ("payload", "kept"),
    [
        (ORGANIZATION, {4}),  # its rules have changed
        (PLANT, {3, 4}),  # it has moved, or one of its devices was deleted
        (FOREIGN, {1, 2, 3}),
        (new_id(), {1, 2, 3, 4}),
    ],
)
async def test_an_organisation_and_a_plant_invalidate_their_own_entries(payload: object, kept: set[int]) -> None:
    cache = RuleCache(cast("Database", None))
    await cache.look_up(KEYS, read)
    cache.invalidate(str(payload))
    assert {key for key in KEYS if cache.find(key) is not None} == {key for key in KEYS if key[0] in kept}


@pytest.mark.parametrize("payload", [ORGANIZATION, PLANT])
async def test_checks_that_were_compiled_before_a_change_are_not_cached_after_it(payload: object) -> None:
    cache = RuleCache(cast("Database", None))

    async def overtaken(keys: Collection[tuple[int, int]]) -> dict[tuple[int, int], Checks]:
        found = await read(keys)
        cache.invalidate(str(payload))
        return found

    assert (await cache.look_up([(1, 10), (4, 10)], overtaken)).keys() == {(1, 10), (4, 10)}
    assert (cache.find((1, 10)), cache.find((4, 10))) == (None, Checks(SOURCES[4], (), ()))
