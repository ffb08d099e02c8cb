"""Queues that harm the broker, declared and consumed by a client with every right in its vhost."""

import asyncio
import base64
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import aiormq
import httpx
import psutil
import pytest
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ChannelPreconditionFailed
from pamqp.commands import Queue

from gridfleet.domains.partners.topology import ensure_partner_vhost
from gridfleet.kernel.broker.frames import FrameTransport
from gridfleet.kernel.broker.management import open_management
from gridfleet.protocol.amqp import open_connection
from support.clients.fleet_under_test import JsonObject
from support.clients.raw_amqp import authenticate, enter, frame, log_in, short
from support.clients.raw_properties import Repeated, field, table, text
from support.servers.broker_node import BrokerNode
from support.servers.broker_version import broker_version
from support.servers.free_ports import free_ports

NEW_ATOM = b"\x83\x77\x13gridfleet_test_atom"
"""An Erlang term in the external format: an atom that no node has."""


@pytest.fixture
async def client(broker: BrokerNode) -> AsyncIterator[AbstractConnection]:
    """A connection of a user that is no administrator, in a vhost of its own."""
    management = f"{broker.management_url}/api"
    httpx.put(f"{management}/vhosts/client", json={}, timeout=60).raise_for_status()
    httpx.put(f"{management}/users/client", json={"password": "client", "tags": ""}, timeout=60).raise_for_status()
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    httpx.put(f"{management}/permissions/client/client", json=rights, timeout=60).raise_for_status()
    connection = await aiormq.connect(f"amqp://client:client@127.0.0.1:{broker.settings.amqp_port}/client")
    try:
        yield connection
    finally:
        await connection.close()
        httpx.delete(f"{management}/vhosts/client", timeout=60).raise_for_status()
        httpx.delete(f"{management}/users/client", timeout=60).raise_for_status()


@pytest.mark.parametrize("start", ["amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-to\r\n."])
@pytest.mark.parametrize("passive", [True, False])
async def test_the_address_of_a_reply_cannot_be_declared(
    client: AbstractConnection, monkeypatch: pytest.MonkeyPatch, start: str, passive: bool
) -> None:
    """The broker would decode the rest of the name: to new atoms, which it never frees, or to one of its processes."""
    monkeypatch.setattr(Queue.Declare, "validate", lambda _: None)
    channel = await client.channel()
    with pytest.raises(ChannelAccessRefused, match="address of a reply"):
        await channel.queue_declare(f"{start}{base64.b64encode(NEW_ATOM).decode()}.key", passive=passive)


@pytest.mark.parametrize(
    "arguments",
    [
        {Repeated("x-overflow"): "reject-publish", Repeated("x-overflow"): "drop-head"},
        {Repeated("x-max-priority"): 255, Repeated("x-max-priority"): 1},
        {Repeated("x-max-priority"): 1, Repeated("x-max-priority"): "many"},
    ],
)
async def test_an_argument_cannot_be_given_twice(client: AbstractConnection, arguments: dict[str, Any]) -> None:
    """The queue would obey the first, and the management API show the last to the service that looks for harmful ones."""
    channel = await client.channel()
    with pytest.raises(ChannelAccessRefused, match="given twice"):
        await channel.queue_declare("twice", exclusive=True, arguments=arguments)


@pytest.mark.parametrize("value", [1.5, Decimal("1.5"), None, bytearray(b"random")])
async def test_an_argument_has_a_type_that_the_broker_knows(client: AbstractConnection, value: object) -> None:
    """RabbitMQ before 4.0 converts a fraction to a text again and again, also when its client is gone."""
    channel = await client.channel()
    async with asyncio.timeout(60):
        with pytest.raises(ChannelAccessRefused, match="no text"):
            await channel.queue_declare("located", arguments={"x-queue-master-locator": value})


