"""A partner's client that would keep the broker busy waits for turns of its organisation. Other organisations do not."""

import asyncio
import re
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

import httpx
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Queue

from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.clients.fleet_under_test import JsonObject, wait_for
from support.clients.partner_organization import Organization
from support.clients.raw_amqp import answer, declare, frame, raw_connection, short
from support.servers.broker_node import evaluate

CONNECTIONS = 4
CHANNELS = 120
"""Of a connection, which may have 128. A busy broker needs seconds for the changes of all."""
AT_ONCE = 125
"""Changes that are free or have turns within two seconds."""
QUESTIONS = 1_500
QUESTIONS_PER_SECOND = 250
NEW_KEYS = 60
"""Less than the free turns of half a second, unless many questions wait: then each takes 40 ms."""
BINDS = 200
OPEN = struct.pack(">HH", 20, 10) + short("")
QOS = struct.pack(">HHIHB", 60, 10, 0, 5, 0)
METHODS = 60_000
METHODS_PER_SECOND = 10_000


@pytest.fixture
async def created(acme: Organization) -> AsyncIterator[JsonObject]:
    found = acme.key()
    yield found
    acme.revoke(found)


async def look_for(channel: AbstractChannel, queue: str) -> str:
    """Return the broker's answer to a passive declaration."""
    try:
        return (await channel.queue_declare(queue, passive=True)).name
    except ChannelAccessRefused as error:
        return str(error)


def asked(org: Organization) -> int:
    """Return how many questions about partners' routing keys the service has allowed."""
    text = httpx.get(f"http://127.0.0.1:{org.stack.ports['internal_port']}/metrics", timeout=30).text
    found = re.findall(r"^gridfleet_broker_questions_total\{(.*)\} (\S+)$", text, re.MULTILINE)
    return int(sum(float(count) for labels, count in found if "partner" in labels and "topic" in labels and "allow" in labels))


@contextmanager
def many_questions(org: Organization) -> Iterator[None]:
    """Let many questions wait in the broker until the end of the block. The process that sends them sends none meanwhile."""
    on_node = partial(evaluate, org.stack.home, org.stack.ports["epmd_port"])
    on_node(
        "ok = rpc:call(N, sys, suspend, [httpc_manager]), [{httpc_manager, N} ! none || _ <- lists:seq(1, 60)],"
        # After the messages, which the end of this node could overtake.
        " true = is_pid(rpc:call(N, erlang, whereis, [httpc_manager]))"
    )
    try:
        yield
    finally:
        on_node("ok = rpc:call(N, sys, resume, [httpc_manager])")


async def test_changes_of_many_channels_at_once_are_refused(
    acme: Organization, acme_energy: Organization, created: JsonObject
) -> None:
    own, theirs, other = f"{acme.slug}.turns", f"{acme_energy.slug}.turns", acme_energy.key()
    async with AsyncExitStack() as stack, acme_energy.connected(other) as theirs_connected:
        connections = [await stack.enter_async_context(acme.connected(created)) for _ in range(CONNECTIONS)]
        await (await connections[0].channel()).queue_declare(own)
        channel = await theirs_connected.channel()
        await channel.queue_declare(theirs, auto_delete=True)
        channels = [await connection.channel() for connection in connections for _ in range(CHANNELS)]
        answers = asyncio.gather(*(look_for(channel, own) for channel in channels))
        others = [await look_for(channel, theirs) for _ in range(20)]
        refused = [answer for answer in await answers if answer != "Queue.DeclareOk"]
        assert 0 < len(refused) <= CONNECTIONS * CHANNELS - AT_ONCE
        assert all("changes queues and bindings too fast" in answer for answer in refused)
        assert others == ["Queue.DeclareOk"] * len(others)


async def test_a_client_that_waits_for_answers_is_not_refused(acme: Organization, created: JsonObject) -> None:
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        for _ in range(2 * AT_ONCE):
            answer = await channel.queue_declare(f"{acme.slug}.turns", auto_delete=True)
            assert isinstance(answer, Queue.DeclareOk)


