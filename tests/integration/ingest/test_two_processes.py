"""Statuses at a running service whose shards are shared by two ingest processes."""

import asyncio
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import psutil
import pytest

from gridfleet.local.processes import Program, spawn
from gridfleet.mqtt.worker import LEASE_KIND
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import Connection

SECONDS = 60.0
"""A status that a process does not write, because it takes it for stored, is not written later either, since each message
is sent once. So waiting for longer hides nothing on a busy machine."""

QUICK_SECONDS = 5.0
"""What disturbs the machine for a moment makes one of the plants slow, a status that is written late all of them."""


@pytest.fixture
def second_ingest(fleet: Fleet) -> Iterator[None]:
    """Another ingest process over the same servers, once it has its share of the queues."""
    holders = "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND granted"
    [name] = [name for name in fleet.stack.state["processes"] if name.startswith("ingest")]
    environment = psutil.Process(fleet.stack.state["processes"][name]).environ()
    program = Program(
        name="ingest-beside",
        argv=(sys.executable, "-m", "gridfleet", "ingest"),
        environment=environment,
        folder=fleet.stack.home,
    )
    with (fleet.stack.home / "ingest-beside.log").open("ab") as output:
        process = spawn(program, output)
        try:
            wait_for(lambda: fleet.sql(holders, [2 * LEASE_KIND + 1]) == [(2,)], 60)
            yield
        finally:
            process.terminate()
            process.wait(30)


async def test_statuses_follow_at_once_whichever_process_reads_them(fleet: Fleet, second_ingest: None) -> None:
    async def come_and_go() -> float:
        plant = await asyncio.to_thread(fleet.plant, "PASSWORD", ["D"])
        async with await plant.connect() as connection:
            await measure(plant, connection)
            await reached(plant, "ONLINE", "ONLINE")
            slowest = 0.0
            for _ in range(2):
                await connection.publish(plant.topic("status"), b'{"status":"OFFLINE"}')
                slowest = max(slowest, await reached(plant, "OFFLINE", "UNKNOWN"))
                await measure(plant, connection)
                slowest = max(slowest, await reached(plant, "ONLINE", "ONLINE"))
            return slowest

    times = [await come_and_go() for _ in range(6)]
    print("slowest change of a status of each plant:", times)
    assert min(times) < QUICK_SECONDS


async def measure(plant: Plant, connection: Connection) -> None:
    """Send one measurement of the plant's sub-device."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    payload = {"time": moment, "devices": [{"id": "D", "fields": {"a": 1}}]}
    await connection.publish(plant.topic(), plant.signed(payload))


async def reached(plant: Plant, status: str, device_status: str) -> float:
    """Return after how many seconds the plant and its sub-device have these statuses."""
    start = time.monotonic()
    query = "SELECT p.status, d.status FROM plant p JOIN sub_device d ON d.plant_id = p.id WHERE p.id = %s"
    while (found := await asyncio.to_thread(plant.fleet.sql, query, [plant.id])) != [(status, device_status)]:
        assert time.monotonic() - start < SECONDS, f"{found} after {SECONDS} s, not {(status, device_status)}"
        await asyncio.sleep(0.02)
    return time.monotonic() - start