@pytest.mark.parametrize("arguments", [{"x-unknown": "a" * 1_100}, {f"x-{number}": number for number in range(300)}])
async def test_the_arguments_of_a_queue_are_few(client: AbstractConnection, arguments: dict[str, Any]) -> None:
    """The service lists those of all queues each second, and a control character takes six bytes there."""
    channel = await client.channel()
    with pytest.raises(ChannelAccessRefused, match="arguments of the queue are too large"):
        await channel.queue_declare("large", arguments=arguments)


@pytest.mark.parametrize("name", ["read.True", ""])
async def test_a_stream_has_a_bounded_number_of_consumers(client: AbstractConnection, name: str) -> None:
    """Each holds a file of the node open. The empty name means the queue that the channel declared last."""
    stream = f"read.{bool(name)}"

    async def taken(_: object) -> None: ...

    async def consume(times: int) -> None:
        channel = await client.channel()
        await channel.basic_qos(prefetch_count=1)
        await channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        for _ in range(times):
            await channel.basic_consume(name, taken)

    await consume(10)
    await consume(10)
    with pytest.raises(ChannelAccessRefused, match="the stream has too many"):
        await consume(1)


async def test_consumers_of_a_stream_that_have_ended_do_not_count(client: AbstractConnection) -> None:
    async def taken(_: object) -> None: ...

    for _ in range(2):
        channel = await client.channel()
        await channel.basic_qos(prefetch_count=1)
        await channel.queue_declare("ended", durable=True, arguments={"x-queue-type": "stream"})
        tags = [(await channel.basic_consume("ended", taken)).consumer_tag or "" for _ in range(15)]
        for tag in tags[:8]:
            await channel.basic_cancel(tag)
        await (await client.channel()).queue_delete("ended")
        await channel.close()


async def test_a_user_has_a_bounded_number_of_consumers_in_a_vhost(client: AbstractConnection) -> None:
    """A queue looks at all of its consumers for each channel that ends: at 74,000 of 3,700 channels for minutes."""

    async def taken(_: object) -> None: ...

    async def consume() -> AbstractChannel:
        channel = await client.channel()
        for _ in range(20):
            await channel.basic_consume("consumed", taken)
        return channel

    await (await client.channel()).queue_declare("consumed", durable=True)
    channels = [await consume() for _ in range(32)]
    with pytest.raises(ChannelAccessRefused, match="the user has too many consumers"):
        await consume()
    await channels[0].close()
    for tag in list(channels[1].consumers):
        await channels[1].basic_cancel(tag)
    for _ in range(2):
        await consume()


async def test_returned_messages_of_a_quorum_queue_do_not_fill_the_disk(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker would write each of them to the queue's log again, and keep the log from the oldest message in use on."""
    async with open_management(broker.management_url) as management:
        await ensure_partner_vhost(management, broker.url, "client", None)
    channel = await client.channel()
    no_limit = {"x-delivery-limit": -1} if broker_version() >= (4, 0) else {}
    await channel.queue_declare("returned", durable=True, arguments={"x-queue-type": "quorum", **no_limit})
    for _ in range(2):
        await channel.basic_publish(os.urandom(500_000), routing_key="returned")
    await channel.basic_get("returned")
    before = disk_used(broker)
    for _ in range(100):
        returned = await channel.basic_get("returned")
        await channel.basic_nack(returned.delivery_tag or 0, requeue=True)
    assert disk_used(broker) < before + 10_000_000


async def test_a_message_keeps_the_log_of_a_quorum_queue_for_the_time_to_acknowledge(
    broker: BrokerNode, client: AbstractConnection
) -> None:
    """The log is kept from the oldest message in use on, so it would grow by all that a program acknowledges beside it."""
    channel, consumer = await client.channel(), await client.channel()
    await channel.queue_declare("held", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 1_000_000})
    held: list[int] = []

    async def taken(message: DeliveredMessage) -> None:
        if message.header.properties.message_id == "held":
            held.append(message.delivery_tag or 0)
        else:
            await consumer.basic_ack(message.delivery_tag or 0)

    async def publish(count: int) -> None:
        await asyncio.gather(*(channel.basic_publish(os.urandom(20_000), routing_key="held") for _ in range(count)))

    await consumer.basic_qos(prefetch_count=200)
    await consumer.basic_consume("held", taken)
    await channel.basic_publish(b"{}", routing_key="held", properties=aiormq.spec.Basic.Properties(message_id="held"))
    broker.evaluate("ok = rpc:call(N, application, set_env, [gridfleet_bounds, most_log_bytes, 20000000])")
    try:
        while segments_of_queues(broker) < 100_000_000:
            await publish(100)
        await asyncio.sleep(30)  # looks come every 20 s at least
        await consumer.basic_nack(held.pop(), requeue=True)
        async with asyncio.timeout(30):
            while not held:
                await asyncio.sleep(0.1)
        broker.evaluate("ok = rpc:call(N, application, set_env, [rabbit, consumer_timeout, 10000])")
        async with asyncio.timeout(120):
            while segments_of_queues(broker) > 60_000_000:
                await publish(100)
                await asyncio.sleep(1)
    finally:
        broker.evaluate("ok = rpc:call(N, application, set_env, [rabbit, consumer_timeout, 1800000])")
        broker.evaluate("ok = rpc:call(N, application, unset_env, [gridfleet_bounds, most_log_bytes])")


