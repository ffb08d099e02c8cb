"""Telemetry on a coordinator and two workers of Citus: the switch-over, retention, worker failures and restores."""

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gridfleet.cli.doctor.models import Status
from gridfleet.cli.doctor.shards import check_shards
from gridfleet.domains.telemetry.frames.deletion import erase_deleted
from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.models import Bucket
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.hypertables import HYPERTABLES
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention, set_retention
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.citus import plan
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.db.roles import grant
from gridfleet.kernel.db.scale_out import apply
from gridfleet.kernel.db.shards import NotSettled, hash_of, settle
from gridfleet.kernel.isolation import is_poison
from support.builders.telemetry_records import RecordedPlant
from support.clients.acknowledged_ledger import compare, under_load
from support.clients.fleet_under_test import Fleet
from support.clients.switch_over import gridfleet_db, kill_after
from support.figures import Figure
from support.servers.citus import CitusCluster, citus_cluster, citus_programs
from support.servers.replication import execute, value
from support.servers.running_stack import running_stack

PROGRAMS = citus_programs()
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL with Citus is not installed"),
]

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
TABLES = ("telemetry_frame", "telemetry_minute", "telemetry_quarter")
APPLY = ("scale-out", "citus", "--apply")
KILLS = 4
GOAL_SECONDS = 60
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[CitusCluster]:
    assert PROGRAMS is not None
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-citus-"))
    try:
        with citus_cluster(folder, PROGRAMS) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def name(cluster: CitusCluster) -> Iterator[str]:
    """Create a database whose schema is older than the extension, with the rights of `running`. Return its name."""
    name = f"site_{next(_numbers)}"
    url = cluster.create(name, first_migrated=True)
    grant(url, "running")
    yield name
    cluster.drop(name)


@pytest.fixture
def owner(cluster: CitusCluster, name: str) -> str:
    return cluster.coordinator.url(name)


@pytest.fixture
def running(cluster: CitusCluster, name: str) -> str:
    return cluster.coordinator.url(name, "running")


def switch_over(owner: str) -> None:
    result = gridfleet_db(owner, *APPLY)
    assert result.exit_code == 0, result.output
    assert result.output.endswith("a trial has written, rolled up and read values, and rolled back\ndone\n")


