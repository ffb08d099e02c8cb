"""Changes of plants and sub-devices, as ingest processes receive them from the database."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import psycopg
import pytest

from gridfleet.domains.ingest.cached_plants import CachedDevice, CachedPlant
from gridfleet.domains.ingest.changes import receivers
from gridfleet.kernel.db import Database
from support.builders.accounts import add_organization
from support.builders.alerting import add_rule
from support.clients.ingest_bench import Bench, BenchPlant, moment


def snapshot(second: int, **devices: dict[str, float]) -> dict[str, object]:
    """Return a snapshot with these fields of devices."""
    entries = [{"id": external_id, "fields": fields} for external_id, fields in devices.items()]
    return {"time": moment(second).isoformat(), "devices": entries}


class Process:
    """An ingest process and the notifications for it."""

    def __init__(self, bench: Bench, notifications: psycopg.AsyncConnection[Any]) -> None:
        self.bench = bench
        self._notifications = notifications

    async def change(self, statement: str, *values: object) -> None:
        """Execute a statement and pass on what the database notifies."""
        async with self.bench.database.transaction() as db:
            await db.execute(statement.encode(), values)
        await self._receive()

    async def plant(self, devices: Sequence[str]) -> BenchPlant:
        """Return a new plant, whose notifications were passed on."""
        plant = await self.bench.plant(devices)
        await self._receive()
        return plant

    async def devices(self, plant: BenchPlant) -> dict[str, CachedDevice]:
        """Return the cached sub-devices by external id."""
        return dict((await self.cached(plant)).devices)

    async def cached(self, plant: BenchPlant) -> CachedPlant:
        return (await self.bench.pipeline.plant_cache.plants([str(plant.id)]))[str(plant.id)]

    async def _receive(self) -> None:
        receiving = receivers(self.bench.pipeline)
        async for notice in self._notifications.notifies(timeout=0.3):
            for receive in receiving[notice.channel]:
                receive(notice.payload)


@pytest.fixture
async def process(database: Database) -> AsyncIterator[Process]:
    bench = Bench(database)
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as notifications:
        for channel in receivers(bench.pipeline):
            await notifications.execute(f"LISTEN {channel}".encode())
        yield Process(bench, notifications)


_ADD = (
    "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
    " SELECT gen_random_uuid(), organization_id, id, %s, 'Device', 'METER' FROM plant WHERE id = %s"
)


async def test_a_change_of_a_device_reads_no_other_device(process: Process) -> None:
    """A plant may have 20,000: they took 0.9 s at each change of one of them, in which the messages of all plants waited."""
    plant = await process.plant(["D1", "D2", "D3"])
    before = await process.devices(plant)
    await process.change("UPDATE sub_device SET template_id = NULL, name = 'New' WHERE external_id = 'D3'")
    await process.change("DELETE FROM sub_device WHERE external_id = 'D2'")
    await process.change(_ADD, "D2", plant.id)
    await process.change(_ADD, "D5", plant.id)
    devices = await process.devices(plant)
    assert devices.keys() == {"D1", "D2", "D3", "D5"}
    assert [devices[name] is before[name] for name in before] == [True, False, True]
    assert devices["D2"].source_id != before["D2"].source_id
    await process.bench.take(plant.message(snapshot(0, **{name: {"a": 1} for name in devices})))
    assert (await plant.stored()).keys() == {"D1.a", "D2.a", "D3.a", "D5.a"}


async def test_a_device_that_gets_a_template_is_read_by_it(process: Process) -> None:
    plant = await process.plant(["D1"])
    template_id = await plant.add_device("D2", [{"key": "k", "field": "f", "scale": 10}])
    await process.bench.take(plant.message(snapshot(0, D1={"f": 1})))
    await process.change("UPDATE sub_device SET template_id = %s WHERE external_id = 'D1'", template_id)
    await process.bench.take(plant.message(snapshot(1, D1={"f": 1})))
    assert await plant.stored() == {"D1.f": {moment(0): 1}, "D1.k": {moment(1): 10}}


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE plant SET template_id = NULL WHERE id = %s",
        "UPDATE plant SET lifecycle_status = 'SUSPENDED' WHERE id = %s",
        "UPDATE plant_secret SET previous_hmac_secret = NULL WHERE plant_id = %s",
    ],
)
async def test_a_change_of_a_plant_reads_none_of_its_devices(process: Process, change: str) -> None:
    plant = await process.plant(["D1", "D2"])
    cached, before = await process.cached(plant), await process.devices(plant)
    await process.change(change, plant.id)
    after = await process.cached(plant)
    assert after is not cached
    assert [after.devices[name] is before[name] for name in before] == [True, True]
    assert after.itself.source_id == cached.itself.source_id


async def test_a_plant_that_moves_keeps_its_devices(process: Process) -> None:
    plant, buyer = await process.plant(["D1"]), await add_organization(process.bench.database)
    before = await process.devices(plant)
    await process.change(
        "WITH moved AS (UPDATE sub_device SET organization_id = %s WHERE plant_id = %s)"
        " UPDATE plant SET organization_id = %s WHERE id = %s",
        *(buyer.id, plant.id) * 2,
    )
    after = await process.cached(plant)
    assert after.organization_id == buyer.id
    assert after.devices["D1"] is before["D1"]


async def test_a_plant_that_is_deleted_is_not_kept(process: Process) -> None:
    plant = await process.plant(["D1"])
    await process.cached(plant)
    await process.change("DELETE FROM plant WHERE id = %s", plant.id)
    assert await process.bench.pipeline.plant_cache.plants([str(plant.id)]) == {}
    assert (await process.bench.take(plant.message(snapshot(0, D1={"a": 1})))).results == {"unknown_plant": 1}


async def test_statuses_are_written_again_after_a_change_of_the_plant(process: Process) -> None:
    """A suspension sets them to UNKNOWN in the database."""
    plant = await process.plant(["D1"])
    await process.bench.take(plant.message(snapshot(0, D1={"a": 1})))
    for lifecycle in ("SUSPENDED", "ACTIVE"):
        await process.change("UPDATE plant SET lifecycle_status = %s WHERE id = %s", lifecycle, plant.id)
    batch = await process.bench.take(plant.message(snapshot(1, D1={"a": 1})))
    assert (len(batch.plants_seen), len(batch.devices_seen)) == (1, 1)


async def test_thousands_of_changes_between_two_messages_are_one_read(process: Process) -> None:
    plant = await process.plant(["D0"])
    before = await process.devices(plant)
    await process.change(
        "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
        " SELECT gen_random_uuid(), organization_id, id, 'D' || n, 'Device', 'METER'"
        " FROM plant, generate_series(1, 2000) n WHERE plant.id = %s",
        plant.id,
    )
    after = await process.devices(plant)
    assert after.keys() == {f"D{n}" for n in range(2001)}
    assert after["D0"] is not before["D0"]


async def test_a_change_that_cannot_be_read_is_read_later(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = await process.plant(["D1"])
    await process.cached(plant)
    await process.change(_ADD, "D2", plant.id)

    async def fails(*_: object) -> None:
        raise psycopg.OperationalError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr("gridfleet.domains.ingest.plant_cache.load_device_sources", fails)
        with pytest.raises(psycopg.OperationalError):
            await process.cached(plant)
    assert (await process.cached(plant)).devices.keys() == {"D1", "D2"}


@pytest.mark.parametrize(
    ("statement", "kept"),
    [
        ("DELETE FROM sub_device WHERE external_id = 'D1' AND plant_id = %s", 1),
        ("UPDATE plant SET lifecycle_status = 'SUSPENDED' WHERE id = %s", 1),
        ("DELETE FROM plant WHERE id = %s", 1),
        ("UPDATE alert_rule SET threshold = 2 WHERE organization_id = (SELECT organization_id FROM plant WHERE id = %s)", 1),
        ("UPDATE plant SET last_seen_at = now() WHERE id = %s", 3),
    ],
)
async def test_a_change_invalidates_the_checks_that_depend_on_it(process: Process, statement: str, kept: int) -> None:
    changed, other = await process.plant(["D1"]), await process.plant([])
    for plant in (changed, other):
        await add_rule(process.bench.database, plant.organization_id, metric="a")
    await process.change("SELECT")  # passes on that there are rules
    own = {"time": moment(1).isoformat(), "fields": {"a": 50}}
    await process.bench.take(changed.message(snapshot(0, D1={"a": 50})), changed.message(own), other.message(own))
    cache = process.bench.pipeline.rule_cache
    assert len(cache) == 3
    await process.change(statement, changed.id)
    assert len(cache) == kept
