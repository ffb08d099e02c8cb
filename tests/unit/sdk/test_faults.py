"""Nothing that `send` has accepted is lost, whichever process is killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import Options, PlantClient, Snapshot
from gridfleet.sdk.plant.store import QueueFile

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.5, batch_snapshots=20)


async def sequence(broker: Any, plant: Any) -> list[int]:
    numbers: list[int] = []
    for message in await broker.received(plant.id, Channel.TELEMETRY):
        body = json.loads(message.payload())
        numbers += [snapshot["seq"] for snapshot in (body if isinstance(body, list) else [body])]
    return numbers


async def test_a_backlog_travels_in_arrays(broker: Any, plant: Any, tmp_path: Path) -> None:
    port, plant.port = plant.port, 1
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.send_all([Snapshot(time=1, seq=number) for number in range(95)])
    plant.port = port

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.drain(timeout_seconds=20)
        assert (client.counters.messages, client.counters.snapshots) == (5, 95)

    assert await sequence(broker, plant) == list(range(95))


async def test_a_drained_queue_has_reported_every_delivery(
    broker: Any, plant: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = QueueFile.remove

    async def report_late(queue: QueueFile, numbers: Sequence[int]) -> None:
        await remove(queue, numbers)
        await asyncio.sleep(0.2)

    monkeypatch.setattr(QueueFile, "remove", report_late)
    delivered: list[int] = []
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_delivered=delivered.extend, options=QUICK) as client:
        sent = await client.send(Snapshot(time=1, seq=1))
        while client.waiting:
            await asyncio.sleep(0.01)
        await client.drain(timeout_seconds=20)
        assert delivered == [sent]


@pytest.mark.faults
async def test_a_killed_broker_costs_nothing(own_broker: Any, tmp_path: Path) -> None:
    plant = own_broker.take_plant()
    delivered: list[int] = []
    sent: list[int] = []
    stop = asyncio.Event()

    async def send(device: PlantClient) -> None:
        number = 0
        while not stop.is_set():
            sent.append(await client.send(Snapshot(time=1, seq=number)))
            number += 1
            await asyncio.sleep(0.005)

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_delivered=delivered.extend, options=QUICK) as client:
        sending = asyncio.create_task(send(client))
        for _ in range(2):
            await client.wait_connected(30)
            await asyncio.sleep(1)
            await asyncio.to_thread(own_broker.kill)
            async with asyncio.timeout(30):
                while client.connected:
                    await asyncio.sleep(0.1)
            await asyncio.sleep(0.5)  # snapshots wait meanwhile
            await asyncio.to_thread(own_broker.start)
        stop.set()
        await sending
        await client.drain(timeout_seconds=30)
        assert client.counters.connects >= 3

    assert sorted(delivered) == sent
    received = await sequence(own_broker, plant)
    assert set(received) == set(range(len(sent)))


@pytest.mark.faults
async def test_a_killed_process_costs_nothing(broker: Any, plant: Any, tmp_path: Path) -> None:
    program = """
import asyncio, sys
from gridfleet.sdk.plant import PlantClient, Options, Package, Snapshot

async def main():
    async with PlantClient(Package.load(sys.argv[1]), queue_path=sys.argv[2], options=Options(fsync=False)) as client:
        number = int(sys.argv[3])
        while True:
            await client.send(Snapshot(time=1, seq=number))
            print(number, flush=True)
            number += 1
            await asyncio.sleep(0.002)

asyncio.run(main())
"""
    package = tmp_path / "plant.json"
    package.write_bytes(msgspec.json.encode(plant.package()))
    stored = 0
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(package), str(tmp_path / "q"), str(stored)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(150):
            await asyncio.to_thread(child.stdout.readline)
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.read()
        child.stdout.close()
        child.wait(10)
        stored += 1000

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.drain(timeout_seconds=30)

    received = set(await sequence(broker, plant))
    for start in (0, 1000, 2000):
        assert set(range(start, start + 150)) <= received
