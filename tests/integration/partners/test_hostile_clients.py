"""What a partner's client can try on the wire with rights that it has: nothing may escape them or fill the broker's memory."""

import asyncio
import contextlib
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiormq
import httpx
import pytest
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ChannelClosed

from gridfleet.local.secrets import local_secret
from support.clients.fleet_under_test import JsonObject
from support.clients.lean_amqp10 import Refused10, connect10
from support.clients.partner_organization import Organization
from support.clients.raw_amqp import declare, frame, raw_connection, short
from support.clients.raw_properties import NotUtf8, RawProperties, field, headers, table
from support.servers.running_stack import RunningStack

MIB = 2**20
MOST_PROPERTIES = 4_096
"""Bytes."""


@pytest.fixture
async def created(acme: Organization) -> AsyncIterator[JsonObject]:
    found = acme.key()
    yield found
    acme.revoke(found)


async def test_a_transaction_is_refused(acme: Organization, created: JsonObject) -> None:
    """Its messages stay in memory until it is committed, where no queue's bound counts them."""
    async with acme.connected(created) as connection:
        channel = await connection.channel(publisher_confirms=False)
        with pytest.raises(ChannelAccessRefused, match="transactions are not allowed"):
            await channel.tx_select()


async def test_bindings_with_arguments_are_refused(acme: Organization, created: JsonObject) -> None:
    """They would be as many bindings as there are arguments, each up to 128 KiB, in tables that every node keeps in memory."""
    name, key = f"{acme.slug}.bound", f"{acme.slug}.event.alert"
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name)
        await channel.queue_bind(name, "vcp", routing_key=key)
        with pytest.raises(ChannelAccessRefused, match="bindings with arguments"):
            await channel.queue_bind(name, "vcp", routing_key=key, arguments={"n": 1})


async def test_bindings_between_exchanges_with_arguments_are_refused(acme: Organization, created: JsonObject) -> None:
    key = f"{acme.slug}.event.alert"
    async with acme.connected(created) as connection:
        with pytest.raises(ChannelAccessRefused, match="bindings with arguments"):
            await (await connection.channel()).exchange_bind("vcp", "vcp", routing_key=key, arguments={"n": 1})


@pytest.mark.parametrize("arguments", [{NotUtf8("x-name"): 1}, {"x-table": {"n": 1}}, {"x-array": [1]}])
async def test_arguments_of_queues_that_cannot_be_listed_are_refused(
    acme: Organization, created: JsonObject, arguments: dict[str, Any]
) -> None:
    """With such a name, or with 5,000 nested tables, the list of all organisations' queues cannot be read."""
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        with pytest.raises(ChannelAccessRefused, match="an argument of the queue"):
            await channel.queue_declare(f"{acme.slug}.unlisted", arguments=arguments)


async def test_new_quorum_queues_and_streams_are_bounded(stack: RunningStack) -> None:
    """Each leaves atoms in the broker, which stops when it has five million of them."""
    org = Organization(stack, queues=False)
    created, kept, new = org.key(), f"{org.slug}.kept", f"{org.slug}.new"
    try:
        async with org.connected(created) as connection:
            channel = await connection.channel()
            for _ in range(25):
                await channel.queue_declare(kept, durable=True, arguments={"x-queue-type": "quorum"})
            declared = 1
            with contextlib.suppress(ChannelAccessRefused):
                while declared < 30:
                    kind = ("quorum", "stream")[declared % 2]
                    await channel.queue_declare(new, durable=True, arguments={"x-queue-type": kind})
                    await channel.queue_delete(new)
                    declared += 1
            assert declared == 20
            channel = await connection.channel()
            await channel.queue_declare(kept, durable=True, arguments={"x-queue-type": "quorum"})
            for arguments in ({}, {"x-queue-type": "classic"}):
                await channel.queue_declare(f"{new}.classic.{len(arguments)}", durable=True, arguments=arguments)
    finally:
        org.revoke(created)
        org.close()


async def test_a_name_that_is_not_utf_8_is_refused(acme: Organization, created: JsonObject) -> None:
    async with acme.connected(created) as connection:
        with pytest.raises((AMQPError, ChannelClosed)):
            await (await connection.channel()).queue_declare(NotUtf8(f"{acme.slug}.x"))
    assert acme.queues(created["apiKey"]["vhost"])