def distributed(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT logicalrelid::text FROM pg_dist_partition").fetchall()
    return {row[0] for row in rows} & set(TABLES)


def rows_on_coordinator(url: str) -> int:
    """Return the bytes of the partitions' own rows on the coordinator."""
    tables = "relkind = 'r' AND relname ~ '^telemetry_(frame|minute|quarter)_'"
    return int(value(url, f"SELECT coalesce(sum(pg_relation_size(oid)), 0) FROM pg_class WHERE {tables}"))


async def record(database: Database, *days_ago: int, devices: int = 3) -> RecordedPlant:
    """Store a value of some devices each ten minutes of some days, and roll them up."""
    plant = await RecordedPlant.create(database)
    for device in [None, *(f"D{number}" for number in range(devices))]:
        if device is not None:
            await plant.add_device(device)
        for days in days_ago:
            first = TODAY - days * DAY
            values = {first + n * MINUTE: [n / 8, None if n % 7 else float(n)] for n in range(0, 1440, 10)}
            await plant.write(device, ["a", "b"], values)
    await roll_up(database)
    return plant


async def contents(plant: RecordedPlant) -> list[Any]:
    """Return what a reader sees of 40 days, and every row of the plant."""
    found: list[Any] = []
    async with plant.database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        widths = (Bucket.MINUTE, Bucket.QUARTER_HOUR, Bucket.HOUR, Bucket.DAY)
        found += [await read_buckets(db, series, width, TODAY - 40 * DAY, TODAY) for width in widths]
        cursor = await db.execute("SELECT id FROM telemetry_source WHERE plant_id = %s", (plant.id,))
        sources = [row[0] for row in await cursor.fetchall()]
        for table in TABLES:
            cursor = await db.execute(
                f"SELECT count(*), sum(hashtextextended(t::text, 0)) FROM {table} t WHERE source_id = ANY(%s)", (sources,)
            )
            found.append(await cursor.fetchone())
    return found


async def test_every_row_moves_and_later_ones_are_stored(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, 35, 3, 1)
        before = await contents(plant)
    printed = await asyncio.to_thread(gridfleet_db, owner, "scale-out", "citus")
    assert printed.exit_code == 0, printed.output
    assert "Nothing was changed" in printed.output
    assert distributed(owner) == set()
    await asyncio.to_thread(switch_over, owner)
    assert distributed(owner) == set(TABLES)
    assert rows_on_coordinator(owner) == 0
    again = await asyncio.to_thread(gridfleet_db, owner, *APPLY)
    assert "already" in again.output
    async with open_database(running, name="test", size=5) as database:
        moved = RecordedPlant(database, plant.organization_id, plant.id)
        assert await contents(moved) == before
        await record(database, 10, 0)
    [finding] = await check_shards(running)
    assert finding.status is Status.OK, finding.found


async def test_late_values_are_merged_and_rolled_up_as_without_citus(owner: str, running: str) -> None:
    late = {TODAY - 20 * DAY + n * MINUTE: [None, n / 2] for n in range(0, 1440, 30)}
    later = {TODAY - 20 * DAY + n * MINUTE + timedelta(seconds=30): [1.0, None] for n in range(100)}

    async def write_late(plant: RecordedPlant) -> None:
        for values in (late, later, late):
            for device in (None, "D0", "D1", "D2"):
                await plant.write(device, ["a", "b"], values)
        assert await roll_up(plant.database) == 4 * 24

    async with open_database(running, name="test", size=5) as database:
        moved, left = await record(database, 20, 3), await record(database, 20, 3)
        await write_late(left)
        expected = [rows for rows in await contents(left) if isinstance(rows, list)]
    await asyncio.to_thread(switch_over, owner)
    async with open_database(running, name="test", size=5) as database:
        moved = RecordedPlant(database, moved.organization_id, moved.id)
        await write_late(moved)
        found = [rows for rows in await contents(moved) if isinstance(rows, list)]
    assert [[point[2:] for point in rows] for rows in found] == [[point[2:] for point in rows] for rows in expected]


async def test_retention_and_deletion_as_a_role_that_owns_nothing(owner: str, running: str) -> None:
    await asyncio.to_thread(switch_over, owner)
    async with open_database(running, name="test", size=5) as database:
        short, long = await record(database, 80, 15, 9, 2), await record(database, 80, 15, 9, 2)
        async with database.transaction() as db:
            slug = value(owner, f"SELECT slug FROM organization WHERE id = '{short.organization_id}'")
            await set_retention(db, slug, raw_days=5, minute_days=None, quarter_days=None)
        assert await apply_retention(database, Days(raw=10, minute=12, quarter=40), utc_now())
        rows = "SELECT count(*) FROM telemetry_frame WHERE source_id = {}"
        assert value(owner, rows.format(await short.source("D1"))) == 144
        assert value(owner, rows.format(await long.source("D1"))) == 2 * 144
        execute(owner, f"DELETE FROM plant WHERE id = '{short.id}'")
        assert await erase_deleted(database) == 4
        assert value(owner, "SELECT count(*) FROM telemetry_frame") == 4 * 2 * 144
        assert value(owner, "SELECT count(DISTINCT source_id) FROM telemetry_minute") == 4


async def test_new_sources_of_a_plant_share_a_shard(cluster: CitusCluster, owner: str, running: str) -> None:
    await asyncio.to_thread(switch_over, owner)
    async with open_database(running, name="test", size=5) as database:
        for _ in range(3):
            await record(database, 1, devices=5)
    with psycopg.connect(owner) as connection:
        rows = connection.execute(
            "SELECT id, get_shard_id_for_distribution_column('telemetry_frame', id), plant_id, hashint4(id)"
            " FROM telemetry_source"
        ).fetchall()
    assert len(rows) == 3 * 6
    assert len({(shard, plant) for _, shard, plant, _ in rows}) == 3
    assert all(hash_of(source) == hashed for source, _, _, hashed in rows)


async def test_a_killed_switch_over_continues(owner: str, running: str) -> None:
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, *range(1, 6), devices=1)
        before = await contents(plant)
    kills = 0
    while await asyncio.to_thread(kill_after, owner, APPLY, "-- move ", 3):
        kills += 1
        if value(owner, "SELECT to_regclass('telemetry_frame')") is None:
            async with open_database(running, name="test", size=1) as database:
                with pytest.raises(psycopg.errors.UndefinedTable) as raised:
                    await RecordedPlant(database, plant.organization_id, plant.id).write(None, ["a", "b"], {TODAY: [1.0, 2.0]})
            assert not is_poison(raised.value)  # ingest waits, and refuses no message
    assert kills >= 3
    assert distributed(owner) == set(TABLES)
    assert rows_on_coordinator(owner) == 0
    async with open_database(running, name="test", size=5) as database:
        moved = RecordedPlant(database, plant.organization_id, plant.id)
        assert await contents(moved) == before
        await moved.write(None, ["a", "b"], {TODAY: [1.0, 2.0]})