async def test_what_waits_for_turns_does_not_delay_a_revocation(acme: Organization) -> None:
    """The connection's end would otherwise wait for all changes, here for two minutes."""
    created = acme.key()
    vhost, own = created["apiKey"]["vhost"], f"{acme.slug}.turns"
    _, writer = await raw_connection(acme, acme.slug, created["key"], vhost)
    bind = struct.pack(">HHH", 50, 20, 0) + short(own) + short("vcp") + short(f"{acme.slug}.event.*") + b"\1" + bytes(4)
    writer.write(frame(1, declare(own)))
    for channel in range(2, 32):
        writer.write(frame(channel, OPEN) + frame(channel, bind) * BINDS)
    await writer.drain()
    await asyncio.sleep(1)
    await asyncio.to_thread(acme.revoke, created)
    await asyncio.to_thread(wait_for, lambda: vhost not in acme.vhosts(), 30)
    writer.transport.abort()


async def test_channels_that_miss_their_end_do_not_delay_a_revocation(acme: Organization) -> None:
    """A channel takes all requests from its inbox before it carries out the first one, also the one to end."""
    created = acme.key()
    vhost, own = created["apiKey"]["vhost"], f"{acme.slug}.turns"
    on_node = partial(evaluate, acme.stack.home, acme.stack.ports["epmd_port"])
    channels = f"[Pid || [Pid] <- rpc:call(N, ets, match, [gridfleet_bounds, {{{{opened, <<\"{acme.slug}\">>, '$1'}}}}])]"
    reader, writer = await raw_connection(acme, acme.slug, created["key"], vhost)
    writer.write(frame(1, declare(own)))
    for channel in range(2, 32):
        writer.write(frame(channel, OPEN))
    for _ in range(31):
        await answer(reader)
    await asyncio.to_thread(on_node, f"Pids = {channels}, true = length(Pids) >= 31, [ok = sys:suspend(Pid) || Pid <- Pids]")
    bind = struct.pack(">HHH", 50, 20, 0) + short(own) + short("vcp") + short(f"{acme.slug}.event.*") + b"\1" + bytes(4)
    for channel in range(2, 32):
        writer.write(frame(channel, bind) * BINDS)
    await writer.drain()
    await asyncio.to_thread(acme.revoke, created)
    to_end = "lists:member({'$gen_cast', terminate}, element(2, rpc:call(N, erlang, process_info, [Pid, messages])))"
    wait = f"Wait = fun W() -> lists:all(fun(Pid) -> {to_end} end, Pids) orelse (ok =:= timer:sleep(50) andalso W()) end"
    await asyncio.to_thread(on_node, f"Pids = {channels}, {wait}, true = Wait(), [ok = sys:resume(Pid) || Pid <- Pids]")
    await asyncio.to_thread(wait_for, lambda: vhost not in acme.vhosts(), 30)
    writer.transport.abort()


async def test_a_flood_of_any_methods_does_not_delay_a_revocation(acme: Organization) -> None:
    """Nothing is read while a channel waits, also not the request to close the connection, which would wait for 20 s."""
    calm, flooded = await seconds_to_revoke(acme, b""), await seconds_to_revoke(acme, QOS)
    print(f"calm {calm:.1f} s, flooded {flooded:.1f} s")
    assert flooded < 10 + 5 * calm


async def seconds_to_revoke(org: Organization, method: bytes) -> float:
    """Revoke a key whose connections send this method on many channels; return the seconds until its vhost was gone."""
    created, is_revoked = org.key(), asyncio.Event()
    vhost = created["apiKey"]["vhost"]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONNECTIONS):
            tasks.create_task(flood(org, created, method, is_revoked))
        await asyncio.sleep(5)
        is_revoked.set()
        started = time.monotonic()
        await asyncio.to_thread(org.revoke, created)
        await asyncio.to_thread(wait_for, lambda: vhost not in org.vhosts(), 120)
        return time.monotonic() - started