async def test_quorum_queues_keep_little_in_memory(broker: BrokerNode, client: AbstractConnection) -> None:
    """A memory alarm would not end: it blocks the publishers that would have to fill the log before its memory is freed."""
    node = process_of(broker)
    channel = await client.channel()
    await channel.queue_declare("logged", durable=True, arguments={"x-queue-type": "quorum"})
    before = node.memory_info().rss
    for _ in range(250):
        await channel.basic_publish(os.urandom(1_000_000), routing_key="logged")
        taken = await channel.basic_get("logged")
        await channel.basic_ack(taken.delivery_tag or 0)
    assert node.memory_info().rss < before + 170_000_000


async def test_connections_hold_little_together(broker: BrokerNode, client: AbstractConnection) -> None:
    """Each within its own bound of 8 MiB, those of one organisation could fill any node's memory."""
    publish = struct.pack(">HHH", 60, 40, 0) + short("") + short("nowhere") + b"\0"
    start = frame(1, publish) + frame(1, struct.pack(">HHQH", 60, 0, 2**40, 0), kind=2)
    url = f"amqp://client:client@127.0.0.1:{broker.settings.amqp_port}/client"
    broker.evaluate('rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [{absolute, "400MB"}])')
    try:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(30):
                transport = FrameTransport()
                connection = await open_connection(url, transport)
                stack.push_async_callback(connection.close)
                await connection.channel(publisher_confirms=False)
                transport.writer.write(start + frame(1, b"x" * 100_000, kind=3) * 60)
            async with asyncio.timeout(120):
                while len(connections_of_client(broker)) > 17:
                    await asyncio.sleep(0.2)
            await asyncio.sleep(5)
            assert 8 <= len(connections_of_client(broker)) <= 17  # up to 100 MB in 16 connections, and `client`
            await (await client.channel()).queue_declare("small")
    finally:
        broker.evaluate("rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [0.4])")


