"""A plant's status when one process reads its telemetry and another its status messages."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import psycopg
import pytest

from gridfleet.domains.ingest import cached_plants, early_messages
from gridfleet.domains.ingest.early_messages import write_early_messages
from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.plants.presence.records import sweep_silent
from gridfleet.kernel.db.notifications import notify_all
from support.builders.clock import set_clock
from support.clients.ingest_bench import Bench, BenchPlant, moment
from support.servers.ingest_line import Line, until

ONLINE, OFFLINE = b'{"status":"ONLINE"}', b'{"status":"OFFLINE"}'


@dataclass
class TwoProcesses:
    """A plant with a sub-device D, and the pipelines of two processes that receive the database's notifications."""

    bench: Bench
    plant: BenchPlant
    notifications: psycopg.AsyncConnection
    telemetry: Pipeline
    status: Pipeline

    def snapshot(self, clock_ahead_seconds: int = 0) -> Delivery:
        """Return a measurement of D, sent now."""
        payload = {"time": moment(0).isoformat(), "devices": [{"id": "D", "fields": {"a": 1}}]}
        return self.plant.message(payload, sent_at=time.time_ns() // 1_000_000 + clock_ahead_seconds * 1000)

    async def read_telemetry(self, message: Delivery) -> Batch:
        return await self._take(message, self.telemetry)

    async def read_status(self, body: bytes) -> Batch:
        return await self._take(self.plant.delivery(body, "status"), self.status)

    async def notify(self) -> None:
        """Pass on what the database has notified, and write what was read before, as the worker does."""
        async for notice in self.notifications.notifies(timeout=0.2):
            for process in (self.telemetry, self.status):
                process.plant_cache.invalidate_status(notice.payload)
        for process in (self.telemetry, self.status):
            async with self.bench.database.transaction() as db:
                await write_early_messages(db, process.plant_cache.early_messages.take())

    async def statuses(self) -> tuple[str, str]:
        """Return the status of the plant and of its sub-device."""
        [(plant, device)] = await self.rows("p.status, d.status")
        return plant, device

    async def rows(self, columns: str) -> list[tuple[str, str]]:
        return await self.plant.rows(f"SELECT {columns} FROM plant p JOIN sub_device d ON d.plant_id = p.id WHERE p.id = %s")

    async def _take(self, delivery: Delivery, pipeline: Pipeline) -> Batch:
        batch = await self.bench.take(delivery, pipeline=pipeline)
        assert batch.results == {"accepted": 1}
        await self.notify()
        return batch


@pytest.fixture
async def two(bench: Bench) -> AsyncIterator[TwoProcesses]:
    plant = await bench.plant(["D"])
    async with await psycopg.AsyncConnection.connect(bench.database.url, autocommit=True) as notifications:
        await notifications.execute("LISTEN plant_offline")
        yield TwoProcesses(bench, plant, notifications, bench.another_process(), bench.another_process())


async def test_telemetry_brings_a_plant_back_at_once(two: TwoProcesses) -> None:
    for _ in range(3):
        await two.read_telemetry(two.snapshot())
        assert await two.statuses() == ("ONLINE", "ONLINE")
        await two.read_status(OFFLINE)
        assert await two.statuses() == ("OFFLINE", "UNKNOWN")


async def test_a_sub_device_is_online_again_after_a_reconnection(two: TwoProcesses) -> None:
    await two.read_telemetry(two.snapshot())
    await two.read_status(OFFLINE)
    await two.read_status(ONLINE)
    assert await two.statuses() == ("ONLINE", "UNKNOWN")
    await two.read_telemetry(two.snapshot())
    assert await two.statuses() == ("ONLINE", "ONLINE")


async def test_a_plant_found_silent_by_another_process_is_online_with_its_next_message(
    two: TwoProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seconds_ago in (105, 100):  # the second one is newer than what is written
        with monkeypatch.context() as then:
            set_clock(then, lambda ago=seconds_ago: datetime.now(UTC) - timedelta(seconds=ago))
            await two.read_telemetry(two.snapshot(-seconds_ago))
    async with two.bench.database.transaction() as db:
        await sweep_silent(db)
    await two.notify()
    assert await two.statuses() == ("OFFLINE", "UNKNOWN")
    await two.read_telemetry(two.snapshot())
    assert await two.statuses() == ("ONLINE", "ONLINE")


@pytest.mark.parametrize("clock_ahead_seconds", [-300, 0, 300])
async def test_what_a_plant_sent_before_it_went_offline_does_not_bring_it_back(
    two: TwoProcesses, clock_ahead_seconds: int
) -> None:
    for _ in range(3):
        await two.read_telemetry(two.snapshot(clock_ahead_seconds))
    late = two.snapshot(clock_ahead_seconds)
    await asyncio.sleep(0.1)
    await two.read_status(OFFLINE)
    await two.read_telemetry(late)
    assert await two.statuses() == ("OFFLINE", "UNKNOWN")
    assert set(await two.plant.stored()) == {"D.a"}
    await two.read_telemetry(two.snapshot(clock_ahead_seconds))
    assert await two.statuses() == ("ONLINE", "ONLINE")


@pytest.mark.local_tables(reason="the owner of the distributed tables is no superuser")
async def test_a_message_read_before_the_notification_of_offline_brings_a_plant_back(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement changes no cached status, so a process that learns of OFFLINE after it writes nothing for it."""
    monkeypatch.setattr(cached_plants, "PRESENCE_EVERY_MS", 600_000)
    monkeypatch.setattr(early_messages, "AT_ONCE", 1)
    stays, returns = plants = [await line.bench.plant(["D", "E"]) for _ in range(2)]

    async def are_stored(count: int) -> bool:
        return all([len((await plant.stored()).get("D.a", ())) == count for plant in plants])

    async with line.worker():
        await until(partial(is_listening, line.bench))
        await line.publish(*(measurement(plant, 0, "D", "E") for plant in plants))
        await until(partial(are_stored, 1))
        await store_offline_unnotified(line.bench, stays.id, "10 seconds")
        await store_offline_unnotified(line.bench, returns.id, "0 seconds")
        await line.publish(*(measurement(plant, 1, "D") for plant in plants))
        await until(partial(are_stored, 2))
        assert [await statuses(plant) for plant in plants] == [["OFFLINE", "UNKNOWN", "UNKNOWN"]] * 2

        async with line.bench.database.transaction() as db:
            await notify_all(db, "plant_offline", [str(plant.id) for plant in plants])

        await until(partial(has_statuses, returns, ["ONLINE", "ONLINE", "UNKNOWN"]), 30)
        assert await statuses(stays) == ["OFFLINE", "UNKNOWN", "UNKNOWN"]


async def test_a_message_read_with_one_that_is_older_than_offline_brings_a_plant_back(two: TwoProcesses) -> None:
    await two.read_telemetry(two.snapshot())
    late = two.snapshot()
    await asyncio.sleep(0.1)
    await two.read_status(OFFLINE)
    await two.bench.take(late, two.snapshot(), pipeline=two.telemetry)
    await two.notify()
    assert await two.statuses() == ("ONLINE", "ONLINE")


@pytest.mark.parametrize("is_read_first", [False, True])
async def test_a_message_that_is_older_than_offline_and_read_with_it_does_not_bring_a_plant_back(
    two: TwoProcesses, is_read_first: bool
) -> None:
    for _ in range(3):
        await two.read_telemetry(two.snapshot())
    late = two.snapshot()
    await asyncio.sleep(0.1)
    offline = two.plant.delivery(OFFLINE, "status")
    await two.bench.take(*((late, offline) if is_read_first else (offline, late)), pipeline=two.telemetry)
    await two.notify()
    assert await two.statuses() == ("OFFLINE", "UNKNOWN")
    await two.read_telemetry(two.snapshot())
    assert await two.statuses() == ("ONLINE", "ONLINE")


async def test_a_late_entry_does_not_change_the_status_of_a_sub_device(bench: Bench) -> None:
    plant = await bench.plant(["D"])
    for minutes_ago, own, expected in (
        (60, "OFFLINE", "OFFLINE"),
        (1, "ONLINE", "ONLINE"),
        (30, "OFFLINE", "ONLINE"),
        (0, "DEGRADED", "DEGRADED"),
        (20, None, "DEGRADED"),
        (0, "ONLINE", "ONLINE"),
    ):
        entry = {"id": "D", "fields": {"a": 1}, **({"status": own} if own else {})}
        await bench.take(plant.message({"time": moment(-60 * minutes_ago).isoformat(), "devices": [entry]}))
        assert await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s") == [(expected,)]


async def test_a_gateway_may_repeat_the_last_measurement_of_a_sub_device_that_it_does_not_reach(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await bench.plant(["D"])
    began = datetime.now(UTC)
    measured = began - timedelta(seconds=2)
    for after, time_of_entry, own, expected in (
        (0, began, "ONLINE", "ONLINE"),
        (10, measured, "OFFLINE", "ONLINE"),
        (100, measured, "OFFLINE", "OFFLINE"),
        (110, measured, "DEGRADED", "DEGRADED"),
        (120, began, "ONLINE", "ONLINE"),
    ):
        now = began + timedelta(seconds=after)
        set_clock(monkeypatch, lambda now=now: now)
        entry = {"id": "D", "time": time_of_entry.isoformat(), "status": own, "fields": {"a": 1}}
        await bench.take(plant.message({"time": now.isoformat(), "devices": [entry]}, sent_at=int(now.timestamp() * 1000)))
        assert await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s") == [(expected,)]


async def test_telemetry_writes_a_status_that_stays_every_ten_seconds_at_most(two: TwoProcesses) -> None:
    await two.read_telemetry(two.snapshot())
    before = await two.rows("p.xmin::text, d.xmin::text")
    for _ in range(3):
        await two.read_telemetry(two.snapshot())
    assert await two.rows("p.xmin::text, d.xmin::text") == before


async def test_a_sub_device_that_fails_again_after_an_outage_is_offline_soon(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await bench.plant(["D"])
    for seconds_ago in (21_620, 21_610, 21_600, 300):
        now = datetime.now(UTC) - timedelta(seconds=seconds_ago)
        set_clock(monkeypatch, lambda now=now: now)
        payload = {"time": now.isoformat(), "devices": [{"id": "D", "fields": {"a": 1}}]}
        message = plant.message(payload, sent_at=int(now.timestamp() * 1000))
        message.arrived_after = int(now.timestamp() * 1000)
        assert (await bench.take(message)).results == {"accepted": 1}
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant SET last_seen_at = now() WHERE id = %s", (plant.id,))

        await sweep_silent(db)

    assert await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s") == [("OFFLINE",)]


@pytest.mark.parametrize(
    ("read_until", "expected"),
    [("2 minutes", ("ONLINE", "ONLINE")), ("5 seconds", ("OFFLINE", "UNKNOWN")), ("16 minutes", ("OFFLINE", "UNKNOWN"))],
)
async def test_no_plant_is_silent_while_its_messages_may_wait(
    two: TwoProcesses, read_until: str, expected: tuple[str, str]
) -> None:
    await two.read_telemetry(two.snapshot())
    async with two.bench.database.transaction() as db:
        await db.execute("UPDATE plant SET last_seen_at = now() - interval '3 minutes'")
        await db.execute("UPDATE sub_device SET last_seen_at = now() - interval '3 minutes'")
        await db.execute("INSERT INTO ingest_shard SELECT shard, now() FROM generate_series(0, 6) AS shard")
        await db.execute("INSERT INTO ingest_shard VALUES (7, now() - %s::interval)", (read_until,))
        await sweep_silent(db)
    assert await two.statuses() == expected


async def test_a_plant_that_goes_offline_again_locks_none_of_its_sub_devices(bench: Bench) -> None:
    """A status is a few bytes, and a plant may have 20,000 sub-devices."""
    plant = await bench.plant(["D1", "D2"])
    await bench.take(plant.message({"time": moment(0).isoformat(), "devices": [{"id": "D1", "fields": {"a": 1}}]}))
    statement = "SELECT external_id, status, xmax::text FROM sub_device WHERE plant_id = %s ORDER BY 1"
    await bench.take(plant.delivery(OFFLINE, "status"))
    before = await plant.rows(statement)
    assert [status for _, status, _ in before] == ["UNKNOWN", "UNKNOWN"]
    await bench.take(plant.delivery(OFFLINE, "status"))
    assert await plant.rows(statement) == before


async def test_a_flood_of_status_messages_costs_no_more_with_many_sub_devices(bench: Bench) -> None:
    """Of these messages a plant may send some thousand a second, and all plants wait while each looks at 20,000 sub-devices."""
    seconds: list[float] = []
    for count in (1, 5_000):
        plant = await bench.plant()
        async with bench.database.transaction() as db:
            await db.execute(
                "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
                " SELECT gen_random_uuid(), organization_id, id, 'D' || n, 'Device', 'METER'"
                " FROM plant, generate_series(1, %s) AS n WHERE id = %s",
                (count, plant.id),
            )
        await bench.take(plant.message({"time": moment(0).isoformat(), "devices": [{"id": "D1", "fields": {"a": 1}}]}))
        flood = [plant.delivery(status, "status") for status in (ONLINE, OFFLINE)] * 500
        started = time.process_time()
        batch = await bench.pipeline.prepare(flood)
        seconds.append(time.process_time() - started)
        assert batch.results == {"accepted": 1_000}
    assert seconds[1] < 10 * seconds[0]


def measurement(plant: BenchPlant, number: int, *devices: str) -> Delivery:
    """Return a measurement of sub-devices, sent now."""
    named = [{"id": device, "fields": {"a": number}} for device in devices]
    return plant.message({"time": moment(number).isoformat(), "devices": named})


async def statuses(plant: BenchPlant) -> list[str]:
    """Return the status of the plant and those of its sub-devices."""
    [own] = await plant.rows("SELECT status FROM plant WHERE id = %s")
    devices = await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s ORDER BY external_id")
    return [status for (status,) in (own, *devices)]


async def has_statuses(plant: BenchPlant, expected: list[str]) -> bool:
    return await statuses(plant) == expected


async def is_listening(bench: Bench) -> bool:
    """Return whether a worker receives notifications. It clears its caches when it begins to."""
    query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s AND query = 'SELECT 1'"
    async with bench.database.transaction() as db:
        return (await (await db.execute(query, ("gridfleet-listen",))).fetchone()) is not None


async def store_offline_unnotified(bench: Bench, plant_id: UUID, ahead: str) -> None:
    """Store OFFLINE, read so long after now, as another process does whose notification is still on its way."""
    async with bench.database.transaction() as db:
        await db.execute("SET LOCAL session_replication_role = replica")  # no trigger notifies
        await db.execute(
            "UPDATE plant SET status = 'OFFLINE', last_seen_at = now() + %s::interval WHERE id = %s", (ahead, plant_id)
        )
        await db.execute("UPDATE sub_device SET status = 'UNKNOWN' WHERE plant_id = %s", (plant_id,))
