"""The job that keeps the energy of plants and fleets up to date. It runs after the roll-ups, under the same lock.

Roll-ups log the hours of plants that changed. The job computes their energy again from frames and adds the difference to the
totals of the organisation. Energies are whole mWh, so a total is exactly the sum of its plants, in any order of changes.
"""

import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Final
from uuid import UUID

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.hours import energies_of_hours
from gridfleet.domains.telemetry.energy.models import DirtyHour, KeptHour
from gridfleet.domains.telemetry.energy.readings import TookTooLong
from gridfleet.domains.telemetry.energy.totals import store as totals
from gridfleet.domains.telemetry.roles import role_metrics
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.kernel.db import Connection, Database, limit_statements
from gridfleet.kernel.isolation import SECONDS_OF_SEVERAL, may_be_poison, note_set_aside, took_too_long

__all__ = ["keep_energy"]

_PLANTS_A_TRANSACTION: Final = 50
_HOURS_A_TURN: Final = 24
"""Dirty hours of a plant. Each may affect the 24 hours after it."""
_HOURS_ALONE: Final = 6
"""The same for a plant that takes long and is computed alone."""
_SECONDS_ALONE: Final = 60.0
SHARE_OF_MOVES: Final = 0.25
"""The part of the time for removing deleted and moved plants from totals, so that these cannot delay all energies."""
_HOURS_OF_PAST: Final = 48
_HOUR: Final = timedelta(hours=1)
_LONGEST_DAY: Final = timedelta(hours=25)
_HOURS_OF_TOTALS: Final = 6
"""Hours of totals to complete in a transaction. With 20,000 plants each takes a tenth of a second."""
_NOTHING: Final = KeptHour([None] * (4 * store.KINDS), False)


async def keep_energy(database: Database, *, seconds: float = 60.0, late: set[UUID] | None = None) -> int:
    """Compute the energy of hours that changed, until nothing is left or `seconds` have passed.

    Organisations take turns, and so do their plants: a plant with more hours than fit in a turn waits until all others have had
    one. A plant that takes long waits until then, too, with all plants of its organisation. One whose computation fails, or
    takes a minute, is postponed. Hours from before an upgrade are computed in the time that is left.

    Args:
        database: The database.
        seconds: The time after which nothing further begins.
        late: Receives the plants of which an hour of the last day has changed, not counting the hour that was closed last.

    Returns:
        The number of hours that were written; 0 if another process is working.

    Raises:
        Exception: The database is not available.
    """
    until = monotonic() + seconds
    late = set() if late is None else late
    done = 0
    await _follow_plants(database, monotonic() + SHARE_OF_MOVES * seconds)
    while monotonic() < until:
        async with database.transaction() as db:
            plants = await store.dirty_plants(db)
        if not plants:
            break
        done += await _turns(database, plants, until, late)
    done += await _compute_past(database, until)
    while monotonic() < until and await _complete_totals(database):
        pass
    return done


async def _turns(database: Database, plants: Mapping[UUID, UUID | None], until: float, late: set[UUID]) -> int:
    """Compute dirty hours of plants, in this order, until `until` has passed. Returns the number of written hours.

    Args:
        plants: The organisation of each plant.
        until: Monotonic time.
        late: See `keep_energy`.
    """
    written = 0
    turns = list(plants)
    slow: list[UUID] = []
    limit = _PLANTS_A_TRANSACTION
    while (turns or slow) and monotonic() < until:
        some = turns[:limit]
        is_alone = not some
        if is_alone:
            some = [slow.pop(random.randrange(len(slow)))]
        try:
            with limit_statements(None if is_alone else SECONDS_OF_SEVERAL):
                written += await _turn(database, some, late, is_alone=is_alone)
        except Exception as error:
            if not may_be_poison(error):
                raise
            is_slow = took_too_long(error) or isinstance(error, TookTooLong)
            if len(some) > 1:
                limit = 1 if is_slow else len(some) // 2
            elif is_slow and not is_alone:
                owner = plants[some[0]]
                slow += [one for one in turns if plants[one] == owner]
                turns = [one for one in turns if plants[one] != owner]
            else:
                note_set_aside(Consumer.ROLL_UPS, error, plant_id=str(some[0]))
                await _postpone(database, some[0])
                turns = turns[not is_alone :]
            continue
        if not is_alone:
            turns, limit = turns[len(some) :], min(2 * limit, _PLANTS_A_TRANSACTION)
    return written


async def _turn(database: Database, plants: Sequence[UUID], late: set[UUID], *, is_alone: bool) -> int:
    hours, seconds = (_HOURS_ALONE, _SECONDS_ALONE) if is_alone else (_HOURS_A_TURN, SECONDS_OF_SEVERAL)
    async with database.transaction() as db:
        if not await rollups.lock(db):
            return 0
        dirty = await store.take_dirty(db, plants, hours)
        changed = await _recompute(db, dirty, monotonic() + seconds) if dirty else ()
        closed_last = await store.watermark(db) - _HOUR
    late |= {one.plant_id for one in changed if closed_last - _LONGEST_DAY <= one.hour < closed_last}
    return len(changed)


async def _postpone(database: Database, plant_id: UUID) -> None:
    async with database.transaction() as db:
        await store.postpone(db, plant_id)


