"""A queue file that fails for a moment, as on a full disk, ends neither the client nor the execution of commands."""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import Command, Options, PlantClient, PlantClientError, QueueError, Snapshot
from gridfleet.sdk.plant.execution import CommandExecutor
from gridfleet.sdk.plant.options import Counters
from gridfleet.sdk.plant.store import QueueFile

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2)

Failing = Callable[[str], None]


@pytest.fixture
def fail_once(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Return a function that lets a method of queue files fail at its next call."""

    def fail(method: str) -> None:
        original = getattr(QueueFile, method)

        async def failing(queue: QueueFile, *arguments: Any) -> Any:
            monkeypatch.setattr(QueueFile, method, original)
            raise QueueError("database or disk is full")

        monkeypatch.setattr(QueueFile, method, failing)

    return fail


@pytest.mark.parametrize("method", ["remove", "read"])
async def test_a_client_reconnects_after_an_error_of_its_queue(
    broker: Any, plant: Any, tmp_path: Path, fail_once: Failing, method: str
) -> None:
    problems: list[PlantClientError] = []
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_problem=problems.append, options=QUICK) as client:
        await client.wait_connected(10)
        fail_once(method)
        await client.send(Snapshot(time=1, seq=1))
        await client.drain(timeout_seconds=10)
        await client.send(Snapshot(time=2, seq=2))
        await client.drain(timeout_seconds=10)
    assert [str(problem) for problem in problems] == ["database or disk is full"]
    received = [json.loads(message.payload())["seq"] for message in await broker.received(plant.id, Channel.TELEMETRY)]
    assert set(received) == {1, 2}


@pytest.mark.parametrize("method", ["begin_command", "finish_command"])
async def test_a_command_is_executed_once_although_its_queue_fails(tmp_path: Path, fail_once: Failing, method: str) -> None:
    problems: list[PlantClientError] = []
    executed: list[str] = []

    async def execute(command: Command) -> None:
        executed.append(command.command_id)

    queue = QueueFile(tmp_path / "q", "plant", max_bytes=1_000_000, max_age_seconds=3600, fsync=False)
    executor = CommandExecutor("plant", queue, execute, asyncio.Event(), Counters(), time.time, problems.append)
    running = asyncio.create_task(executor.run())
    fail_once(method)
    now = datetime.now(UTC)
    for command_id in ("c1", "c2"):
        assert await executor.accept(Command(command_id, "DEVICE_COMMAND", None, now, now + timedelta(seconds=60)))
    async with asyncio.timeout(10):
        await executor.join()
    running.cancel()
    acks = [json.loads(stored.payload) for stored in await queue.read(Channel.ACK, 0, 100)]
    await queue.close()
    assert executed == ["c1", "c2"]
    assert sorted((ack["commandId"], ack["status"]) for ack in acks) == [
        (command_id, status) for command_id in ("c1", "c2") for status in ("APPLIED", "RECEIVED")
    ]
    assert [str(problem) for problem in problems] == ["database or disk is full"]
