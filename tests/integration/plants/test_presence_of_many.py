"""What a batch of the ingest costs that has seen many plants and sub-devices."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.presence.records import DeviceSeen, PlantSeen, record_presence
from gridfleet.domains.plants.sub_devices import store
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.kernel.db import Connection, Database
from support.clients.executed_statements import executed_statements
from support.clients.ingest_bench import Bench

PLANTS = 300
COPIES = (
    "INSERT INTO plant SELECT copy.* FROM plant p, generate_series(2, %s) number, LATERAL jsonb_populate_record(p,"
    " jsonb_build_object('id', gen_random_uuid(), 'serial_number', number::text)) copy",
    "DELETE FROM sub_device",
    "INSERT INTO sub_device (id, plant_id, organization_id, external_id, type, name)"
    " SELECT gen_random_uuid(), p.id, p.organization_id, 'D' || n, 'INVERTER', '' FROM plant p, generate_series(1, 6) n",
)


@pytest.fixture
async def fleet(database: Database) -> tuple[list[UUID], list[UUID]]:
    """The ids of many plants and of their sub-devices."""
    await Bench(database).plant()
    async with database.transaction() as db:
        for statement in COPIES:
            await db.execute(statement, (PLANTS,) if "%s" in statement else None)
        plants = await (await db.execute("SELECT id FROM plant")).fetchall()
        devices = await (await db.execute("SELECT id FROM sub_device")).fetchall()
    return [plant for (plant,) in plants], [device for (device,) in devices]


async def test_presence_hardly_changes_indexes(database: Database, fleet: tuple[list[UUID], list[UUID]]) -> None:
    """A third of the new versions did not fit into the page of the former, so that each index got an entry more.

    The first time makes the rows longer.
    """
    plants, devices = fleet
    now = datetime.now(UTC)
    for second in range(2):
        async with database.autocommit() as db:
            await db.execute("VACUUM plant, sub_device")
        async with database.transaction() as db:
            before = await _updates(db)
            at = now + timedelta(seconds=second)
            seen = [DeviceSeen(one, at, SubDeviceStatus.ONLINE, 60) for one in devices]
            await record_presence(db, [PlantSeen(one, at, PlantStatus.ONLINE, 60) for one in plants], seen)
            after = await _updates(db)
    shares = {}
    for table, rows in {"plant": PLANTS, "sub_device": 6 * PLANTS}.items():
        written = after[table] - before[table]
        assert written["rows"] == rows
        shares[table] = written["hot"] / rows
    assert min(shares.values()) > 0.9, shares


async def test_locking_many_sub_devices_does_not_compare_all_pairs(
    database: Database, fleet: tuple[list[UUID], list[UUID]]
) -> None:
    """Of 137 ms for 9,528 sub-devices, 120 went into comparing each with the ids of all."""
    plants, devices = fleet
    async with database.transaction() as db:
        with executed_statements() as statements:
            await store.lock_many(db, devices, plants[:1])
        cursor = await db.execute(f"EXPLAIN (FORMAT JSON) {statements[0]}", (devices, plants[:1]))
        [([explained],)] = await cursor.fetchall()
    assert explained["Plan"]["Node Type"] == "LockRows"
    assert _filters(explained["Plan"]) == []


def _filters(node: dict[str, Any]) -> list[str]:
    """Return the filters of the nodes that read the rows to be locked."""
    children = [child for child in node.get("Plans", ()) if child["Parent Relationship"] == "Outer"]
    return [node[key] for key in ("Filter",) if key in node] + [found for child in children for found in _filters(child)]


async def _updates(db: Connection) -> dict[str, Counter[str]]:
    """Return how many rows of each table this connection has updated since its last report.

    `hot` are those without a change of an index.
    """
    cursor = await db.execute(
        "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname IN ('plant', 'sub_device')"
    )
    return {table: Counter(rows=rows, hot=hot) for table, rows, hot in await cursor.fetchall()}
