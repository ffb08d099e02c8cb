"""The queue keeps order, bounds and counts, and survives its process; packing loses nothing."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.protocol.envelope import MAX_DEVICES, MAX_FIELDS, sign_message
from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import DeviceEntry, Package, PlantClient, QueueError, Snapshot, SnapshotRefused
from gridfleet.sdk.plant.messages import ENVELOPE_BYTES, MessageIds, encode_snapshot, pack
from gridfleet.sdk.plant.package import AuthMethod, MqttAccess, Security, Topics
from gridfleet.sdk.plant.store import QueueFile, Stored


def open_queue(path: Path, max_bytes: int = 10_000, max_age_seconds: float = 3600, plant_id: str = "plant") -> QueueFile:
    return QueueFile(path, plant_id, max_bytes=max_bytes, max_age_seconds=max_age_seconds)


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[QueueFile]:
    opened = open_queue(tmp_path / "q")
    yield opened
    await opened.close()


async def test_messages_leave_in_their_order_and_only_when_removed(queue: QueueFile) -> None:
    numbers, dropped = await queue.put(Channel.TELEMETRY, [b"a", b"b", b"c"])
    await queue.put(Channel.ACK, [b"ack"])

    assert dropped == 0
    assert queue.waiting == 4
    assert await queue.read(Channel.TELEMETRY, 0, 2) == [Stored(numbers[0], b"a"), Stored(numbers[1], b"b")]
    assert [stored.payload for stored in await queue.read(Channel.TELEMETRY, numbers[0], 9)] == [b"b", b"c"]

    await queue.remove(numbers[:2])
    await queue.remove(numbers[:2])

    assert queue.waiting == 2
    assert [stored.payload for stored in await queue.read(Channel.TELEMETRY, 0, 9)] == [b"c"]
    assert [stored.payload for stored in await queue.read(Channel.ACK, 0, 9)] == [b"ack"]


async def test_a_backlog_of_large_messages_is_read_in_parts(tmp_path: Path) -> None:
    """500 at once took the memory of a plant's small computer."""
    queue = open_queue(tmp_path / "large", max_bytes=10_000_000)
    numbers, _ = await queue.put(Channel.TELEMETRY, [bytes(400_000)] * 7)
    read, after = [], 0
    while part := await queue.read(Channel.TELEMETRY, after, 500):
        read.append([stored.number for stored in part])
        after = read[-1][-1]
    assert read == [numbers[:3], numbers[3:6], numbers[6:]]
    await queue.close()