async def flood(org: Organization, created: JsonObject, method: bytes, end: asyncio.Event) -> None:
    """Send a method on many channels until `end`, and read the answers until the connection is closed."""
    reader, writer = await raw_connection(org, org.slug, created["key"], created["apiKey"]["vhost"])
    writer.write(b"".join(frame(channel, OPEN) for channel in range(2, CHANNELS)))

    async def read() -> None:
        while await reader.read(100_000):
            pass

    async def write() -> None:
        while method and not end.is_set():
            writer.write(b"".join(frame(channel, method) * 20 for channel in range(1, CHANNELS)))
            await writer.drain()

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            tasks.create_task(write())
    except* ConnectionError:
        pass
    writer.transport.abort()


async def test_new_routing_keys_take_turns(acme: Organization, created: JsonObject) -> None:
    """Each is a question to the service, and those of all logins wait in the same process of the broker."""
    before = asked(acme)
    _, writer = await raw_connection(acme, acme.slug, created["key"], created["apiKey"]["vhost"])
    started = time.monotonic()
    for channel in range(2, 32):
        writer.write(frame(channel, OPEN))
        for number in range(QUESTIONS // 30):
            key = f"{acme.slug}.command.device.{channel}x{number}"
            writer.write(frame(channel, struct.pack(">HHH", 60, 40, 0) + short("vcp") + short(key) + b"\0"))
            writer.write(frame(channel, struct.pack(">HHQH", 60, 0, 2, 0), 2) + frame(channel, b"{}", 3))
    await writer.drain()
    await asyncio.to_thread(wait_for, lambda: asked(acme) >= before + QUESTIONS, 120)
    assert time.monotonic() - started > 0.8 * (QUESTIONS - 0.5 * QUESTIONS_PER_SECOND) / QUESTIONS_PER_SECOND
    writer.transport.abort()


async def test_new_routing_keys_wait_longer_while_many_questions_wait(acme: Organization, created: JsonObject) -> None:
    """Each channel that waits holds memory of the broker."""

    async def seconds(channel: AbstractChannel) -> float:
        """Publish with routing keys that are new to the channel; the second time, the broker has cached the answers."""
        started = time.monotonic()
        for number in range(NEW_KEYS):
            await channel.basic_publish(b"{}", exchange="vcp", routing_key=f"{acme.slug}.command.device.{number}")
        return time.monotonic() - started

    async with acme.connected(created) as connection:
        first, second = await connection.channel(), await connection.channel()
        await seconds(first)
        await asyncio.sleep(1)  # until its turns are free again
        with many_questions(acme):
            assert await seconds(second) > 1


@pytest.mark.parametrize("method", ["basic_get", "basic_consume"])
async def test_reading_a_queue_takes_a_turn_once_in_a_channel(acme: Organization, created: JsonObject, method: str) -> None:
    """The broker asks whether a queue may be read, too. A client could ask on a new channel each time."""
    queue = event_queue(acme.slug, EventKind.STATUS)

    async def read(channel: AbstractChannel) -> None:
        await (channel.basic_get(queue, no_ack=True) if method == "basic_get" else channel.basic_consume(queue, on_message))

    async def on_message(message: object) -> None:
        """Ignore it."""

    async with acme.connected(created) as connection:
        channels = [await connection.channel() for _ in range(NEW_KEYS)]
        known = await connection.channel()
        await read(known)
        with many_questions(acme):
            started = time.monotonic()
            for channel in channels:
                await read(channel)
            assert time.monotonic() - started > 1
            started = time.monotonic()
            for _ in range(100 if method == "basic_get" else 0):
                await read(known)
            assert time.monotonic() - started < 3  # 3.5 s if each took a turn


async def test_any_methods_take_turns(acme: Organization, created: JsonObject) -> None:
    """Without them, the broker carries out a hundred thousand in a second, and is busy with nothing else."""
    reader, writer = await raw_connection(acme, acme.slug, created["key"], created["apiKey"]["vhost"])
    started = time.monotonic()
    writer.write(frame(1, QOS) * METHODS)
    answer = frame(1, struct.pack(">HH", 60, 11))
    async with asyncio.timeout(120):
        assert await reader.readexactly(METHODS * len(answer)) == answer * METHODS
    assert time.monotonic() - started > 0.8 * (METHODS - 0.5 * METHODS_PER_SECOND) / METHODS_PER_SECOND
    writer.transport.abort()
