"""Telemetry on a server with TimescaleDB: the switch-over, late values, retention and restores.

Debian's package is the Apache edition, which does not compress. With the other edition, the same tests use compressed tables.
"""

import asyncio
import dataclasses
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.frames.writer import write_batch
from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.models import Bucket
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.hypertables import HYPERTABLES
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention, set_retention
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.db.roles import grant
from gridfleet.kernel.db.scale_out import Step, apply, plan
from gridfleet.kernel.isolation import is_poison
from support.builders.telemetry_records import RecordedPlant
from support.clients.switch_over import gridfleet_db, kill_after
from support.servers.replication import execute, value
from support.servers.timescale import TimescaleServer, timescale_programs, timescale_server

PROGRAMS = timescale_programs()
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL with TimescaleDB is not installed"),
]

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
TABLES = ("telemetry_frame", "telemetry_minute", "telemetry_quarter")
APPLY = ("scale-out", "timescaledb", "--apply")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[TimescaleServer]:
    assert PROGRAMS is not None
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-timescale-"))
    try:
        with timescale_server(folder, PROGRAMS) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def name(server: TimescaleServer) -> str:
    """Create a database with the extension, whose telemetry is stored in partitions. Return its name."""
    name = f"site_{next(_numbers)}"
    server.prepare(name)
    return name


@pytest.fixture
def owner(server: TimescaleServer, name: str) -> str:
    return server.url_of("owner", name)


@pytest.fixture
def running(server: TimescaleServer, name: str) -> str:
    return server.url_of("running", name)


def switch_over(owner: str) -> None:
    result = gridfleet_db(owner, *APPLY)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("done\n")


def is_compressing(url: str) -> bool:
    return value(url, "SELECT current_setting('timescaledb.license')") == "timescale"


def hypertables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT hypertable_name FROM timescaledb_information.hypertables").fetchall()
    return {row[0] for row in rows}


def chunks(url: str, table: str, only: str = "") -> int:
    return int(value(url, f"SELECT count(*) FROM timescaledb_information.chunks WHERE hypertable_name = '{table}' {only}"))


async def record(database: Database, *days_ago: int) -> RecordedPlant:
    """Store a value each minute of some days, and roll them up."""
    plant = await RecordedPlant.create(database)
    for days in days_ago:
        first = TODAY - days * DAY
        await plant.write(None, ["a", "b"], {first + n * MINUTE: [n / 8, None if n % 7 else float(n)] for n in range(1440)})
    await roll_up(database)
    return plant


async def contents(plant: RecordedPlant) -> list[Any]:
    """Return what a reader sees of 40 days, and every row of the plant."""
    found: list[Any] = []
    async with plant.database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        widths = (Bucket.MINUTE, Bucket.QUARTER_HOUR, Bucket.HOUR, Bucket.DAY)
        found += [await read_buckets(db, series, width, TODAY - 40 * DAY, TODAY) for width in widths]
        for table in TABLES:
            cursor = await db.execute(
                f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t JOIN telemetry_source s"
                " ON s.id = t.source_id WHERE s.plant_id = %s",
                (plant.id,),
            )
            found.append(await cursor.fetchone())
    return found


async def test_every_row_moves_and_later_ones_are_stored(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, 35, 20, 3, 2, 1)
        before = await contents(plant)
        printed = await asyncio.to_thread(gridfleet_db, owner, "scale-out", "timescaledb")
        assert printed.exit_code == 0, printed.output
        assert "Nothing was changed" in printed.output
        assert ("(Apache) does not compress" in printed.output) is not is_compressing(owner)
        assert hypertables(owner) == set()
        await asyncio.to_thread(switch_over, owner)
        assert hypertables(owner) == set(TABLES)
        assert await contents(plant) == before
        assert value(owner, "SELECT count(*) FROM pg_class WHERE relname ~ '^telemetry_.*(_before|_after|_\\d{8})'") == 0
        again = await asyncio.to_thread(gridfleet_db, owner, *APPLY)
        assert "already" in again.output
        await record(database, 10, 0)
        assert chunks(owner, "telemetry_frame") == 7