async def test_large_arguments_of_consumers_are_refused(acme: Organization, created: JsonObject) -> None:
    async def taken(_: Any) -> None: ...

    name = f"{acme.slug}.consumed"
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name)
        await channel.basic_consume(name, taken, arguments={"x-priority": 5})
        with pytest.raises(ChannelAccessRefused, match="too large"):
            await channel.basic_consume(name, taken, arguments={"n": "x" * 2_000})


async def test_a_channel_has_a_bounded_number_of_consumers(acme: Organization, created: JsonObject) -> None:
    async def taken(_: Any) -> None: ...

    name = f"{acme.slug}.consumed"
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name)
        opened = 0
        with contextlib.suppress(AMQPError, ChannelClosed):
            while opened < 300:
                await channel.basic_consume(name, taken)
                opened += 1
        assert opened == 20
        await (await connection.channel()).basic_consume(name, taken)


async def test_a_consumer_that_was_cancelled_does_not_count(acme: Organization, created: JsonObject) -> None:
    async def taken(_: Any) -> None: ...

    name = f"{acme.slug}.consumed"
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name)
        for _ in range(30):
            consumer = await channel.basic_consume(name, taken)
            await channel.basic_cancel(consumer.consumer_tag or "")


@pytest.mark.parametrize("header", ["CC", "BCC"])
async def test_copies_to_own_queues_are_refused(acme: Organization, created: JsonObject, header: str) -> None:
    """A queue's bounds do not count what its consumer has not acknowledged, and such messages stay in the broker's memory."""
    name, event, key = f"{acme.slug}.copies", f"{acme.slug}.event.alert", f"{acme.slug}.command.mode"
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name, auto_delete=True)
        await channel.queue_bind(name, "vcp", routing_key=event)
        for copies in ([event], [key, event]):
            copied = aiormq.spec.Basic.Properties(headers={header: copies})
            with pytest.raises(ChannelAccessRefused, match="not copied to another routing key"):
                await (await connection.channel()).basic_publish(b"x", exchange="vcp", routing_key=key, properties=copied)
        assert (await channel.basic_get(name, no_ack=True)).delivery.name == "Basic.GetEmpty"
        kept = aiormq.spec.Basic.Properties(headers={header: [key]})
        await channel.basic_publish(b"x", exchange="vcp", routing_key=key, properties=kept)


@pytest.mark.parametrize("size", [3_900, 4_200])
async def test_large_properties_of_messages_are_refused(acme: Organization, created: JsonObject, size: int) -> None:
    """No bound of a queue counts them: 50,000 commands without a body, with headers of 128 KiB, would be 6 GiB."""
    key = f"{acme.slug}.command.mode"
    large = aiormq.spec.Basic.Properties(headers={"n": "x" * size})
    async with acme.connected(created) as connection:
        channel = await connection.channel()
        if size < MOST_PROPERTIES:
            await channel.basic_publish(b"", exchange="vcp", routing_key=key, properties=large)
        else:
            with pytest.raises(ChannelAccessRefused, match="properties of the message are too large"):
                await channel.basic_publish(b"", exchange="vcp", routing_key=key, properties=large)


async def test_the_names_that_the_broker_gives_are_closed(acme: Organization, created: JsonObject) -> None:
    async with acme.connected(created) as connection:
        for members in ({}, {"exclusive": True}):
            with pytest.raises(ChannelAccessRefused):
                await (await connection.channel()).queue_declare("", **members)