async def test_a_full_queue_drops_the_oldest_and_counts_them(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q", max_bytes=1000)
    await queue.put(Channel.TELEMETRY, [b"x" * 100] * 10)
    _, dropped = await queue.put(Channel.TELEMETRY, [b"y" * 250])

    assert (dropped, queue.dropped, queue.waiting) == (3, 3, 8)
    assert (await queue.read(Channel.TELEMETRY, 0, 99))[-1].payload == b"y" * 250
    await queue.close()

    queue = open_queue(tmp_path / "q", max_bytes=1000)
    assert (queue.dropped, queue.waiting) == (3, 8)
    await queue.put(Channel.TELEMETRY, [b"z" * 100])
    assert queue.waiting == 8
    await queue.close()


async def test_a_large_drop_goes_through(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q", max_bytes=1000)
    await queue.put(Channel.TELEMETRY, [b"x"] * 900)
    _, dropped = await queue.put(Channel.TELEMETRY, [b"y" * 1000])
    assert (dropped, queue.waiting) == (900, 1)
    await queue.close()


async def test_old_messages_are_dropped(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q", max_age_seconds=-1)
    _, dropped = await queue.put(Channel.TELEMETRY, [b"a"])
    assert (dropped, queue.waiting) == (1, 0)
    await queue.close()


async def test_numbers_are_never_used_again(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q")
    first, _ = await queue.put(Channel.TELEMETRY, [b"a"])
    await queue.remove(first)
    await queue.close()
    queue = open_queue(tmp_path / "q")
    second, _ = await queue.put(Channel.TELEMETRY, [b"b"])
    assert second > first
    await queue.close()


async def test_commands_are_remembered_until_they_end(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q")
    assert await queue.begin_command("c1", b"received")
    assert not await queue.begin_command("c1", b"received")
    assert await queue.unfinished_commands() == ["c1"]
    await queue.close()

    queue = open_queue(tmp_path / "q")
    assert not await queue.begin_command("c1", b"received")
    await queue.finish_command("c1", b"applied")
    assert await queue.unfinished_commands() == []
    assert [stored.payload for stored in await queue.read(Channel.ACK, 0, 9)] == [b"received", b"applied"]
    await queue.close()


async def test_a_full_disk_is_named_and_the_queue_continues_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, opened = sqlite3.connect, list[sqlite3.Connection]()

    def connect_and_note(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_and_note)
    queue = open_queue(tmp_path / "q", max_bytes=1_000_000)
    [[pages]] = opened[0].execute("PRAGMA page_count").fetchall()
    opened[0].execute(f"PRAGMA max_page_count = {pages + 2}")  # SQLite reports it as a full disk

    with pytest.raises(QueueError, match="database or disk is full"):
        await queue.put(Channel.TELEMETRY, [b"x" * 100_000])

    numbers, dropped = await queue.put(Channel.TELEMETRY, [b"y"])
    assert (dropped, queue.waiting) == (0, 1)
    assert await queue.read(Channel.TELEMETRY, 0, 9) == [Stored(numbers[0], b"y")]
    await queue.close()


async def test_a_client_that_cannot_start_leaves_the_file_unlocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = open_queue(tmp_path / "q")
    await queue.begin_command("c1", b"received")
    await queue.close()
    topics = Topics(**{channel.value: f"v1/plants/plant/{channel}" for channel in Channel})
    access = MqttAccess("127.0.0.1", 1, tls=False, client_id="plant", topics=topics)
    package = Package("plant", AuthMethod.PASSWORD, access, Security("00" * 32, password="p"))
    client = PlantClient(package, queue_path=tmp_path / "q")

    async def fail(*_: object) -> None:
        raise QueueError("database or disk is full")

    monkeypatch.setattr(QueueFile, "finish_command", fail)  # c1 was interrupted, and its end cannot be stored
    with pytest.raises(QueueError, match="disk is full"):
        await client.__aenter__()

    queue = open_queue(tmp_path / "q")
    assert await queue.unfinished_commands() == ["c1"]
    await queue.close()


async def test_a_second_user_of_the_file_is_refused(queue: QueueFile, tmp_path: Path) -> None:
    with pytest.raises(QueueError, match="database is locked: another process uses it"):
        open_queue(tmp_path / "q")


async def test_a_file_that_is_no_queue_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q").write_bytes(b"something else entirely" * 100)
    with pytest.raises(QueueError, match="not a database"):
        open_queue(tmp_path / "q")


async def test_messages_of_another_plant_are_kept_and_refused(tmp_path: Path) -> None:
    """The file stays where hardware is registered anew: its values would be stored as the new plant's."""
    queue = open_queue(tmp_path / "q", plant_id="former")
    numbers, _ = await queue.put(Channel.TELEMETRY, [b"a", b"b"])
    await queue.close()

    with pytest.raises(QueueError, match="holds 2 messages of plant former: use another file"):
        open_queue(tmp_path / "q", plant_id="new")

    queue = open_queue(tmp_path / "q", plant_id="former")
    assert [stored.payload for stored in await queue.read(Channel.TELEMETRY, 0, 9)] == [b"a", b"b"]
    await queue.begin_command("c1", b"received")
    await queue.remove([*numbers, numbers[-1] + 1])
    await queue.close()

    queue = open_queue(tmp_path / "q", plant_id="new")
    assert (queue.waiting, await queue.unfinished_commands()) == (0, [])
    await queue.put(Channel.TELEMETRY, [b"c"])
    await queue.close()
    with pytest.raises(QueueError, match="of plant new"):
        open_queue(tmp_path / "q", plant_id="former")


async def test_a_file_that_names_no_plant_is_the_first_ones(tmp_path: Path) -> None:
    queue = open_queue(tmp_path / "q")
    await queue.put(Channel.TELEMETRY, [b"a"])
    await queue.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "q", isolation_level=None)) as file:
        file.execute("DROP TABLE plant")  # a file of an earlier version

    queue = open_queue(tmp_path / "q", plant_id="one")
    assert queue.waiting == 1
    await queue.close()
    with pytest.raises(QueueError, match="of plant one"):
        open_queue(tmp_path / "q", plant_id="two")


def test_only_the_owner_reads_the_file(queue: QueueFile, tmp_path: Path) -> None:
    assert (tmp_path / "q").stat().st_mode & 0o077 == 0


async def test_what_was_stored_survives_kill_9(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from gridfleet.sdk.plant.store import QueueFile
from gridfleet.protocol.topics import Channel

async def main():
    queue = QueueFile(Path(sys.argv[1]), "plant", max_bytes=10**9, max_age_seconds=3600, fsync=False)
    number = 0
    while True:
        await queue.put(Channel.TELEMETRY, [b"%d" % number])
        print(number, flush=True)
        number += 1

asyncio.run(main())
"""
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "q")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    stored = [int(child.stdout.readline()) for _ in range(50)]
    os.kill(child.pid, signal.SIGKILL)
    stored += [int(line) for line in child.stdout.read().splitlines()]
    child.wait(10)
    child.stdout.close()

    queue = open_queue(tmp_path / "q")
    kept = [int(message.payload) for message in await queue.read(Channel.TELEMETRY, 0, 10**6)]
    await queue.close()
    assert kept[: len(stored)] == stored
    assert len(kept) - len(stored) <= 1


@given(st.lists(st.integers(1, 400), max_size=60), st.integers(1, 20), st.integers(400, 1500))
def test_packing_keeps_order_and_limits(sizes: list[int], max_snapshots: int, room: int) -> None:
    stored = [Stored(number, b'"%s"' % (b"x" * max(0, size - 2))) for number, size in enumerate(sizes)]
    limit = room + ENVELOPE_BYTES

    batches = list(pack(stored, max_snapshots=max_snapshots, max_message_bytes=limit))

    assert [number for batch in batches for number in batch.numbers] == [message.number for message in stored]
    opened = []
    for batch in batches:
        assert len(batch.numbers) <= max_snapshots
        signed = sign_message(bytes(32), "v1/plants/a/telemetry", MessageIds().next(), 1795168800123, batch.payload)
        assert len(signed) <= limit
        value = json.loads(batch.payload)
        opened += value if isinstance(value, list) else [value]
    assert opened == [json.loads(message.payload) for message in stored]


def test_ids_differ_between_runs() -> None:
    first, second = MessageIds(), MessageIds()
    assert len({first.next(), first.next(), second.next(), second.next()}) == 4


@pytest.mark.parametrize(
    "snapshot",
    [
        Snapshot(time=1, fields={"x" * 300_000: 1}),
        Snapshot(time=1, fields={str(number): 1 for number in range(MAX_FIELDS + 1)}),
        Snapshot(time=1, devices=[DeviceEntry("D", {})] * (MAX_DEVICES + 1)),
        Snapshot(time=1, devices=[DeviceEntry("D", {str(number): 1 for number in range(MAX_FIELDS + 1)})]),
        Snapshot(time=datetime(2026, 11, 20)),
        Snapshot(time=1, devices=[DeviceEntry("D", {}, time=datetime(2026, 11, 20))]),
        Snapshot(time=10**20),
        Snapshot(time=1, fields={"mode": "AUTO"}),  # type: ignore[dict-item]
        Snapshot(time=1, devices=[DeviceEntry("D", {"power": Decimal("1.5")})]),  # type: ignore[dict-item]
        Snapshot(time=1, devices=[DeviceEntry("D", {"power": Fraction(3, 2)})]),  # type: ignore[dict-item]
        Snapshot(time=1, devices=[DeviceEntry("D", {}, status="ON")]),  # type: ignore[arg-type]
        Snapshot(time=1, devices=[DeviceEntry("\ud800", {"power": 1.5})]),
    ],
)
def test_snapshots_that_the_service_would_refuse_are_refused_here(snapshot: Snapshot) -> None:
    with pytest.raises(SnapshotRefused):
        encode_snapshot(snapshot, 262_144)
