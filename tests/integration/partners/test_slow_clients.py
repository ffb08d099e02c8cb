"""Partners' programs that are slow: the broker's bounds must not disturb them."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator

import pytest

from gridfleet.local.secrets import local_secret
from support.clients.fleet_under_test import JsonObject
from support.clients.partner_organization import Organization
from support.clients.raw_amqp import declare, frame, raw_connection, short
from support.servers.running_stack import RunningStack

MIB = 2**20


@pytest.fixture
async def created(acme: Organization) -> AsyncIterator[JsonObject]:
    found = acme.key()
    yield found
    acme.revoke(found)


async def test_a_client_that_reads_slowly_receives_every_delivery(acme: Organization, created: JsonObject) -> None:
    """Without acknowledgements, a quorum queue passes all its messages on, and they wait in the writer, which is not copied."""
    count, vhost, name, tag = 90_000, created["apiKey"]["vhost"], f"{acme.slug}.".ljust(60, "x"), "t" * 60
    body = frame(1, struct.pack(">HHQH", 60, 0, 1_000, 0), kind=2) + frame(1, b"x" * 1_000, kind=3)
    message = frame(1, struct.pack(">HHH", 60, 40, 0) + short("") + short(name) + b"\0") + body
    consume_without_answer = struct.pack(">HHH", 60, 20, 0) + short(name) + short(tag) + b"\x0a" + bytes(4)
    size = len(frame(1, struct.pack(">HH", 60, 60) + short(tag) + bytes(9) + short("") + short(name)) + body)
    async with acme.service_channel(vhost) as service:
        await service.queue_declare(name, durable=True, arguments={"x-queue-type": "quorum"})
        _, publisher = await raw_connection(acme, "_gridfleet", local_secret(acme.stack.home, "broker_password"), vhost)
        reader, writer = await raw_connection(acme, acme.slug, created["key"], vhost)
        try:
            publisher.write(message * count)
            while (await service.queue_declare(name, passive=True)).message_count != count:
                await asyncio.sleep(0.1)
            most = before = acme.broker_memory()
            writer.write(frame(1, consume_without_answer))
            read, rounds = 0, 0
            while rounds < 150:
                for _ in range(5):
                    assert (await reader.readexactly(size)).endswith(body)
                read += 5
                await asyncio.sleep(0.05)
                most = max(most, acme.broker_memory())
                if rounds or (await service.queue_declare(name, passive=True)).message_count == 0:
                    rounds += 1
            print(f"memory {before / MIB:.0f} -> {most / MIB:.0f} MiB, {(count - read) * size / MIB:.0f} MiB wait")
            # Of 100 MiB: 149 to 210 MiB more, and 315 to 329 if the plugin copies the inbox of the writer.
            assert most - before < 2.5 * count * size
            for _ in range(count - read):
                assert (await reader.readexactly(size)).endswith(body)
        finally:
            publisher.transport.abort()
            writer.transport.abort()
            await service.queue_delete(name)


async def test_a_client_with_many_unacknowledged_messages_is_answered(stack: RunningStack) -> None:
    """The broker asks its channel how many they are, and does not read the connection meanwhile."""
    org = Organization(stack, queues=False)
    created, count, name = org.key(), 160_000, f"{org.slug}.unacknowledged"
    vhost, key = created["apiKey"]["vhost"], f"{org.slug}.command.mode"
    small = frame(1, struct.pack(">HHQH", 60, 0, 1, 0), kind=2) + frame(1, b"x", kind=3)
    message = frame(1, struct.pack(">HHH", 60, 40, 0) + short("") + short(name) + b"\0") + small
    consume_without_answer = struct.pack(">HHH", 60, 20, 0) + short(name) + short("t") + b"\x08" + bytes(4)
    size = len(frame(1, struct.pack(">HH", 60, 60) + short("t") + bytes(9) + short("") + short(name)) + small)
    large = frame(1, struct.pack(">HHQH", 60, 0, 100_000, 0), kind=2) + frame(1, b"x" * 100_000, kind=3)
    order = frame(1, struct.pack(">HHH", 60, 40, 0) + short("vcp") + short(key) + b"\0") + large
    answer = len(frame(1, struct.pack(">HH", 50, 11) + short(name) + bytes(8)))
    declared, publisher = await raw_connection(org, "_gridfleet", local_secret(stack.home, "broker_password"), vhost)
    reader, writer = await raw_connection(org, org.slug, created["key"], vhost)
    try:
        publisher.write(frame(1, declare(name)) + message * count)
        await declared.readexactly(answer)
        writer.write(frame(1, consume_without_answer))
        await reader.readexactly(size * count)
        started = time.monotonic()
        while (asked := time.monotonic()) < started + 15:
            writer.write(order * 10 + frame(1, declare(name, passive=True)))
            await reader.readexactly(answer)
            assert time.monotonic() < asked + 10
    finally:
        publisher.transport.abort()
        writer.transport.abort()
        org.revoke(created)
        org.close()
