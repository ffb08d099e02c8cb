"""A thousand plants that go silent at once cost a row each and a handful of statements."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.presence.records import sweep_all_silent, sweep_silent
from gridfleet.kernel.db import Connection, Database
from support.builders.accounts import add_organization
from support.builders.large_changes import end_large_changes
from support.clients.ingest_bench import Bench

PLANTS = 1_000


async def online_plants(database: Database, devices: int) -> list[UUID]:
    """ACTIVE plants that spoke ten minutes ago, with ONLINE sub-devices."""
    organization = await add_organization(database)
    async with database.transaction() as db:
        cursor = await db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status, status,"
            " last_seen_at) SELECT gen_random_uuid(), %s, 'Plant', n::text, 'GATEWAY', 'PASSWORD', 'ACTIVE', 'ONLINE',"
            " now() - interval '10 minutes' FROM generate_series(1, %s) AS n RETURNING id",
            (organization.id, PLANTS),
        )
        plants = [row[0] for row in await cursor.fetchall()]
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, status, last_seen_at)"
            " SELECT gen_random_uuid(), organization_id, id, 'D' || n, 'd', 'METER', 'ONLINE', last_seen_at"
            " FROM plant, generate_series(1, %s) AS n",
            (devices,),
        )
    return plants


class Counted:
    """What a block did: statements sent, rows updated by table."""

    statements = 0
    updated: dict[str, int]


@asynccontextmanager
async def counted(database: Database) -> AsyncIterator[tuple[Connection, Counted]]:
    """A transaction whose statements and updated rows are counted."""
    count = Counted()

    def counting(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def counted_call(*arguments: Any, **options: Any) -> Any:
            count.statements += 1
            return await call(*arguments, **options)

        return counted_call

    async with database.transaction() as db:
        plain = db.execute
        before = await updated_rows(plain)
        db.execute = counting(plain)  # type: ignore[method-assign]
        yield db, count
        count.updated = {table: rows - before[table] for table, rows in (await updated_rows(plain)).items()}
        db.execute = plain  # type: ignore[method-assign]


async def updated_rows(execute: Callable[..., Awaitable[Any]]) -> dict[str, int]:
    """Rows that the connection has updated: also those of its last second, which it has not reported to the server yet."""
    cursor = await execute(
        "SELECT relname, pg_stat_get_xact_tuples_updated(oid) FROM pg_class WHERE relname IN ('plant', 'sub_device')"
    )
    return dict(await cursor.fetchall())


async def test_a_storm_of_silence_is_a_row_a_plant_and_three_statements(database: Database) -> None:
    await online_plants(database, devices=6)

    async with counted(database) as (db, count):
        assert await sweep_silent(db) == (PLANTS, 0)

    assert count.statements == 3
    assert count.updated == {"plant": PLANTS, "sub_device": 6 * PLANTS}
    async with counted(database) as (db, again):
        assert await sweep_silent(db) == (0, 0)
    assert again.updated == {"plant": 0, "sub_device": 0}


async def test_silence_of_a_large_fleet_is_written_in_many_statements(database: Database) -> None:
    """One transaction would hold the rows of all plants for many seconds, and end without a result after half a minute."""
    await online_plants(database, devices=6)
    await end_large_changes(database, "plant", PLANTS // 2, "UPDATE")
    await end_large_changes(database, "sub_device", 6 * PLANTS // 2, "UPDATE")

    await sweep_all_silent(database)

    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT p.status, d.status, count(*) FROM plant p JOIN sub_device d ON d.plant_id = p.id GROUP BY 1, 2"
        )
        assert await cursor.fetchall() == [("OFFLINE", "UNKNOWN", 6 * PLANTS)]


async def test_a_storm_of_last_wills_is_a_row_a_plant_too(database: Database, bench: Bench) -> None:
    plants = await online_plants(database, devices=0)
    wills = [Delivery(f"v1.plants.{plant}.status", b'{"status":"OFFLINE"}', 0) for plant in plants]
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as listening:
        for channel in ("plant_updated", "sub_device_changed"):
            await listening.execute(f"LISTEN {channel}".encode())

        batch = await bench.pipeline.prepare(wills)
        async with counted(database) as (db, count):
            await bench.pipeline.store(db, batch)

        notices = [notice.payload async for notice in listening.notifies(timeout=0.5)]
    assert batch.results == {"accepted": PLANTS}
    assert count.statements <= 3
    assert count.updated["plant"] == PLANTS
    assert notices == [], "no cache of plants has to read them again"
    async with database.transaction() as db:
        rows = await (await db.execute("SELECT DISTINCT status FROM plant")).fetchall()
    assert rows == [("OFFLINE",)]