async def _recompute(db: Connection, dirty: Sequence[DirtyHour], until: float = math.inf) -> Collection[DirtyHour]:
    """Compute dirty hours and those that depend on them, and write what changed. Returns the written hours.

    Raises:
        TookTooLong: The monotonic time `until` has passed.
    """
    accounts = await store.accounts(db, sorted({one.plant_id for one in dirty}))
    dirty = [one for one in dirty if one.plant_id in accounts]
    if not dirty:
        return ()
    open_from = await store.watermark(db)
    before = await store.kept_around(db, dirty)
    # Frames before the time in the account may be deleted, so the energies of earlier hours cannot be computed again.
    hours = [one for one in {*dirty, *before} if accounts[one.plant_id][1] <= one.hour < open_from]
    outdated: set[DirtyHour] = set()
    computed = await energies_of_hours(db, await role_metrics(db, list(accounts)), hours, until, outdated, {*dirty})
    # These were computed before the next reading of a counter.
    if again := [one for one in outdated.difference(computed) if accounts[one.plant_id][1] <= one.hour < open_from]:
        await store.log_dirty(db, again)
    changed = {one: kept for one, kept in computed.items() if kept != before.get(one, _NOTHING)}
    if not changed:
        return ()
    await store.write(db, changed)
    owners = {plant_id: owner for plant_id, (owner, _) in accounts.items()}
    await totals.add_to_totals(db, _changes(changed, before, owners))
    return changed.keys()


def _changes(
    changed: Mapping[DirtyHour, KeptHour], before: Mapping[DirtyHour, KeptHour], owners: Mapping[UUID, UUID]
) -> dict[tuple[UUID, datetime], list[int | None]]:
    """Return what the totals of each organisation and hour change by."""
    nothing = totals.of_plant_hour(_NOTHING.energies)
    changes: dict[tuple[UUID, datetime], list[int | None]] = defaultdict(nothing.copy)
    for one, kept in changed.items():
        total = changes[owners[one.plant_id], one.hour]
        former = before.get(one, _NOTHING).energies
        for place, value in _differences(totals.of_plant_hour(kept.energies), totals.of_plant_hour(former)):
            total[place] = (total[place] or 0) + value
    return changes


def _differences(now: Sequence[int | None], before: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    for place, (new, old) in enumerate(zip(now, before, strict=True)):
        if new is not None or old is not None:
            yield place, (new or 0) - (old or 0)


async def _follow_plants(database: Database, until: float) -> None:
    """Subtract plants that were deleted or moved from the totals that contain them, and add moved ones to the right totals.

    One that fails is tried again with the next call.
    """
    async with database.transaction() as db:
        plants = await totals.misplaced(db, 1_000)
    for plant_id in plants:
        if monotonic() >= until:
            return
        try:
            async with database.transaction() as db:
                if not await rollups.lock(db):
                    return
                await _follow_plant(db, plant_id)
        except Exception as error:
            if not may_be_poison(error):
                raise
            note_set_aside(Consumer.ROLL_UPS, error, plant_id=str(plant_id))


async def _follow_plant(db: Connection, plant_id: UUID) -> None:
    owner = await totals.owner_of(db, plant_id)
    await totals.leave_totals(db, plant_id)
    if owner is None:
        await store.delete_of(db, plant_id)
    else:
        await totals.enter_totals(db, plant_id, owner)


async def _complete_totals(database: Database) -> int:
    """Add the metered kinds to some totals that an earlier release wrote without them. Returns the number of these totals."""
    async with database.transaction() as db:
        return await totals.complete(db, _HOURS_OF_TOTALS) if await rollups.lock(db) else 0


async def _compute_past(database: Database, until: float) -> int:
    """Compute hours from before an upgrade until none is missing or `until` has passed. Returns the number of written hours.

    Each transaction blocks all roll-ups. If it takes longer than `SECONDS_OF_SEVERAL`, or fails by itself, it is repeated with
    half as many hours of plants. The smallest one, `_HOURS_ALONE` hours of one plant, may take `_SECONDS_ALONE`; if it fails,
    the plant is set aside.

    Args:
        database: The database.
        until: Monotonic time.
    """
    written, limit = 0, _PLANTS_A_TRANSACTION * _HOURS_OF_PAST
    while monotonic() < until:
        async with database.transaction() as db:
            some = await store.past_to_read(db, max(1, limit // _HOURS_OF_PAST))
        if not some:
            break
        hours = min(limit, _HOURS_OF_PAST)
        is_least = len(some) == 1 and hours <= _HOURS_ALONE
        began = monotonic()
        try:
            with limit_statements(None if is_least else SECONDS_OF_SEVERAL):
                written += await _past(database, some, hours, _SECONDS_ALONE if is_least else SECONDS_OF_SEVERAL)
        except Exception as error:
            if not may_be_poison(error):
                raise
            if is_least:
                note_set_aside(Consumer.ROLL_UPS, error, plant_id=str(some[0].plant_id))
                await _postpone(database, some[0].plant_id)
            else:
                limit = max(_HOURS_ALONE, len(some) * hours // 2)
        else:
            # Twice as many would take too long otherwise, and be computed in vain.
            if monotonic() - began < SECONDS_OF_SEVERAL / 2:
                limit = min(2 * limit, _PLANTS_A_TRANSACTION * _HOURS_OF_PAST)
    return written


async def _past(database: Database, some: Sequence[DirtyHour], hours: int, seconds: float) -> int:
    """Compute the first hours of each of these plants from before an upgrade. Returns the number of written hours.

    Raises:
        TookTooLong: `seconds` have passed.
    """
    async with database.transaction() as db:
        if not await rollups.lock(db):
            return 0
        open_from = await store.watermark(db)
        wanted = [DirtyHour(one.plant_id, one.hour + number * _HOUR) for one in some for number in range(hours)]
        changed = await _recompute(db, [one for one in wanted if one.hour < open_from], monotonic() + seconds)
        for one in some:
            following = one.hour + hours * _HOUR
            await store.advance_past(db, one.plant_id, following if following < open_from else None)
    return len(changed)
