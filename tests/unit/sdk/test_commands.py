"""A device obeys commands that are signed, fresh and new, once, and says what became of them."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.protocol.envelope import sign_message
from gridfleet.protocol.topics import Channel, topic
from gridfleet.sdk.plant import Command, CommandRefusal, CommandRefused, CommandRejected, Options, PlantClient, PlantClientError
from gridfleet.sdk.plant.commands import open_command
from gridfleet.sdk.plant.execution import CommandExecutor
from gridfleet.sdk.plant.options import Counters
from gridfleet.sdk.plant.store import QueueFile
from support.servers.broker_line import broker_line

KEY = bytes(range(32))
QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2)
NOW = 1795168800123


def payload(command_id: str, expires_in: float = 30, action: str = "set_power") -> bytes:
    now = datetime.now(UTC)
    return json.dumps(
        {
            "commandId": command_id,
            "type": "DEVICE_COMMAND",
            "target": "BAT1",
            "action": action,
            "params": {"kw": -2.5},
            "issuedAt": now.isoformat(),
            "expiresAt": (now + timedelta(seconds=expires_in)).isoformat(),
        }
    ).encode()


def signed(plant: Any, body: bytes, key: bytes = KEY, sent_at: float | None = None) -> bytes:
    moment = int((sent_at or time.time()) * 1000)
    return sign_message(key, topic(plant.id, Channel.COMMANDS), f"s-{time.time_ns()}", moment, body)


async def acks(broker: Any, plant: Any) -> list[tuple[str, str, str | None]]:
    found = [json.loads(message.payload()) for message in await broker.received(plant.id, Channel.ACK)]
    return [(ack["commandId"], ack["status"], ack.get("reason", {}).get("code")) for ack in found]


async def settled(client: PlantClient, commands: int) -> None:
    async with asyncio.timeout(10):
        while client.counters.commands < commands:
            await asyncio.sleep(0.02)
    await client.drain(timeout_seconds=10)


async def test_a_handler_whose_own_task_was_cancelled_has_failed(broker: Any, plant: Any, tmp_path: Path) -> None:
    """It must not take the device along, which would obey nothing any more and say nothing of it."""

    async def obey(command: Command) -> None:
        if command.action == "give_up":
            work = asyncio.create_task(asyncio.sleep(60))
            work.cancel()
            await work

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_command=obey, options=QUICK) as client:
        await client.wait_connected(10)
        for command_id, action in (("c1", "give_up"), ("c2", "set_power")):
            await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload(command_id, action=action)))
        await settled(client, 2)
    assert sorted(await acks(broker, plant)) == [
        ("c1", "FAILED", "HANDLER_ERROR"),
        ("c1", "RECEIVED", None),
        ("c2", "APPLIED", None),
        ("c2", "RECEIVED", None),
    ]


async def test_commands_are_obeyed_and_acknowledged(broker: Any, plant: Any, tmp_path: Path) -> None:
    obeyed: list[Command] = []

    async def obey(command: Command) -> None:
        obeyed.append(command)
        if command.action == "refuse":
            raise CommandRejected("OUT_OF_RANGE", "too much")
        if command.action == "break":
            raise ZeroDivisionError

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_command=obey, options=QUICK) as client:
        await client.wait_connected(10)
        for command_id, action in (("c1", "set_power"), ("c2", "refuse"), ("c3", "break"), ("c1", "set_power")):
            await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload(command_id, action=action)))
        await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload("c4", expires_in=-1)))
        await settled(client, 4)
        assert client.counters.commands_repeated == 1

    assert [command.command_id for command in obeyed] == ["c1", "c2", "c3"]
    assert obeyed[0].params == {"kw": -2.5}
    assert sorted(await acks(broker, plant)) == [
        ("c1", "APPLIED", None),
        ("c1", "RECEIVED", None),
        ("c2", "RECEIVED", None),
        ("c2", "REJECTED", "OUT_OF_RANGE"),
        ("c3", "FAILED", "HANDLER_ERROR"),
        ("c3", "RECEIVED", None),
        ("c4", "RECEIVED", None),
        ("c4", "REJECTED", "EXPIRED"),
    ]


async def test_untrusted_messages_do_nothing(broker: Any, plant: Any, tmp_path: Path) -> None:
    problems: list[PlantClientError] = []

    async def obey(_: Command) -> None:
        raise AssertionError("must not be called")

    async with PlantClient(
        plant.package(), queue_path=tmp_path / "q", on_command=obey, on_problem=problems.append, options=QUICK
    ) as client:
        await client.wait_connected(10)
        for message in (
            b"no json",
            signed(plant, payload("c1"), key=bytes(32)),
            signed(plant, payload("c2"), sent_at=time.time() - 11 * 60),
            signed(plant, payload("c3"), sent_at=time.time() + 11 * 60),
            signed(plant, b'{"commandId":"c4"}'),
        ):
            await broker.publish(plant.id, Channel.COMMANDS, message)
        async with asyncio.timeout(10):
            while len(problems) < 5:
                await asyncio.sleep(0.02)
        assert client.counters.commands_refused == 5

    assert [problem.reason for problem in problems if isinstance(problem, CommandRefused)] == [
        CommandRefusal.MALFORMED,
        CommandRefusal.SIGNATURE_INVALID,
        CommandRefusal.TIMESTAMP_OUT_OF_WINDOW,
        CommandRefusal.TIMESTAMP_OUT_OF_WINDOW,
        CommandRefusal.MALFORMED,
    ]
    assert await acks(broker, plant) == []


async def test_without_a_handler_commands_are_rejected(broker: Any, plant: Any, tmp_path: Path) -> None:
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.wait_connected(10)
        await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload("c1")))
        await settled(client, 1)
    assert ("c1", "REJECTED", "UNSUPPORTED") in await acks(broker, plant)


async def test_a_command_sent_while_the_plant_is_away_reaches_it(broker: Any, plant: Any, tmp_path: Path) -> None:
    obeyed: list[str] = []

    async def obey(command: Command) -> None:
        obeyed.append(command.command_id)

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_command=obey, options=QUICK) as client:
        await client.wait_connected(10)
    await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload("c1")))
    async with PlantClient(plant.package(), queue_path=tmp_path / "q", on_command=obey, options=QUICK) as client:
        await settled(client, 1)
    assert obeyed == ["c1"]


async def test_a_command_that_the_last_process_died_over_has_failed(broker: Any, plant: Any, tmp_path: Path) -> None:
    queue = QueueFile(tmp_path / "q", plant.id, max_bytes=10**6, max_age_seconds=3600)
    await queue.begin_command("c1", b'{"commandId":"c1","status":"RECEIVED","time":1}')
    await queue.close()

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.drain(timeout_seconds=10)

    assert await acks(broker, plant) == [("c1", "RECEIVED", None), ("c1", "FAILED", "INTERRUPTED")]


async def test_what_became_of_a_command_is_sent_before_the_plant_is_online(broker: Any, plant: Any, tmp_path: Path) -> None:
    """For ONLINE, the service sends a mode again that the plant failed to apply. It did not for a failure that came later."""
    queue = QueueFile(tmp_path / "q", plant.id, max_bytes=10**6, max_age_seconds=3600)
    await queue.begin_command("c1", b'{"commandId":"c1","status":"RECEIVED","time":1}')
    await queue.close()

    async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.wait_connected(10)
        await client.drain(timeout_seconds=10)

    arrived = await broker.received(plant.id, Channel.STATUS, Channel.ACK)
    assert [message.channel for message in arrived] == [Channel.ACK, Channel.ACK, Channel.STATUS, Channel.STATUS]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """A disk on which commands are stored at once, and whose answer waits for the event."""
    answers, store = asyncio.Event(), QueueFile.begin_command

    async def slow(queue: QueueFile, command_id: str, ack: bytes) -> bool:
        is_new = await store(queue, command_id, ack)
        await answers.wait()
        return is_new

    monkeypatch.setattr(QueueFile, "begin_command", slow)
    return answers


async def test_a_command_is_executed_if_the_connection_breaks_while_it_is_stored(tmp_path: Path, disk: asyncio.Event) -> None:
    """Its copies count as duplicates from then on, so nothing else would execute it before the process starts again."""
    executed: list[str] = []

    async def execute(command: Command) -> None:
        executed.append(command.command_id)

    queue = QueueFile(tmp_path / "q", "plant", max_bytes=1_000_000, max_age_seconds=3600, fsync=False)
    executor = CommandExecutor("plant", queue, execute, asyncio.Event(), Counters(), time.time, print)
    running = asyncio.create_task(executor.run())
    command = open_command(sign_message(KEY, "a", "m", NOW, payload("c1")), key=KEY, address="a", now_milliseconds=NOW)
    accepting = asyncio.create_task(executor.accept(command))
    await asyncio.sleep(0.1)
    accepting.cancel()
    await asyncio.sleep(0.1)
    disk.set()
    with pytest.raises(asyncio.CancelledError):
        await accepting
    assert not await executor.accept(command)
    await executor.join()
    assert executed == ["c1"]
    assert await queue.unfinished_commands() == []
    running.cancel()
    await queue.close()


async def test_commands_that_were_received_before_the_connection_broke_are_executed_in_order(
    broker: Any, plant: Any, tmp_path: Path, disk: asyncio.Event
) -> None:
    """The broker has their confirmations and sends them no more: later commands would be executed before their next copies."""
    executed: list[str] = []

    async def execute(command: Command) -> None:
        executed.append(command.command_id)

    async with broker_line(f"mqtt://localhost:{plant.port}") as line:
        package = replace(plant, port=line.port).package()
        async with PlantClient(package, queue_path=tmp_path / "q", on_command=execute, options=QUICK) as client:
            await client.wait_connected(10)
            for number in range(5):
                await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload(f"c{number}")))
            await asyncio.sleep(1)
            line.reset()
            async with asyncio.timeout(10):
                while client.counters.connects < 2:
                    await asyncio.sleep(0.02)
            disk.set()
            await broker.publish(plant.id, Channel.COMMANDS, signed(plant, payload("c5")))
            await settled(client, 6)
    assert executed == [f"c{number}" for number in range(6)]


async def test_an_emergency_stop_does_not_wait_for_commands_that_wait(tmp_path: Path) -> None:
    """They are not executed after it either. What came after it is."""
    executed: list[str] = []
    release = asyncio.Event()

    async def execute(command: Command) -> None:
        executed.append(command.command_id)
        await release.wait()

    queue = QueueFile(tmp_path / "q", "plant", max_bytes=1_000_000, max_age_seconds=3600, fsync=False)
    executor = CommandExecutor("plant", queue, execute, asyncio.Event(), Counters(), time.time, print)
    running = asyncio.create_task(executor.run())
    now = datetime.now(UTC)
    for command_id, kind in (
        ("running", "DEVICE_COMMAND"),
        ("waiting", "SITE_SETPOINT"),
        ("auto before", "MODE_CHANGE"),
        ("stop", "EMERGENCY"),
        ("auto", "MODE_CHANGE"),
        ("later", "SITE_SETPOINT"),
    ):
        assert await executor.accept(Command(command_id, kind, None, now, now + timedelta(seconds=60)))
        await asyncio.sleep(0)
    release.set()
    await executor.join()
    running.cancel()
    acks = [json.loads(stored.payload) for stored in await queue.read(Channel.ACK, 0, 100)]
    await queue.close()
    assert executed == ["running", "stop", "auto", "later"]
    ends = {ack["commandId"]: (ack["status"], ack.get("reason", {}).get("code")) for ack in acks}
    assert ends["waiting"] == ends["auto before"] == ("REJECTED", "EMERGENCY_STOPPED")
    assert {ends[one] for one in executed} == {("APPLIED", None)}


class Silent(Exception):
    """An error without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("code", "message", "acknowledged"),
    [
        ("X", ValueError("y"), ("REJECTED", {"code": "X", "message": "y"})),
        (7, None, ("REJECTED", {"code": "7", "message": "None"})),
        ("\udc80", "a\ud800b", ("REJECTED", {"code": "?", "message": "a?b"})),
        ("X", "y" * 2_000_000, ("REJECTED", {"code": "X", "message": "y" * 500})),
        ("X", Silent(), ("FAILED", {"code": "HANDLER_ERROR", "message": "ValueError"})),
    ],
    ids=["error", "other types", "surrogates", "too long", "no text"],
)
async def test_a_rejection_that_cannot_be_encoded_does_not_stop_later_commands(
    tmp_path: Path, code: Any, message: Any, acknowledged: tuple[str, dict[str, str]]
) -> None:
    async def execute(command: Command) -> None:
        if command.type != "EMERGENCY":
            raise CommandRejected(code, message)

    queue = QueueFile(tmp_path / "q", "plant", max_bytes=10_000_000, max_age_seconds=3600, fsync=False)
    executor = CommandExecutor("plant", queue, execute, asyncio.Event(), Counters(), time.time, print)
    running = asyncio.create_task(executor.run())
    now = datetime.now(UTC)
    for command_id, kind in (("c1", "DEVICE_COMMAND"), ("stop", "EMERGENCY")):
        assert await executor.accept(Command(command_id, kind, None, now, now + timedelta(seconds=60)))
        async with asyncio.timeout(5):
            await executor.join()
    running.cancel()
    _, first, _, second = [json.loads(stored.payload) for stored in await queue.read(Channel.ACK, 0, 100)]
    await queue.close()
    assert (first["status"], first["reason"]) == acknowledged
    assert (second["commandId"], second["status"]) == ("stop", "APPLIED")


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_no_bytes_break_the_reader(message: bytes) -> None:
    with pytest.raises(CommandRefused):
        open_command(message, key=KEY, address="a", now_milliseconds=NOW)