async def test_a_direct_reply_reaches_no_consumer_of_others(
    acme: Organization, created: JsonObject, acme_energy: Organization
) -> None:
    """The name that the broker gives such a consumer leads to it from every vhost, but only by the default exchange."""
    other = acme_energy.key()
    replies: asyncio.Queue[Any] = asyncio.Queue()
    orders: asyncio.Queue[Any] = asyncio.Queue()
    async with acme_energy.connected(other) as theirs, acme.connected(created) as mine:
        consumer = await theirs.channel()
        await consumer.basic_consume("amq.rabbitmq.reply-to", replies.put, no_ack=True)
        requests = f"{acme_energy.slug}.requests"
        async with acme_energy.service_channel(other["apiKey"]["vhost"]) as service:
            await service.queue_declare(requests, auto_delete=True)
            await service.queue_bind(requests, "vcp", routing_key=f"{acme_energy.slug}.command.mode")
            await service.basic_consume(requests, orders.put, no_ack=True)
            asked = aiormq.spec.Basic.Properties(reply_to="amq.rabbitmq.reply-to")
            key = f"{acme_energy.slug}.command.mode"
            await consumer.basic_publish(b"{}", exchange="vcp", routing_key=key, properties=asked)
            name = (await asyncio.wait_for(orders.get(), 10)).header.properties.reply_to
            assert name.startswith("amq.rabbitmq.reply-to.")
            for exchange in ("", "vcp"):
                with pytest.raises(ChannelAccessRefused):
                    await (await mine.channel()).basic_publish(b"x", exchange=exchange, routing_key=name)
            with pytest.raises(ChannelAccessRefused):
                await (await theirs.channel()).basic_publish(b"x", exchange="", routing_key=name)
            await service.basic_publish(b"from the service", exchange="", routing_key=name)
            assert (await asyncio.wait_for(replies.get(), 10)).body == b"from the service"
    assert replies.empty()


async def test_a_client_that_reads_no_answers_is_disconnected(acme: Organization, created: JsonObject) -> None:
    """Answers that a client does not read wait in the broker's memory, messages that it has asked for among them."""
    name, vhost = f"{acme.slug}.unread", created["apiKey"]["vhost"]
    get = struct.pack(">HHHB", 60, 70, 0, len(name)) + name.encode() + b"\0"
    nack = struct.pack(">HHQB", 60, 120, 0, 3)
    async with acme.service_channel(vhost) as service:
        await service.queue_declare(name, durable=True)
        for _ in range(40):
            await service.basic_publish(b"x" * (MIB - 1_000), exchange="", routing_key=name)
    try:
        await _flood(acme, created, frame(1, get) * 40 + frame(1, nack))
    finally:
        async with acme.service_channel(vhost) as service:
            await service.queue_delete(name)


async def test_a_client_that_reads_no_returned_messages_is_disconnected(stack: RunningStack) -> None:
    """Without queues, while its organisation does not trade, every order comes back that is sent as mandatory."""
    org = Organization(stack, queues=False)
    created, key = org.key(), f"{org.slug}.command.mode"
    size = MIB - 1_000
    publish = struct.pack(">HHHB3sB", 60, 40, 0, 3, b"vcp", len(key)) + key.encode() + b"\1"
    header = struct.pack(">HHQH", 60, 0, size, 0)
    body = b"".join(frame(1, b"x" * min(131_000, size - at), kind=3) for at in range(0, size, 131_000))
    try:
        await _flood(org, created, (frame(1, publish) + frame(1, header, kind=2) + body) * 10)
    finally:
        org.revoke(created)
        org.close()