async def test_late_values_are_merged_and_rolled_up_again(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        moved, left = await record(database, 20, 3), await record(database, 20, 3)
        late = {TODAY - 20 * DAY + n * MINUTE: [None, n / 2] for n in range(0, 1440, 3)}
        later = {TODAY - 20 * DAY + n * MINUTE + timedelta(seconds=30): [1.0, None] for n in range(100)}
        for values in (late, later):
            await left.write(None, ["a", "b"], values)
        await roll_up(database)
        await asyncio.to_thread(switch_over, owner)
        for values in (late, later):
            await moved.write(None, ["a", "b"], values)
        assert await roll_up(database) == 24
        expected = [rows for rows in await contents(left) if isinstance(rows, list)]
        found = [rows for rows in await contents(moved) if isinstance(rows, list)]
        assert [[point[2:] for point in rows] for rows in found] == [[point[2:] for point in rows] for rows in expected]


async def test_retention_drops_chunks_as_a_role_that_owns_nothing(owner: str, running: str) -> None:
    await asyncio.to_thread(switch_over, owner)
    async with open_database(running, name="test", size=5) as database:
        short, long = await record(database, 80, 15, 9, 2), await record(database, 80, 15, 9, 2)
        async with database.transaction() as db:
            slug = value(owner, f"SELECT slug FROM organization WHERE id = '{short.organization_id}'")
            await set_retention(db, slug, raw_days=5, minute_days=None, quarter_days=None)
        assert await apply_retention(database, Days(raw=10, minute=12, quarter=40), utc_now())
        counts = [chunks(owner, table) for table in TABLES]
        assert counts[:2] == [2, 2]  # of the four days, two are younger than the limits
        assert value(owner, f"SELECT min(bucket) >= '{TODAY - 75 * DAY}' FROM telemetry_quarter") is True
        rows = "SELECT count(*) FROM telemetry_frame WHERE source_id = {}"
        assert value(owner, rows.format(await short.source(None))) == 1440
        assert value(owner, rows.format(await long.source(None))) == 2 * 1440
        assert value(owner, "SELECT count(*) FROM telemetry_day") == 8


@pytest.mark.parametrize("call", ["'plant', now()", "'telemetry_hour', now()"])
async def test_the_owners_function_drops_no_other_chunks(owner: str, running: str, call: str) -> None:
    await asyncio.to_thread(switch_over, owner)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        execute(running, f"SELECT drop_telemetry_chunks({call})")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(running, "SELECT drop_chunks('telemetry_frame', older_than => now())")


async def test_a_killed_switch_over_continues(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, *range(1, 13))
        before = await contents(plant)
        kills = 0
        while await asyncio.to_thread(kill_after, owner, APPLY, "-- move ", 4):
            kills += 1
            left = value(owner, "SELECT count(*) FROM pg_inherits WHERE inhparent::regclass::text LIKE '%_before'")
            if left and value(owner, "SELECT to_regclass('telemetry_frame')") is None:
                with pytest.raises(psycopg.errors.UndefinedTable) as raised:
                    await plant.write(None, ["a", "b"], {TODAY: [1.0, 2.0]})
                assert not is_poison(raised.value)  # ingest waits, and refuses no message
        assert kills >= 5
        assert hypertables(owner) == set(TABLES)
        assert await contents(plant) == before
        await plant.write(None, ["a", "b"], {TODAY: [1.0, 2.0]})


async def test_roll_ups_move_where_only_frames_were_moved(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, 20, 3)
        before = await contents(plant)
        apply(owner, plan(owner, HYPERTABLES[:1]).steps)
        assert hypertables(owner) == {"telemetry_frame"}
        left = plan(owner, HYPERTABLES).steps
        assert not any("telemetry_frame" in statement for step in left for statement in step.statements)
        await asyncio.to_thread(switch_over, owner)
        assert await contents(plant) == before


async def test_the_disk_does_not_hold_everything_twice(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        await record(database, *range(1, 13))
    sizes: list[int] = []

    def measure(_: Step) -> None:
        tables = "relkind = 'r' AND (relname ~ '^telemetry_(frame|minute|quarter)_' OR relname ~ '^(_hyper|compress_hyper)')"
        sizes.append(int(value(owner, f"SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE {tables}")))

    steps = plan(owner, HYPERTABLES).steps
    await asyncio.to_thread(apply, owner, steps, measure)
    assert sizes[0] > 2 << 20
    assert max(sizes) < 1.4 * sizes[0]


async def test_a_table_in_use_is_one_sentence_and_changes_nothing(owner: str) -> None:
    with psycopg.connect(owner) as reader:
        reader.execute("SELECT FROM telemetry_frame")
        result = await asyncio.to_thread(gridfleet_db, owner, *APPLY)
    assert result.exit_code == 1
    assert result.stderr == "cannot scale out: a table is in use: stop the processes of the service, and repeat the command\n"
    assert hypertables(owner) == set()
    switch_over(owner)


@pytest.mark.parametrize("role", ["running", "gridfleet"])
def test_a_role_that_does_not_own_the_tables_is_refused(server: TimescaleServer, name: str, owner: str, role: str) -> None:
    """Also the superuser `gridfleet`: the running role would have no rights on its tables."""
    result = gridfleet_db(server.url_of(role, name), *APPLY)
    assert result.exit_code == 1
    assert result.stderr == (
        "cannot scale out: only the owner of the tables can do this: set GRIDFLEET_DATABASE_URL to the account owner\n"
    )
    assert hypertables(owner) == set()


async def test_a_dump_is_restored_with_the_documented_steps(
    server: TimescaleServer, name: str, owner: str, running: str
) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, 20, 3)
        await asyncio.to_thread(switch_over, owner)
        await record(database, 12)
        before = await contents(plant)
    restored = f"{name}_restored"
    await asyncio.to_thread(dump_and_restore, server, name, restored)
    async with open_database(server.url_of("running", restored), name="test", size=5) as database:
        copy = RecordedPlant(database, plant.organization_id, plant.id)
        assert await contents(copy) == before
        assert hypertables(server.url_of("owner", restored)) == set(TABLES)
        await copy.write(None, ["a", "b"], {TODAY - 20 * DAY: [7.0, 8.0]})
        assert await roll_up(database) == 1
        assert await apply_retention(database, Days(raw=10, minute=10, quarter=40), utc_now())
        assert chunks(server.url_of("owner", restored), "telemetry_frame") == 1


def dump_and_restore(server: TimescaleServer, name: str, restored: str) -> None:
    """Copy a database as `docs/deployment.md` describes it. Only a superuser may write the extension's own tables."""
    owner, superuser = server.url_of("owner", restored), server.url_of("gridfleet", restored)
    server.create(restored)
    dump = ("pg_dump", "--format=custom", "--dbname", server.url_of("owner", name))
    restore = ("pg_restore", "--exit-on-error", "--dbname", superuser)
    execute(superuser, "CREATE EXTENSION timescaledb")
    execute(superuser, "SELECT timescaledb_pre_restore()")
    dumping = subprocess.Popen([server.programs / dump[0], *dump[1:]], stdout=subprocess.PIPE)
    subprocess.run([server.programs / restore[0], *restore[1:]], stdin=dumping.stdout, check=True)
    assert dumping.wait() == 0
    execute(superuser, "SELECT timescaledb_post_restore()")
    migrate(owner)
    grant(owner, "running")
    assert gridfleet_db(owner, *APPLY).exit_code == 0


async def test_compressed_days_take_late_values_of_any_number_of_sources(owner: str, running: str) -> None:
    if not is_compressing(owner):
        pytest.skip("this edition of TimescaleDB does not compress")
    async with open_database(running, name="test", size=5) as database:
        plant = await RecordedPlant.create(database)
        devices = [f"D{number}" for number in range(150)]
        old = TODAY - 20 * DAY
        for device in devices:
            await plant.add_device(device)
            await plant.write(device, ["a"], {old + n * MINUTE: [float(n)] for n in range(1440)})
        await roll_up(database)
        await record(database, 3)
    switch_over(owner)
    for table in TABLES[:2]:
        assert chunks(owner, table, f"AND is_compressed AND range_start = '{old}'") == 1
    async with open_database(running, name="test", size=5) as database:
        plant = dataclasses.replace(plant, database=database)
        # One row of each source: TimescaleDB decompresses up to 1,000 rows for each.
        layout, batch = await plant.layout(["a"]), FrameBatch()
        for device in devices:
            batch.add(await plant.source(device), layout, microseconds(old + 600 * MINUTE), [5000.0])
        async with database.transaction() as db:
            await write_batch(db, batch)
        assert await roll_up(database) == len(devices)
    for table in (*TABLES[1:], "telemetry_hour"):
        assert value(owner, f"SELECT count(*) FROM {table} WHERE highs[1] = 5000") == len(devices)
    assert value(owner, "SELECT count(*) FROM telemetry_frame") == (len(devices) + 1) * 1440
