"""A plant behind a narrow uplink: its backlog arrives, and acknowledgements do not wait for it."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import aiomqtt
import pytest

from gridfleet.protocol.envelope import sign_message
from gridfleet.protocol.topics import Channel, topic
from gridfleet.sdk.plant import Command, Options, PlantClient, PlantClientError, Snapshot
from gridfleet.sdk.plant.publishing import Publisher
from support.servers.broker_line import broker_line

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2, confirm_timeout_seconds=2)
BYTES_PER_SECOND = 70_000
"""A message of 256 KiB takes almost four seconds."""


async def store_backlog(plant: Any, path: Path, snapshots: int) -> None:
    """Store snapshots of one kilobyte while the broker is away."""
    package = replace(plant, port=1).package()
    async with PlantClient(package, queue_path=path, on_problem=print, options=QUICK) as client:
        await client.send_all([Snapshot(time=1, seq=number, fields={"x" * 980: 1}) for number in range(snapshots)])


async def execute(_: Command) -> None:
    pass


async def test_a_backlog_arrives_and_acknowledgements_do_not_wait_for_it(broker: Any, plant: Any, tmp_path: Path) -> None:
    await store_backlog(plant, tmp_path / "q", 900)
    problems: list[PlantClientError] = []
    async with broker_line(f"mqtt://localhost:{plant.port}", bytes_per_second=BYTES_PER_SECOND) as line:
        package = replace(plant, port=line.port).package()
        async with PlantClient(
            package, queue_path=tmp_path / "q", on_command=execute, on_problem=problems.append, options=QUICK
        ) as client:
            await client.wait_connected(10)
            await asyncio.sleep(4)
            now = datetime.now(UTC)
            command = {"commandId": "c1", "type": "DEVICE_COMMAND", "target": "BAT1", "params": {}, "action": "set_power"}
            body = command | {"issuedAt": now.isoformat(), "expiresAt": (now + timedelta(seconds=30)).isoformat()}
            address = topic(plant.id, Channel.COMMANDS)
            signed = sign_message(bytes(range(32)), address, "m1", int(time.time() * 1000), json.dumps(body).encode())
            await broker.publish(plant.id, Channel.COMMANDS, signed)
            await asyncio.sleep(4)
            waiting = client.waiting
            acks = await broker.received(plant.id, Channel.ACK)
            await client.drain(timeout_seconds=20)
    assert [json.loads(ack.payload())["status"] for ack in acks] == ["RECEIVED", "APPLIED"]
    assert waiting > 0
    assert problems == []


async def test_what_was_published_on_a_lost_connection_is_not_sent_on_it_any_more(
    broker: Any, plant: Any, tmp_path: Path
) -> None:
    """It would share the uplink with the next connection."""
    port, plant.port = plant.port, 1
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_problem=print, options=QUICK) as client:
        await client.send(Snapshot(time=1, fields={"x" * 250_000: 1}))
    problems: list[PlantClientError] = []
    async with broker_line(f"mqtt://localhost:{port}", bytes_per_second=20_000) as line:
        plant.port = line.port
        async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
            async with asyncio.timeout(10):
                while not line.serving:
                    await asyncio.sleep(0.05)
                first = next(iter(line.serving))
                while not problems:
                    await asyncio.sleep(0.05)
            await asyncio.wait({first}, timeout=4)
            assert first.done()
            line.bytes_per_second = 1e6
            await client.drain(timeout_seconds=10)
    assert "confirmed nothing for 2 s" in str(problems[0])


async def test_a_client_with_little_time_to_stop_connects_over_a_slow_line(broker: Any, plant: Any, tmp_path: Path) -> None:
    """As the command `gridfleet send`, whose first message failed if a round trip took more than a second."""
    options = replace(QUICK, stop_timeout_seconds=0.3, confirm_timeout_seconds=20)
    problems: list[PlantClientError] = []
    async with broker_line(f"mqtt://localhost:{plant.port}") as line:
        line.delay_seconds = 0.6
        package = replace(plant, port=line.port).package()
        async with PlantClient(package, queue_path=tmp_path / "q", on_problem=problems.append, options=options) as client:
            await client.send(Snapshot(time=1))
            await client.drain(timeout_seconds=10)
    assert problems == []


class RejectingClient:
    """A broker that never confirms the first message, and the others after a tenth of a second each."""

    def __init__(self) -> None:
        self.confirmed = 0

    async def publish(self, topic: str, message: bytes, **_: Any) -> None:
        if message == b"first":
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0.1)
        self.confirmed += 1


async def test_a_rejected_message_ends_the_connection_although_later_ones_are_confirmed() -> None:
    """RabbitMQ 3.12 and later answer nothing to a publish that a queue without a leader has rejected."""
    client = RejectingClient()
    publisher = Publisher(cast("aiomqtt.Client", client), 2)
    first = asyncio.create_task(publisher.publish("t", b"first"))
    await asyncio.sleep(0)
    for _ in range(30):
        await publisher.publish("t", b"later")
    assert first.done()
    with pytest.raises(aiomqtt.MqttError, match="confirmed nothing"):
        await first
    assert client.confirmed == 30
