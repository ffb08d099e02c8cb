"""The late values of one organisation delay neither the roll-ups of others nor the end of hours."""

import asyncio
from datetime import timedelta
from typing import Any

from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from support.builders.telemetry_records import RecordedPlant
from support.servers.running_task import running

HOUR = timedelta(hours=1)
THIS_HOUR = utc_now().replace(minute=0, second=0, microsecond=0)


async def value(database: Database, query: str, *arguments: object) -> Any:
    async with database.transaction() as db:
        row = await (await db.execute(query.encode(), arguments)).fetchone()
    assert row is not None
    return row[0]


async def write_late(plant: RecordedPlant, device: str | None, hours: int) -> None:
    await plant.write(device, ["a"], {THIS_HOUR - (number + 3) * HOUR: [1.0] for number in range(hours)})


async def hours_written_before(database: Database, busy: RecordedPlant, quiet: RecordedPlant) -> int:
    """Transactions are numbered."""
    written = "SELECT {} FROM telemetry_hour h JOIN telemetry_source s ON s.id = h.source_id WHERE s.plant_id = %s"
    first = await value(database, written.format("min(h.xmin::text::bigint)"), quiet.id)
    return int(await value(database, written.format("count(*)") + " AND h.xmin::text::bigint < %s", busy.id, first))


async def test_an_organisation_with_one_late_hour_waits_for_few_of_anothers(database: Database) -> None:
    busy, quiet = await RecordedPlant.create(database), await RecordedPlant.create(database)
    await write_late(busy, None, 1_000)
    for number in range(12):
        await busy.add_device(f"D{number}")
        await write_late(busy, f"D{number}", 60)
    await write_late(quiet, None, 1)
    assert await roll_up(database) == 1_721
    assert await value(database, "SELECT count(*) FROM telemetry_dirty") == 0
    assert await hours_written_before(database, busy, quiet) <= 200


async def test_an_hour_is_closed_although_late_values_remain(database: Database) -> None:
    busy = await RecordedPlant.create(database)
    await write_late(busy, None, 10)
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = %s", (THIS_HOUR - 2 * HOUR,))
    assert await roll_up(database, seconds=0) == 0
    assert await value(database, "SELECT sealed_before FROM telemetry_seal") == THIS_HOUR - HOUR


async def test_a_deletion_of_many_sources_does_not_end_the_roll_ups(database: Database) -> None:
    """It holds the lock for moments, again and again."""
    plant = await RecordedPlant.create(database)
    await write_late(plant, None, 1_600)

    async def delete() -> None:
        while True:
            async with database.transaction() as db:
                await rollups.hold_still(db)
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.02)

    async with running(delete()):
        await asyncio.sleep(0.1)
        assert await roll_up(database) == 1_600
