"""Transactions lock the rows of several plants in one order, or skip locked rows. None of them ends in a deadlock."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from gridfleet.domains.plants.commands.delivery import record_published
from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.domains.plants.lifecycle import delete_plant
from gridfleet.domains.plants.models import PlantChanges, PlantStatus
from gridfleet.domains.plants.presence.records import DeviceSeen, PlantSeen, record_presence, sweep_silent
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.interleaving import is_locked, until_blocked
from support.clients.commands_at_work import add_commandable, issue, row
from support.clients.ingest_bench import Bench, BenchPlant, moment


@dataclass
class TwoPlants:
    """Plants with a sub-device each; the rows with the lower ids are stored behind the others."""

    database: Database
    plants: list[UUID]
    devices: list[UUID]

    @asynccontextmanager
    async def held_up(self, table: str, row_id: UUID, work: Callable[[Connection], Awaitable[object]]) -> AsyncIterator[None]:
        """In the block, `work` waits in its transaction for the row; afterwards it ends."""

        async def run() -> None:
            async with self.database.transaction() as db:
                await work(db)

        async with self.database.transaction() as db:
            await db.execute(f"SELECT FROM {table} WHERE id = %s FOR NO KEY UPDATE".encode(), (row_id,))
            running = asyncio.create_task(run())
            await until_blocked(self.database)
            yield
        await running

    def seen(self, number: int, status: PlantStatus = PlantStatus.ONLINE) -> PlantSeen:
        return PlantSeen(self.plants[number], datetime.now(UTC), status, None)

    def device_seen(self, number: int) -> DeviceSeen:
        return DeviceSeen(self.devices[number], datetime.now(UTC), SubDeviceStatus.ONLINE, None)

    async def statuses(self) -> list[str]:
        async with self.database.transaction() as db:
            cursor = await db.execute("SELECT status FROM plant ORDER BY id")
            return [row[0] for row in await cursor.fetchall()]


@pytest.fixture
async def two(database: Database) -> TwoPlants:
    bench = Bench(database)
    for _ in range(2):
        await bench.plant(["D"])
    async with database.transaction() as db:
        ids = {}
        for table in ("plant", "sub_device"):
            ids[table] = [row[0] for row in await (await db.execute(f"SELECT id FROM {table} ORDER BY id")).fetchall()]
            await db.execute(f"UPDATE {table} SET name = 'Moved' WHERE id = %s".encode(), (ids[table][0],))
    return TwoPlants(database, ids["plant"], ids["sub_device"])


async def test_presence_locks_plants_by_their_ids(two: TwoPlants) -> None:
    seen = [two.seen(1), two.seen(0)]
    async with two.held_up("plant", two.plants[0], lambda db: record_presence(db, seen, [])):
        assert not await is_locked(two.database, "plant", two.plants[1])
    assert await two.statuses() == ["ONLINE", "ONLINE"]


async def test_bad_signatures_are_counted_in_the_order_of_the_plants(database: Database) -> None:
    bench = Bench(database)
    first, second, third = [await bench.plant() for _ in range(3)]
    forged = replace(second, key=bytes(32)), replace(first, key=bytes(32))
    # A message about the presence of a plant is written in the same order.
    messages = [third.delivery(b'{"status":"ONLINE"}', "status"), *(plant.message({"fields": {}}) for plant in forged)]
    batch = await bench.pipeline.prepare(messages)
    assert (set(batch.plants_seen), batch.bad_signatures) == ({third.id}, {second.id: 1, first.id: 1})
    two = TwoPlants(database, [first.id, second.id, third.id], [])
    async with two.held_up("plant", first.id, lambda db: bench.pipeline.store(db, batch)):
        assert not await is_locked(database, "plant", second.id)
        assert not await is_locked(database, "plant", third.id)
    assert await first.rows("SELECT auth_failure_count FROM plant WHERE id = %s") == [(1,)]
    assert await second.rows("SELECT auth_failure_count FROM plant WHERE id = %s") == [(1,)]
    assert await two.statuses() == ["UNKNOWN", "UNKNOWN", "ONLINE"]


async def test_presence_locks_sub_devices_by_their_ids(two: TwoPlants) -> None:
    seen = [two.device_seen(1), two.device_seen(0)]
    async with two.held_up("sub_device", two.devices[0], lambda db: record_presence(db, [], seen)):
        assert not await is_locked(two.database, "sub_device", two.devices[1])


async def test_presence_locks_the_sub_devices_of_plants_that_went_offline_among_the_others(two: TwoPlants) -> None:
    async with two.database.transaction() as db:
        await db.execute("UPDATE sub_device SET status = 'ONLINE'")
    gone, seen = [two.seen(0, PlantStatus.OFFLINE)], [two.device_seen(1)]
    async with two.held_up("sub_device", two.devices[0], lambda db: record_presence(db, gone, seen)):
        assert not await is_locked(two.database, "sub_device", two.devices[1])


@pytest.mark.parametrize("table", ["plant", "sub_device"])
async def test_the_sweep_passes_over_what_is_being_written(two: TwoPlants, table: str) -> None:
    async with two.database.transaction() as db:
        await record_presence(db, [two.seen(0), two.seen(1)], [two.device_seen(0), two.device_seen(1)])
        await db.execute(f"UPDATE {table} SET last_seen_at = now() - interval '2 minutes'".encode())
    row_id = two.plants[0] if table == "plant" else two.devices[0]
    one, none = ((1, 0), (0, 0)) if table == "plant" else ((0, 1), (0, 0))
    async with two.database.transaction() as writing:
        await writing.execute(f"SELECT FROM {table} WHERE id = %s FOR NO KEY UPDATE".encode(), (row_id,))
        async with two.database.transaction() as db, asyncio.timeout(3):
            assert await sweep_silent(db) == one
    async with two.database.transaction() as db:
        assert await sweep_silent(db) == one
        assert await sweep_silent(db) == none


async def test_a_deletion_locks_open_commands_as_acknowledgements_do(database: Database) -> None:
    plant: BenchPlant = await Bench(database).plant()
    await add_commandable(plant)
    first, second = [await issue(plant) for _ in range(2)]
    caller = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", False, None)
    org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)
    two = TwoPlants(database, [plant.id], [])
    async with two.held_up("plant_command", first, lambda db: delete_plant(db, org, plant.id)):
        assert not await is_locked(database, "plant_command", second)
    assert await two.statuses() == []


async def test_a_sender_locks_commands_as_acknowledgements_do(database: Database) -> None:
    bench = Bench(database)
    connected, away = [await bench.plant() for _ in range(2)]
    for plant in (connected, away):
        await add_commandable(plant)
    sent, waiting = await issue(connected), await issue(away)
    now = datetime.now(UTC)
    async with database.transaction() as db:
        claimed = await sending.claim(db, now, [connected.id, away.id], timedelta(seconds=5), timedelta(minutes=2), 10)
    assert [command.id for command in claimed] == [sent, waiting]
    published = [(claimed[0], True), (claimed[1], False)]
    two = TwoPlants(database, [connected.id, away.id], [])
    async with two.held_up("plant_command", sent, lambda db: record_published(db, now, published, None)):
        assert not await is_locked(database, "plant_command", waiting)
    assert [await row(database, one, "status") for one in (sent, waiting)] == [("SENT",), ("PENDING",)]


@pytest.mark.parametrize("end", ["deletion", "move"])
@pytest.mark.parametrize("other", ["acknowledgement", "unregistered device"])
async def test_a_batch_and_the_end_of_its_plant_do_not_deadlock(database: Database, end: str, other: str) -> None:
    plant: BenchPlant = await Bench(database).plant()
    await add_commandable(plant)
    await plant.add_device("D")
    command_id, buyer = await issue(plant), await add_organization(database)
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)

    def snapshot(status: str, *others: str) -> bytes:
        devices = [{"id": name, "fields": {}, "status": status} for name in ("BAT1", "D", *others)]
        return json.dumps({"time": moment(0).isoformat(), "devices": devices}).encode()

    async def finish(db: Connection) -> None:
        if end == "deletion":
            await delete_plant(db, org, plant.id)
        else:
            await update_plant(db, org, plant.id, PlantChanges(organization_id=buyer.id))

    async def run(work: Callable[[Connection], Awaitable[object]]) -> None:
        async with database.transaction() as db:
            await work(db)

    await plant.bench.take(plant.message(snapshot("ONLINE")))
    # The plant's own presence was just written, so this batch writes only that of its sub-devices.
    messages = [plant.message(snapshot("DEGRADED", *(["NEW"] if other == "unregistered device" else [])))]
    if other == "acknowledgement":
        ack = {"commandId": str(command_id), "status": "APPLIED", "time": datetime.now(UTC).isoformat()}
        messages.append(plant.message(ack, channel="ack"))
    batch = await plant.bench.pipeline.prepare(messages)
    assert (len(batch.plants_seen), len(batch.devices_seen)) == (0, 2)
    devices = await plant.rows("SELECT id FROM sub_device WHERE plant_id = %s ORDER BY id")
    two = TwoPlants(database, [plant.id], [row[0] for row in devices])
    async with two.held_up("sub_device", two.devices[1], lambda db: plant.bench.pipeline.store(db, batch)):
        finishing = asyncio.create_task(run(finish))
        await until_blocked(database, 2)
    await finishing
    assert len(await plant.rows("SELECT FROM plant WHERE id = %s")) == (end == "move")