async def test_what_the_workers_lack_is_one_sentence(cluster: CitusCluster) -> None:
    url = cluster.create("alone", add_workers=False)
    result = await asyncio.to_thread(gridfleet_db, url, *APPLY)
    assert result.exit_code == 1
    assert result.stderr == (
        "cannot scale out: Citus has no worker: add each one with citus_add_node, as docs/deployment.md says\n"
    )
    cluster.add_workers("alone")
    superuser = await asyncio.to_thread(gridfleet_db, cluster.coordinator.url("alone", "postgres"), *APPLY)
    assert superuser.stderr == (
        "cannot scale out: only the owner of the tables can do this: set GRIDFLEET_DATABASE_URL to the account owner\n"
    )
    assert distributed(url) == set()
    assert await check_shards(url) == []
    apply(url, plan(url, HYPERTABLES[:1]).steps)
    [finding] = await check_shards(url)
    assert finding.found.startswith("only some of the tables are distributed")
    await asyncio.to_thread(switch_over, url)


async def test_roll_ups_wait_for_rows_that_a_worker_has_prepared_only(cluster: CitusCluster, name: str, owner: str) -> None:
    """A worker fails between both phases of a commit: the coordinator shows the late hour, and the worker not its frame."""
    await asyncio.to_thread(switch_over, owner)
    hour = TODAY - 2 * DAY
    async with open_database(owner, name="test", size=3) as database:
        plant = await record(database, 2, devices=0)
        source = await plant.source(None)
        shard = value(owner, f"SELECT get_shard_id_for_distribution_column('telemetry_frame', {source})")
        port = value(owner, f"SELECT nodeport FROM citus_shards WHERE shardid = {shard} LIMIT 1")
        worker = next(node for node in cluster.workers if node.port == port)
        gid = f"citus_0_{os.getpid()}_1_1"
        with psycopg.connect(worker.url(name, "postgres"), autocommit=True) as prepared:
            prepared.execute("BEGIN")
            prepared.execute(
                f"INSERT INTO telemetry_frame_{shard} SELECT source_id, layout_id, %s, vals FROM telemetry_frame_{shard}"
                " WHERE source_id = %s ORDER BY time LIMIT 1".encode(),
                (hour + MINUTE, source),
            )
            prepared.execute(f"PREPARE TRANSACTION '{gid}'".encode())
            group = value(owner, f"SELECT groupid FROM pg_dist_node WHERE nodeport = {port}")
            cluster.coordinator.execute("ALTER SYSTEM SET citus.recover_2pc_interval = -1", "SELECT pg_reload_conf()")
            await asyncio.sleep(1)
            with psycopg.connect(cluster.coordinator.url(name, "postgres")) as coordinator:
                coordinator.execute("INSERT INTO pg_dist_transaction (groupid, gid) VALUES (%s, %s)", (group, gid))
                coordinator.execute("INSERT INTO telemetry_dirty (source_id, hour) VALUES (%s, %s)", (source, hour))
            async with database.transaction() as db:
                with pytest.raises(NotSettled) as raised:
                    await settle(db)
            assert not is_poison(raised.value, is_retried=True)
            with pytest.raises(NotSettled):
                await roll_up(database)
            assert value(owner, "SELECT count(*) FROM telemetry_dirty") == 1
            prepared.execute(f"COMMIT PREPARED '{gid}'".encode())
        cluster.coordinator.execute("ALTER SYSTEM RESET citus.recover_2pc_interval", "SELECT pg_reload_conf()")
        assert await roll_up(database) == 1
        query = f"SELECT counts[1] FROM telemetry_hour WHERE source_id = {source} AND bucket = '{hour.isoformat()}'"
        assert value(owner, query) == 7