@given(st.integers(-(2**40), 2**40))
def test_freshness_is_ten_minutes_either_way(skew: int) -> None:
    message = sign_message(KEY, "a", "m", NOW - skew, payload("c1"))
    if abs(skew) <= 600_000:
        assert open_command(message, key=KEY, address="a", now_milliseconds=NOW).command_id == "c1"
    else:
        with pytest.raises(CommandRefused, match="WINDOW"):
            open_command(message, key=KEY, address="a", now_milliseconds=NOW)


def test_times_need_their_zone() -> None:
    body = b'{"commandId":"c","type":"T","target":null,"issuedAt":"2026-11-20T10:00:00","expiresAt":"2026-11-20T10:00:30Z"}'
    with pytest.raises(CommandRefused, match="zone"):
        open_command(sign_message(KEY, "a", "m", NOW, body), key=KEY, address="a", now_milliseconds=NOW)


@pytest.mark.parametrize(
    "message",
    [b'{"v":1,"id":"\xff","sentAt":1,"payload":{}}', b'{"v":1,"id":"a","sentAt":1,"payload":' + b"[" * 100_000],
    ids=["not UTF-8", "too deep"],
)
def test_a_message_that_cannot_be_decoded_is_malformed(message: bytes) -> None:
    """Any other error would end the client."""
    with pytest.raises(CommandRefused) as refusal:
        open_command(message, key=KEY, address="v1/plants/p/commands", now_milliseconds=NOW)
    assert refusal.value.reason is CommandRefusal.MALFORMED