async def test_deliveries_that_are_not_read_leave_the_memory(broker: BrokerNode, client: AbstractConnection) -> None:
    """Each consumer of a stream gets the whole stream, and no bound of a queue counts what has left it."""
    channel = await client.channel()
    await channel.queue_declare("unread", durable=True, arguments={"x-queue-type": "stream"})
    lasting = aiormq.spec.Basic.Properties(delivery_mode=2)
    for _ in range(60):
        ten = [channel.basic_publish(os.urandom(100_000), routing_key="unread", properties=lasting) for _ in range(10)]
        await asyncio.gather(*ten)
    prefetch = frame(1, struct.pack(">HHIHB", 60, 10, 0, 10_000, 0))
    first = table(field(b"x-stream-offset", text(b"first")))
    consume_without_answer = struct.pack(">HHH", 60, 20, 0) + short("unread") + short("") + b"\x08" + first
    node = process_of(broker)
    before = node.memory_info().rss
    broker.evaluate('rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [{absolute, "400MB"}])')
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    slow.connect(("127.0.0.1", broker.settings.amqp_port))
    reader, writer = await asyncio.open_connection(sock=slow, limit=1_000)
    try:
        await log_in(reader, writer, "client", "client", "client")
        writer.write(prefetch + frame(1, consume_without_answer) * 8)
        async with asyncio.timeout(60):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:  # a client that reads nothing for 60 s is disconnected anyway
                    await reader.readexactly(100_000)
                    await asyncio.sleep(0.25)
            while node.memory_info().rss > before + 200_000_000:  # a quarter of 400 MB, and what else the node needs
                await asyncio.sleep(0.2)
        await (await client.channel()).queue_declare("small")
    finally:
        writer.transport.abort()
        broker.evaluate("rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [0.4])")


@pytest.mark.skipif(broker_version() < (3, 12), reason="RabbitMQ before 3.12 writes messages to disk when memory gets scarce")
async def test_messages_that_are_not_acknowledged_leave_the_memory(broker: BrokerNode, client: AbstractConnection) -> None:
    """Also after they came back from their consumer, they would stay there until they are acknowledged."""

    async def taken(_: object) -> None: ...

    channel = await client.channel()
    await channel.queue_declare("kept", durable=True)
    consumer = await client.channel()
    await consumer.basic_consume("kept", taken)
    node = process_of(broker)
    before = node.memory_info().rss
    broker.evaluate('rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [{absolute, "400MB"}])')
    try:
        lasting = aiormq.spec.Basic.Properties(delivery_mode=2)
        for _ in range(150):
            await channel.basic_publish(os.urandom(1_000_000), routing_key="kept", properties=lasting)
        async with asyncio.timeout(120):
            while (await channel.queue_declare("kept", passive=True)).message_count != 150:
                await asyncio.sleep(0.2)
        assert node.memory_info().rss < before + 100_000_000
    finally:
        broker.evaluate("rpc:call(N, vm_memory_monitor, set_vm_memory_high_watermark, [0.4])")


async def test_methods_wait_in_no_channel_that_its_reader_has_forgotten(broker: BrokerNode, client: AbstractConnection) -> None:
    """A client may confirm an end without a request: the channel is forgotten, and carries out what waits there."""
    await (await client.channel()).queue_declare("bound")
    bind_without_answer = struct.pack(">HHH", 50, 20, 0) + short("bound") + short("amq.topic") + short("key") + b"\1" + bytes(4)
    close_ok, open_again = frame(1, struct.pack(">HH", 20, 41)), frame(1, struct.pack(">HH", 20, 10) + short(""))
    node = process_of(broker)
    before = node.memory_info().rss
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.settings.amqp_port)
    try:
        await log_in(reader, writer, "client", "client", "client")
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(120):
                while not reader.at_eof() and node.memory_info().rss < before + 1_000_000_000:
                    writer.write(frame(1, bind_without_answer) * 50_000 + close_ok + open_again)
                    await writer.drain()
        assert node.memory_info().rss < before + 500_000_000
    finally:
        writer.transport.abort()


