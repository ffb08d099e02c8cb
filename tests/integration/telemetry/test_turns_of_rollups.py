"""Late values and deleted plants of one organisation delay neither roll-ups and totals of others nor the end of hours."""

import asyncio
from datetime import timedelta
from typing import Any

from gridfleet.domains.telemetry.energy.recomputation import keep_energy
from gridfleet.domains.telemetry.energy.totals.store import misplaced
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


async def add_kept(plant: RecordedPlant, plants: int) -> None:
    """Keep energy of an hour for deleted plants of the plant's organisation, whose totals still contain them."""
    owner, hour = plant.organization_id, THIS_HOUR - HOUR
    async with plant.database.transaction() as db:
        await db.execute(
            "WITH gone AS (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)),"
            " account AS (INSERT INTO energy_account SELECT id, %s FROM gone)"
            " INSERT INTO plant_energy SELECT id, %s, array_fill(3::bigint, ARRAY[20]), false FROM gone",
            (plants, owner, hour),
        )
        await db.execute("INSERT INTO fleet_energy VALUES (%s, %s, array_fill(100::bigint, ARRAY[28]))", (owner, hour))


async def test_a_deleted_plant_waits_for_one_of_another_organisation(database: Database) -> None:
    busy, quiet = await RecordedPlant.create(database), await RecordedPlant.create(database)
    await add_kept(busy, 20)
    await add_kept(quiet, 1)
    async with database.transaction() as db:
        first = await misplaced(db, 2)
        cursor = await db.execute("SELECT organization_id FROM energy_account WHERE plant_id = ANY(%s)", (first,))
        assert {row[0] for row in await cursor.fetchall()} == {busy.organization_id, quiet.organization_id}


async def test_a_plant_that_cannot_be_subtracted_delays_no_energy(database: Database) -> None:
    failing, other = await RecordedPlant.create(database), await RecordedPlant.create(database)
    await add_kept(failing, 1)
    await add_kept(other, 1)
    async with database.transaction() as db:
        await db.execute(
            "UPDATE fleet_energy SET energies = array_fill((-9223372036854775808)::bigint, ARRAY[28])"
            " WHERE organization_id = %s",
            (failing.organization_id,),
        )
    await write_late(other, None, 1)
    await roll_up(database)

    await keep_energy(database)

    misplaced_of = "SELECT array_agg(organization_id) FROM energy_account WHERE plant_id <> %s"
    assert await value(database, misplaced_of, other.id) == [failing.organization_id]
    assert await value(database, "SELECT count(*) FROM energy_dirty") == 0
