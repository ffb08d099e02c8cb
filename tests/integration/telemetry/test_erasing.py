"""The telemetry of a deleted plant goes, all of it and nothing else, also against an ingest that is still writing."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.deletion import erase_deleted
from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.frames.writer import Partitions, days_of, write_batch
from gridfleet.domains.telemetry.rollups.recomputation import close_hour, roll_up
from gridfleet.kernel.db import Database
from support.builders.large_changes import end_large_changes
from support.builders.telemetry_records import RecordedPlant

TABLES = (
    "telemetry_frame",
    "telemetry_latest",
    "telemetry_minute",
    "telemetry_quarter",
    "telemetry_hour",
    "telemetry_day",
    "telemetry_dirty",
)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


async def counts(database: Database, *sources: int) -> dict[str, int]:
    """Rows of each table that holds telemetry, by name; of these sources, or of all."""
    async with database.transaction() as db:
        found = {}
        for table, column in (*((table, "source_id") for table in TABLES), ("telemetry_source", "id")):
            query = f"SELECT count(*) FROM {table} WHERE %(all)s OR {column} = ANY(%(sources)s)"
            row = await (await db.execute(query.encode(), {"all": not sources, "sources": list(sources)})).fetchone()
            assert row is not None
            found[table] = int(row[0])
    return found


async def plant_with_history(database: Database) -> RecordedPlant:
    """A plant with a device, three days of frames and their roll-ups, and hours that are behind."""
    plant = await RecordedPlant.create(database)
    await plant.add_device("PV1")
    for device in (None, "PV1"):
        hours = [NOW - timedelta(hours=hour) for hour in range(1, 60)]
        await plant.write(device, ["p", "q"], {hour: [1.0, 2.0] for hour in hours})
    while await close_hour(database, timedelta(hours=-1)):
        pass
    await roll_up(database)
    await plant.write("PV1", ["p", "q"], {NOW - timedelta(hours=5, minutes=1): [3.0, 4.0]})
    return plant


async def delete(plant: RecordedPlant) -> None:
    async with plant.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (plant.id,))


async def test_everything_of_a_deleted_plant_goes_and_nothing_else(database: Database) -> None:
    kept, gone = await plant_with_history(database), await plant_with_history(database)
    stays = [await kept.source(None), await kept.source("PV1")]
    goes = [await gone.source(None), await gone.source("PV1")]
    before = await counts(database, *stays)
    await gone.delete_device("PV1")
    await delete(gone)
    left_behind = await counts(database, *goes)
    assert all(left_behind.values()), left_behind

    assert await erase_deleted(database) == 2

    assert set((await counts(database, *goes)).values()) == {0}
    assert await counts(database, *stays) == before
    assert await erase_deleted(database) == 0


async def test_erasing_goes_on_where_it_was_cut_short(database: Database) -> None:
    plant = await plant_with_history(database)
    await delete(plant)

    for seconds in (0.02, 0.05, 0.1, 0.2):
        task = asyncio.create_task(erase_deleted(database))
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await erase_deleted(database)

    assert set((await counts(database)).values()) == {0}


@pytest.mark.local_tables(reason="Citus refuses triggers on distributed tables")
async def test_a_source_with_more_than_a_statement_can_delete_keeps_no_other_source(database: Database) -> None:
    """Otherwise the job would fail at that source each time, and nothing of other organisations would be erased."""
    large, other = await plant_with_history(database), await plant_with_history(database)
    source, layout = await large.source(None), await large.layout(["p", "q"])
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
            " SELECT %s, %s, %s::timestamptz + n * interval '1 microsecond', '{1,2}' FROM generate_series(1, 45000) n",
            (source, layout, NOW - timedelta(minutes=30)),
        )
        await db.execute(
            "INSERT INTO telemetry_hour SELECT source_id, layout_id, bucket - n * interval '1 hour', counts, sums, lows, highs,"
            " firsts, lasts FROM generate_series(1, 45000) n, (SELECT * FROM telemetry_hour WHERE source_id = %s"
            " ORDER BY bucket LIMIT 1) AS h",
            (source,),
        )
    for table in ("telemetry_frame", "telemetry_hour"):
        await end_large_changes(database, table, 21_000)
    await delete(large)
    await delete(other)

    assert await erase_deleted(database) == 4

    assert set((await counts(database)).values()) == {0}


async def test_frames_that_an_extension_partitions_go_day_by_day(database: Database) -> None:
    """The table of TimescaleDB has no partitions of the service."""
    async with database.transaction() as db:
        await db.execute("ALTER TABLE telemetry_frame RENAME TO telemetry_frame_before")
        await db.execute("CREATE TABLE telemetry_frame (LIKE telemetry_frame_before INCLUDING ALL)")
    large, other = await plant_with_history(database), await plant_with_history(database)
    source, layout = await large.source(None), await large.layout(["p", "q"])
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
            " SELECT %s, %s, %s::timestamptz - n * interval '61 s', '{1,2}' FROM generate_series(1, 45000) n",
            (source, layout, NOW),
        )
    await end_large_changes(database, "telemetry_frame", 21_000)
    await delete(large)
    await delete(other)

    assert await erase_deleted(database) == 4

    assert set((await counts(database)).values()) == {0}


async def test_organisations_take_turns(database: Database) -> None:
    """An organisation that deletes thousands of plants, each with a year of data, keeps the job busy for hours."""
    large, small = [await RecordedPlant.create(database) for _ in range(2)]
    for name in ("A", "B", "C"):
        await large.add_device(name)
    for plant in (large, small):
        await plant.write(None, ["p"], {NOW: [1.0]})
    for name in ("A", "B", "C"):
        await large.write(name, ["p"], {NOW: [1.0]})
    await delete(large)
    await delete(small)

    async with database.transaction() as db:
        assert await small.source(None) in await store.abandoned_sources(db, 2)


@pytest.mark.parametrize("known", [True, False], ids=["a known metric", "a new metric"])
async def test_an_ingest_that_still_holds_the_source_leaves_nothing(database: Database, known: bool) -> None:
    """Its transaction ends before the source goes, and is seen, or it fails; either way nothing is left."""
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["p"], {NOW: [1.0]})
    source_id, layout_id = await plant.source(None), await plant.layout(["p"] if known else ["new"])
    batch = FrameBatch()
    batch.add(source_id, layout_id, microseconds(NOW - timedelta(days=1)), [2.0])
    await Partitions(database).ensure(days_of(batch))
    await delete(plant)
    async with database.transaction() as ingest:
        await write_batch(ingest, batch)
        erasing = asyncio.create_task(erase_deleted(database))
        await asyncio.sleep(0.3)
        assert not erasing.done()
    await erasing

    assert set((await counts(database)).values()) == {0}


async def test_an_ingest_that_comes_after_the_source_is_gone_fails(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["p"], {NOW: [1.0]})
    batch = FrameBatch()
    batch.add(await plant.source(None), await plant.layout(["p"]), microseconds(NOW), [2.0])
    await delete(plant)
    await erase_deleted(database)

    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        async with database.transaction() as db:
            await write_batch(db, batch)

    assert set((await counts(database)).values()) == {0}


async def test_frames_first_newest_values_later_is_no_gap(database: Database) -> None:
    """An ingest between its two statements while the source goes: it fails, and its frames with it."""
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["p"], {NOW: [1.0]})
    batch = FrameBatch()
    batch.add(await plant.source(None), await plant.layout(["p"]), microseconds(NOW - timedelta(seconds=9)), [2.0])
    await Partitions(database).ensure(days_of(batch))
    await delete(plant)

    async def write_with_a_gap() -> None:
        async with database.transaction() as db:
            await store.copy_batch(db, batch)
            await store.write_frames(db)
            await erase_deleted(database)
            await store.write_latest(db, batch)

    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await write_with_a_gap()

    assert set((await counts(database)).values()) == {0}