async def test_a_vhost_has_a_bounded_number_of_queues_declared_at_once(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker counts them before it declares one."""
    management = f"{broker.management_url}/api"
    httpx.put(f"{management}/vhost-limits/client/max-queues", json={"value": 5}, timeout=60).raise_for_status()
    channels = [await client.channel() for _ in range(60)]
    declared = [channel.queue_declare(f"at-once.{number}", durable=True) for number, channel in enumerate(channels)]
    outcomes = await asyncio.gather(*declared, return_exceptions=True)
    assert all(isinstance(outcome, ChannelPreconditionFailed | Queue.DeclareOk) for outcome in outcomes)
    async with await aiormq.connect(f"amqp://client:client@127.0.0.1:{broker.settings.amqp_port}/client") as another:
        with contextlib.suppress(ChannelPreconditionFailed):
            channel = await another.channel()
            for number in range(10):
                await channel.queue_declare(f"one-by-one.{number}")
    assert len(httpx.get(f"{management}/queues/client?disable_stats=true", timeout=60).json()) == 5


async def test_a_vhost_has_a_bounded_number_of_connections_at_once(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker counts them before it opens one, and an open one counts a moment later."""
    limit = f"{broker.management_url}/api/vhost-limits/client/max-connections"
    httpx.put(limit, json={"value": 5}, timeout=60).raise_for_status()
    streams = [await asyncio.open_connection("127.0.0.1", broker.settings.amqp_port) for _ in range(100)]
    try:
        for reader, writer in streams:
            await authenticate(reader, writer, "client", "client")
        await asyncio.gather(*(enter(reader, writer, "client") for reader, writer in streams))
        await asyncio.sleep(5)  # those that are closed have a second to answer
        assert len(connections_of_client(broker)) == 5
        await client.channel()
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def test_channels_that_have_ended_leave_nothing(broker: BrokerNode, client: AbstractConnection) -> None:
    for _ in range(100):
        channel = await client.channel()
        await channel.basic_cancel("never consumed")
        await channel.close()
    await asyncio.sleep(10)  # looks come every two seconds at least
    broker.evaluate("true = rpc:call(N, ets, info, [gridfleet_bounds, size]) < 50")


async def test_the_plugin_can_be_disabled_and_enabled_any_number_of_times(broker: BrokerNode) -> None:
    """`rabbitmq-plugins` changes the file and calls the same function."""
    listed = broker.settings.home / "broker" / "enabled_plugins"
    count = (
        "Count = fun() -> length([P || P <- rpc:call(N, erlang, processes, []),"
        " {_, Calls} <- [rpc:call(N, erlang, process_info, [P, current_stacktrace])],"
        " lists:keymember(gridfleet_bounds, 1, Calls)]) end, Before = Count(), true = Before > 0,"
    )
    change = (
        f'{{ok, [All]}} = file:consult("{listed}"),'
        f'Ensure = fun(Plugins) -> ok = file:write_file("{listed}", io_lib:format("~p.~n", [Plugins])),'
        f' {{ok, _, _}} = rpc:call(N, rabbit_plugins, ensure, ["{listed}"]) end,'
        "Again = fun() -> Ensure(All -- [gridfleet_bounds]), 0 = Count(), Ensure(All), Before = Count() end,"
    )
    broker.evaluate(f"{count} {change} Again(), Again()")


def connections_of_client(broker: BrokerNode) -> list[JsonObject]:
    found: list[JsonObject] = httpx.get(f"{broker.management_url}/api/connections/username/client", timeout=30).json()
    return found


def disk_used(broker: BrokerNode) -> int:
    return sum(
        path.stat().st_size for path in (broker.settings.home / "broker" / "data").rglob("quorum/**/*") if path.is_file()
    )


def segments_of_queues(broker: BrokerNode) -> int:
    """Return the bytes of quorum queues' logs that have left the log that all of them share."""
    return sum(path.stat().st_size for path in (broker.settings.home / "broker" / "data").rglob("quorum/**/*.segment"))


def process_of(broker: BrokerNode) -> psutil.Process:
    """Return the node's process: of those in its folder, the largest. The others are its helpers."""
    folder = str(broker.settings.home.resolve() / "broker")
    own = [one for one in psutil.process_iter(["cwd", "memory_info"]) if one.info["cwd"] == folder]
    return max(own, key=lambda one: one.info["memory_info"].rss)


@pytest.mark.parametrize("are_counted", [True, False])
async def test_a_user_has_a_bounded_number_of_channels(
    broker: BrokerNode, client: AbstractConnection, are_counted: bool
) -> None:
    """Each is four processes of the node, which has a million at most.

    The broker does not count those of a connection from the port of an earlier one.
    """
    forget = (
        "[rpc:call(N, rabbit_channel_tracking, unregister_tracked, [element(2, T)])"
        ' || T <- rpc:call(N, rabbit_channel_tracking, list_of_user, [<<"client">>])]'
    )
    url = f"amqp://client:client@127.0.0.1:{broker.settings.amqp_port}/client"
    opened = 0
    async with contextlib.AsyncExitStack() as stack:
        with contextlib.suppress(ChannelAccessRefused):
            while opened < 4_500:
                connection = await aiormq.connect(url)
                stack.push_async_callback(connection.close)
                for _ in range(127):
                    await connection.channel(publisher_confirms=False)
                    opened += 1
                if not are_counted and opened % 1_270 == 0:
                    broker.evaluate(forget)
    assert 4_000 < opened < 4_200


async def test_channels_that_have_ended_do_not_count(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker itself counts some for ever: 3 of 8,000 that were closed at once."""
    ended = '[{tracked_channel, {N, I}, N, <<"client">>, I, P, <<"client">>, P} || {I, P} <- Pids]'
    await client.channel()
    broker.evaluate(with_ended_processes(f"[rpc:call(N, rabbit_channel_tracking, register_tracked, [T]) || T <- {ended}]"))
    try:
        await client.channel()
    finally:
        unregister = "[rpc:call(N, rabbit_channel_tracking, unregister_tracked, [{N, I}]) || {I, _} <- Pids]"
        broker.evaluate(with_ended_processes(unregister))


async def test_connections_that_have_ended_do_not_count_for_ever(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker itself counts some until it stops, of which 32 lock a key out: 27 of 6,146 that were closed at once.

    Those of a vhost that is deleted, and several channels with one number, do not keep the others from being removed.
    """
    again = '[{tracked_channel, {N, <<"1">>}, N, <<"client">>, <<"1">>, P, <<"client">>, P} || {I, P} <- Pids, I < 4]'
    broker.evaluate(with_ended_processes(f"[rpc:call(N, rabbit_channel_tracking, register_tracked, [T]) || T <- {again}]"))
    await asyncio.sleep(21)  # two looks of the plugin, which removes what had ended at the previous one
    deleted = f"{broker.management_url}/api/vhosts/deleted"
    httpx.put(deleted, json={}, timeout=60).raise_for_status()
    begin = "[rpc:call(N, rabbit_connection_tracking, register_tracked, [T]) || T <- "
    of_deleted = (
        '[{tracked_connection, {N, {I}}, N, <<"deleted">>, {I}, P, {0, 9, 1}, network, I, I, <<"deleted">>, I}'
        " || {I, P} <- Pids, I < 20]"
    )
    broker.evaluate(with_ended_processes(f"{begin}{of_deleted}]"))
    httpx.delete(deleted, timeout=60).raise_for_status()
    limit = f"{broker.management_url}/api/vhost-limits/client/max-connections"
    httpx.put(limit, json={"value": 32}, timeout=60).raise_for_status()
    ended = '[{tracked_connection, {N, I}, N, <<"client">>, I, P, {0, 9, 1}, network, I, I, <<"client">>, I} || {I, P} <- Pids]'
    broker.evaluate(with_ended_processes(f"{begin}{ended}]"))
    url = f"amqp://client:client@127.0.0.1:{broker.settings.amqp_port}/client"
    with pytest.raises(AMQPError):
        await aiormq.connect(url)

    connection = None
    async with asyncio.timeout(300):
        while connection is None:
            await asyncio.sleep(1)
            with contextlib.suppress(AMQPError):
                connection = await aiormq.connect(url)
    await connection.close()


async def test_a_wrong_count_of_connections_is_corrected(broker: BrokerNode, client: AbstractConnection) -> None:
    """The broker counts wrongly for ever when several of its processes record one connection at the same moment."""
    tracked = '{tracked_connection, {N, "1"}, N, <<"client">>, "1", self(), {0, 9, 1}, network, 1, 1, <<"client">>, 1}'
    calls = "[rpc:async_call(N, rabbit_connection_tracking, F, [A]) || _ <- lists:seq(1, 500), {F, A} <- Changes]"
    changes = f'[{{register_tracked, {tracked}}}, {{unregister_tracked, {{N, "1"}}}}]'
    counted = 'rpc:call(N, rabbit_connection_tracking, count_tracked_items_in, [{vhost, <<"client">>}])'
    listed = 'length(rpc:call(N, rabbit_connection_tracking, list, [<<"client">>]))'
    waits = (
        f"{wait} = fun W(0) -> false; W(T) -> {met} orelse begin {before}, W(T - 1) end end"
        for wait, met, before in (
            ("Wrong", f"{counted} =/= {listed}", f"[rpc:yield(C) || C <- {calls}]"),
            ("Right", f"{counted} =:= {listed}", "timer:sleep(1000)"),
        )
    )
    expression = f"Changes = {changes}, {', '.join(waits)}, {{true, true}} = {{Wrong(50), Right(60)}}"
    try:
        await asyncio.to_thread(broker.evaluate, expression)
    finally:
        broker.evaluate('rpc:call(N, rabbit_connection_tracking, unregister_tracked, [{N, "1"}])')


async def test_connections_from_the_port_of_an_earlier_one_count_once(broker: BrokerNode, client: AbstractConnection) -> None:
    """A key is locked out of its vhost when the broker counts too many, also in the vhost that several organisations share."""
    at_once = struct.pack("ii", 1, 0)

    async def connect_again(own_port: int) -> None:
        address = ("127.0.0.1", own_port)
        for _ in range(300):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.settings.amqp_port, local_addr=address)
            await authenticate(reader, writer, "client", "client")
            await enter(reader, writer, "client")
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            writer.transport.abort()
            await asyncio.sleep(0)  # the transport closes its socket a moment later

    await asyncio.gather(*map(connect_again, free_ports(4)))
    counted = 'rpc:call(N, rabbit_connection_tracking, count_tracked_items_in, [{vhost, <<"client">>}])'
    # The plugin removes those whose end came before their beginning.
    wait = f"Wait = fun W(0) -> false; W(T) -> 1 =:= {counted} orelse begin timer:sleep(1000), W(T - 1) end end"
    listed = 'rpc:call(N, rabbit_connection_tracking, list, [<<"client">>])'
    await asyncio.to_thread(broker.evaluate, f"{wait}, {{true, _, _}} = {{Wait(90), {counted}, {listed}}}")


async def test_the_latest_connection_of_a_port_is_listed(broker: BrokerNode, client: AbstractConnection) -> None:
    """Also while several earlier ones have not noticed that they were reset: a revocation closes what is listed."""
    facts = '[{name, <<"same">>}, {node, N}, {pid, P}, {vhost, <<"client">>}, {user, <<"client">>}, {type, network}]'
    begin = f"rpc:call(N, gen_event, sync_notify, [rabbit_event, {{event, connection_created, {facts}, none, 0}}])"
    listed = 'element(6, rpc:call(N, rabbit_connection_tracking, lookup, [<<"same">>]))'
    await asyncio.to_thread(
        broker.evaluate,
        "Pids = [rpc:call(N, erlang, spawn, [timer, sleep, [20000]]) || _ <- [1, 2, 3]],"
        f"[{begin} || P <- Pids], timer:sleep(2000), Latest = lists:last(Pids),"
        f"[Latest = {listed} || _ <- lists:seq(1, 50), ok =:= timer:sleep(30)]",
    )


def with_ended_processes(expression: str) -> str:
    """Return an expression with `Pids`, numbered ids of processes that the node does not have."""
    given = "Pids = [{I, rpc:call(N, erlang, list_to_pid, [P])} || I <- lists:seq(1, 4200),"
    return f'{given} P <- ["<0." ++ integer_to_list(I) ++ ".8000>"]], {expression}'
