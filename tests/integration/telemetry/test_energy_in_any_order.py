"""The kept energies do not depend on the order in which readings arrive, with gaps, resets and misread values."""

import random
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.hours import energies_of_hours
from gridfleet.domains.telemetry.energy.models import DirtyHour
from gridfleet.domains.telemetry.roles import role_metrics
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from support.builders.telemetry_records import RecordedPlant, work

HOUR = timedelta(hours=1)
MIDNIGHT = utc_now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
HOURS = 44
PRODUCED = [Metric("energy_produced", "kWh", counter=True)]
METERED = [Metric("energy_imported", "kWh", counter=True), Metric("energy_exported", "kWh", counter=True)]

Write = tuple[str, list[Any], datetime, list[float | None]]
"""Device, metrics, time and values of a message."""


def some_times(random_: random.Random, count: int) -> list[datetime]:
    return sorted({MIDNIGHT + timedelta(minutes=random_.randrange(60 * HOURS)) for _ in range(count)})


def some_writes(random_: random.Random, *, is_reliable: bool) -> list[Write]:
    """Return messages of PV and of a meter at the grid. A meter that is not reliable begins again, and reads zero."""
    writes: list[Write] = []
    produced = imported = exported = 0.0
    for time in some_times(random_, random_.choice([5, 20, 60])):
        produced += random_.random()
        writes.append(("PV1", PRODUCED, time, [produced]))
    for time in some_times(random_, random_.choice([3, 6, 12, 40])):
        imported += 5 * random_.random()
        exported += random_.random()
        if not is_reliable and random_.random() < 0.05:
            imported = 0.3
        is_zero = not is_reliable and random_.random() < 0.05
        values = [None if random_.random() < 0.1 else imported * (not is_zero), None if random_.random() < 0.2 else exported]
        writes.append(("GRID", METERED, time, values))
    if random_.random() < 0.4:
        writes += [("GRID", ["active_power"], time, [10 * random_.random() - 5]) for time in some_times(random_, 40)]
    return writes


@pytest.mark.parametrize("seed", range(12))
async def test_late_readings_give_what_all_readings_together_give(database: Database, seed: int) -> None:
    random_ = random.Random(seed)
    site = await RecordedPlant.create(database)
    for external_id in ("PV1", "GRID"):
        await site.add_device(external_id)
    writes = some_writes(random_, is_reliable=seed % 3 > 0)
    random_.shuffle(writes)
    if seed % 2:
        writes.sort(key=lambda one: one[2])
    for first, last in pairwise([0, *sorted(random_.sample(range(len(writes)), 3)), len(writes)]):
        for device, metrics, time, values in writes[first:last]:
            await site.write(device, metrics, {time: values})
        await work(database)
        async with database.transaction() as db:
            assert not await store.dirty_plants(db), "hours are computed again without end"

    hours = [DirtyHour(site.id, MIDNIGHT + number * HOUR) for number in range(HOURS)]
    async with database.transaction() as db:
        together = await energies_of_hours(db, await role_metrics(db, [site.id]), hours)
        kept = await store.kept_around(db, hours)
    nothing = [None] * 20
    assert {one: list(kept[one].energies) if one in kept else nothing for one in hours} == {
        one: list(together[one].energies) for one in hours
    }


@pytest.mark.parametrize("parts", [1, 2])
async def test_a_dip_before_midnight_adds_nothing_in_the_morning(database: Database, parts: int) -> None:
    """Also if both are computed together, as after a night without a connection."""
    site = await RecordedPlant.create(database)
    await site.add_device("PV1")
    next_day = MIDNIGHT + timedelta(days=1)
    readings = {-2 * HOUR: 99.0, -0.9 * HOUR: 100.0, -0.5 * HOUR: 90.0, 6 * HOUR: 95.0, 7 * HOUR: 102.0}
    writes = [(next_day + after, [value]) for after, value in readings.items()]
    for some in ([writes], [writes[:3], writes[3:]])[parts - 1]:
        await site.write("PV1", PRODUCED, dict(some))
        await work(database)
    hours = [DirtyHour(site.id, next_day + number * HOUR) for number in (-1, 6, 7)]
    async with database.transaction() as db:
        kept = await store.kept_around(db, hours)
    assert [sum(value or 0 for value in kept[one].energies) for one in hours] == [1_000_000, 0, 2_000_000]
