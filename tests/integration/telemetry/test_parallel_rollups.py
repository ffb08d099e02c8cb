"""Roll-ups that are computed on several connections, and by several processes, at the same time."""

import asyncio
from collections import Counter
from datetime import UTC, timedelta

import psycopg
import pytest

from gridfleet.domains.telemetry.retention.limits import Days, apply_retention
from gridfleet.domains.telemetry.rollups import store
from gridfleet.domains.telemetry.rollups.models import Level
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from support.builders.telemetry_records import RecordedPlant

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
BEGIN = TODAY - 20 * DAY
DAYS = Days(raw=10, minute=15, quarter=60)
LEVELS = ("minute", "quarter", "hour", "day")


async def rows(database: Database, query: str) -> list[tuple[object, ...]]:
    async with database.transaction() as db:
        return list(await (await db.execute(query.encode())).fetchall())


async def add_fleet(database: Database, *, devices: int, hours: int) -> list[RecordedPlant]:
    """Write frames of two organisations' devices in days that have no partitions for minutes yet."""
    plants = [await RecordedPlant.create(database) for _ in range(2)]
    for plant in plants:
        for number in range(devices):
            await plant.add_device(f"D{number}")
            times = [BEGIN + hour * HOUR for hour in range(hours)]
            await plant.write(f"D{number}", ["a"], {time: [float(place)] for place, time in enumerate(times)})
    return plants


async def test_each_hour_is_computed_once_on_several_connections_of_two_processes(database: Database) -> None:
    await add_fleet(database, devices=20, hours=40)
    assert sum(await asyncio.gather(roll_up(database, connections=4), roll_up(database, connections=3))) <= 1_600
    while await rows(database, "SELECT FROM telemetry_dirty LIMIT 1"):
        await roll_up(database, connections=4)
    found = {level: await rows(database, f"SELECT * FROM telemetry_{level} ORDER BY 1, 2, 3") for level in LEVELS}
    assert [len(found[level]) for level in ("hour", "day")] == [1_600, 80]

    async with database.transaction() as db:
        for level in LEVELS:
            await db.execute(f"DELETE FROM telemetry_{level}".encode())
        await db.execute(
            "INSERT INTO telemetry_dirty SELECT DISTINCT source_id, date_bin('1 hour', time, 'epoch') FROM telemetry_frame"
        )
    assert await roll_up(database) == 1_600
    assert found == {level: await rows(database, f"SELECT * FROM telemetry_{level} ORDER BY 1, 2, 3") for level in LEVELS}


async def test_hours_of_a_source_that_another_transaction_recomputes_wait(database: Database) -> None:
    """Otherwise, the day would lack the hours of the other transaction, which are not visible before its end."""
    [plant, other] = await add_fleet(database, devices=1, hours=10)
    source = await plant.source("D0")
    async with database.transaction() as db:
        assert await store.lock(db, is_shared=True)
        assert len(await store.take_dirty(db, [source], 4, 4)) == 4
        async with database.transaction() as second:
            assert not await store.hold_slot(second, source)
            assert await store.hold_slot(second, await other.source("D0"))
        assert await roll_up(database, connections=2) == 10
        left = await rows(database, "SELECT source_id, count(*) FROM telemetry_hour GROUP BY 1")
        assert left == [(await other.source("D0"), 10)]
    assert await roll_up(database, connections=2) == 6
    await asyncio.gather(*(roll_up(database, connections=number) for number in (1, 2)))
    assert await rows(database, "SELECT FROM telemetry_dirty") == []


async def test_retention_gets_its_turn_and_ends_no_connection(database: Database) -> None:
    await add_fleet(database, devices=30, hours=40)

    async def retain() -> bool:
        await asyncio.sleep(0.05)
        return await apply_retention(database, DAYS, utc_now())

    done, was_applied = await asyncio.gather(roll_up(database, connections=4), retain())
    assert (done, was_applied) == (2_400, True)
    while await rows(database, "SELECT FROM telemetry_frame LIMIT 1"):
        assert await apply_retention(database, DAYS, utc_now())
    assert await rows(database, "SELECT count(*) FROM telemetry_hour") == [(2_400,)]


async def test_an_error_on_one_connection_ends_no_other(database: Database) -> None:
    [plant, other] = await add_fleet(database, devices=6, hours=40)
    sources = [await one.source(f"D{number}") for one in (plant, other) for number in range(6)]
    source, *others = sources
    kept = [one for one in others if store.slot(one) % 2 != store.slot(source) % 2]
    assert kept
    async with database.transaction() as db:
        await db.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF NEW.source_id = {source} THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
            " RETURN NEW; END $$".encode()
        )
        await db.execute("CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON telemetry_hour FOR EACH ROW EXECUTE FUNCTION fail()")
    with pytest.raises(psycopg.OperationalError):
        await roll_up(database, connections=2)
    assert set(await rows(database, "SELECT source_id, count(*) FROM telemetry_hour GROUP BY 1")) >= {(one, 40) for one in kept}
    async with database.transaction() as db:
        await db.execute("DROP FUNCTION fail CASCADE")
    await roll_up(database, connections=2)
    assert await rows(database, "SELECT count(*) FROM telemetry_hour") == [(480,)]


async def test_the_slots_of_sources_are_even() -> None:
    for step in range(1, 65):
        slots = Counter(store.slot(number * step + 1) % 4 for number in range(10_000))
        assert max(slots.values()) < 3_000, step


async def test_a_partition_that_another_transaction_creates_meanwhile_is_used(database: Database) -> None:
    first = BEGIN.date()
    async with database.transaction() as waiting:
        # The session has the plans of the function, and caches that there is no such partition.
        for day in range(1, 8):
            await store.create_partition(waiting, Level.QUARTER, (BEGIN - day * 40 * DAY).date().replace(day=1))
        assert await store.missing_partitions(waiting, Level.MINUTE, [first]) == [first]
        async with database.transaction() as db:
            await db.execute("SELECT create_telemetry_partition('telemetry_minute', %s)", (first,))
            creating = asyncio.ensure_future(store.create_partition(waiting, Level.MINUTE, first))
            await asyncio.sleep(0.2)
            assert not creating.done()
        await creating
        assert await store.missing_partitions(waiting, Level.MINUTE, [first]) == []