@pytest.mark.parametrize("size", [131_000, 100])
async def test_a_client_whose_message_does_not_end_is_disconnected(acme: Organization, size: int) -> None:
    """The broker checks size and rights of a message when it is complete, and until then keeps its frames in memory."""
    created = acme.key(["vcp:connect"])
    key = f"{acme.slug}.command.mode"
    publish = struct.pack(">HHHB3sB", 60, 40, 0, 3, b"vcp", len(key)) + key.encode() + b"\0"
    start = frame(1, publish) + frame(1, struct.pack(">HHQH", 60, 0, 2**40, 0), kind=2)
    try:
        await _flood(acme, created, frame(1, b"x" * size, kind=3) * (2 * MIB // size), start)
    finally:
        acme.revoke(created)


async def test_a_client_whose_methods_wait_is_disconnected(acme: Organization) -> None:
    """Methods without a message have no credit: those that the channel has not carried out yet wait in the broker's memory."""
    created, name, key = acme.key(["vcp:connect"]), f"{acme.slug}.bound", f"{acme.slug}.event.alert"
    bind_without_answer = struct.pack(">HHH", 50, 20, 0) + short(name) + short("vcp") + short(key) + b"\1" + bytes(4)
    try:
        await _flood(acme, created, frame(1, bind_without_answer) * 50_000, frame(1, declare(name)))
    finally:
        acme.revoke(created)


async def test_a_connection_that_is_reset_while_its_channel_is_busy_ends(acme: Organization, created: JsonObject) -> None:
    """Over TLS and without heartbeats, the broker would not notice: 32 of them would lock the key out of its vhost."""
    _, writer = await raw_connection(acme, acme.slug, created["key"], created["apiKey"]["vhost"])
    body = frame(1, struct.pack(">HHQH", 60, 0, 2, 0), kind=2) + frame(1, b"{}", kind=3)
    for number in range(700):  # a question of the broker for each key, and 400 messages may wait for them
        key = f"{acme.slug}.command.device.{number}"
        writer.write(frame(1, struct.pack(">HHH", 60, 40, 0) + short("vcp") + short(key) + b"\0") + body)
    await writer.drain()
    await asyncio.sleep(0.2)
    at_once = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()
    path = f"{acme.management_url}/api/connections/username/{acme.slug}"
    async with asyncio.timeout(60):
        while httpx.get(path).raise_for_status().json():
            await asyncio.sleep(1)


async def test_a_client_that_receives_large_headers_stays_connected(acme: Organization, created: JsonObject) -> None:
    """The broker decodes them to 40 times their size and keeps that after it has sent the message."""
    name, vhost = f"{acme.slug}.headers", created["apiKey"]["vhost"]
    large = RawProperties(headers(field(b"a", b"A" + table(b"V" * 120_000))))
    async with acme.connected(created) as connection, acme.service_channel(vhost) as service:
        channel = await connection.channel()
        await channel.queue_declare(name)
        for _ in range(10):
            await service.basic_publish(b"x", routing_key=name, properties=large)
            await channel.basic_get(name, no_ack=True)
            await asyncio.sleep(0.3)
        await channel.queue_declare(name, passive=True)


async def test_methods_of_the_service_may_wait(acme: Organization, created: JsonObject) -> None:
    """Its connections carry the messages of all organisations."""
    name, vhost = f"{acme.slug}.bound", created["apiKey"]["vhost"]
    large = table(field(b"a", b"A" + table(b"V" * 200)))
    bind_without_answer = struct.pack(">HHH", 50, 20, 0) + short(name) + short("vcp") + short("key") + b"\1" + large
    password = local_secret(acme.stack.home, "broker_password")
    reader, writer = await raw_connection(acme, "_gridfleet", password, vhost)
    try:
        writer.write(frame(1, declare(name)) + frame(1, bind_without_answer) * 12_000 + frame(1, declare(name)))
        for _ in range(2):
            assert (await asyncio.wait_for(reader.readexactly(11), 120))[7:] == struct.pack(">HH", 50, 11)
            await reader.readuntil(b"\xce")
    finally:
        writer.transport.abort()


async def _flood(org: Organization, created: JsonObject, frames: bytes, start: bytes = b"") -> None:
    """Send frames again and again and read nothing, until the broker closes the connection; its memory stays what it was."""
    vhost, before = created["apiKey"]["vhost"], org.broker_memory()
    _, writer = await raw_connection(org, org.slug, created["key"], vhost)
    writer.write(start)
    assert len(await asyncio.to_thread(_connections, org, vhost, org.slug)) == 1
    most, started = before, time.monotonic()
    try:
        async with asyncio.timeout(60):
            while await asyncio.to_thread(_connections, org, vhost, org.slug):
                if not writer.is_closing() and writer.transport.get_write_buffer_size() < 20 * MIB:
                    writer.write(frames)
                await asyncio.sleep(0.05)
                most = max(most, org.broker_memory())
                assert most < before + 700 * MIB, "a channel that waits has up to 400 messages of 1 MiB before it"
    finally:
        print(f"memory {before / MIB:.0f} -> {most / MIB:.0f} MiB, {time.monotonic() - started:.1f} s")
        writer.transport.abort()


def _connections(org: Organization, vhost: str, user: str) -> list[str]:
    found = httpx.get(f"{org.management_url}/api/connections/username/{quote(user)}", timeout=30).json()
    return [one["name"] for one in found if one["vhost"] == vhost]


async def test_amqp_1_0_is_not_spoken(acme: Organization, created: JsonObject) -> None:
    """RabbitMQ from 4.0 on speaks it. Messages that it cannot convert to AMQP 0-9-1 would end the gateway's channel forever."""
    tls = ssl.create_default_context(cafile=str(acme.stack.home / "ca" / "ca.pem"))
    with pytest.raises(Refused10):
        await connect10(acme.stack.ports["amqps_port"], acme.slug, created["key"], created["apiKey"]["vhost"], tls)