async def test_a_dump_is_restored_and_distributed_again(cluster: CitusCluster, name: str, owner: str, running: str) -> None:
    await asyncio.to_thread(switch_over, owner)
    async with open_database(running, name="test", size=5) as database:
        plant = await record(database, 20, 3)
        before = await contents(plant)
    restored = f"{name}_restored"
    copy = cluster.coordinator.url(restored)
    for node in cluster.nodes:
        node.execute(f"CREATE DATABASE {restored} OWNER owner")
        node.execute("CREATE EXTENSION citus", database=restored)
    cluster.add_workers(restored)
    await asyncio.to_thread(dump_and_restore, owner, copy)
    await asyncio.to_thread(switch_over, copy)
    async with open_database(cluster.coordinator.url(restored, "running"), name="test", size=5) as database:
        assert await contents(RecordedPlant(database, plant.organization_id, plant.id)) == before
    cluster.drop(restored)


def dump_and_restore(url: str, copy: str) -> None:
    """Copy a database as `docs/deployment.md` describes it."""
    assert PROGRAMS is not None
    environment = {**os.environ, "PGSSLMODE": "disable"}
    dump = [PROGRAMS / "pg_dump", "--format=custom", "--extension=plpgsql", "--dbname", url]
    dumping = subprocess.Popen(dump, stdout=subprocess.PIPE, env=environment)
    restore = [PROGRAMS / "pg_restore", "--exit-on-error", "--no-comments", "--dbname", copy]
    subprocess.run(restore, stdin=dumping.stdout, check=True, env=environment)
    assert dumping.wait() == 0
    migrate(copy)
    grant(copy, "running")


@pytest.mark.timeout(1_800)
async def test_four_kills_of_a_worker_cost_nothing(cluster: CitusCluster, name: str, owner: str, figure: Figure) -> None:
    """Two ingest processes write meanwhile. Each hour is then rolled up as its frames say."""
    await asyncio.to_thread(switch_over, owner)
    changes = {"ingest_processes": 2, "database_url": owner}
    with running_stack("citus", changes) as stack, closing(Fleet(stack)) as fleet:
        async with under_load(fleet) as load:
            for number in range(KILLS):
                await load.flows(300)
                worker = cluster.workers[number % len(cluster.workers)]
                await asyncio.to_thread(worker.stop, "immediate")
                await asyncio.sleep(2)
                await asyncio.to_thread(worker.start)
                began = time.monotonic()
                await load.flows()
                await load.is_stored()
                figure("new values are stored after a kill of a worker", time.monotonic() - began, "s", GOAL_SECONDS)
        await compare(load)
        print(f"{load.confirmed} frames were confirmed, and all are stored")
