"""A plant that sends faster than ingest stores does not delay the messages of others. No ingest runs here but the test's."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import takewhile
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from aiormq.abc import AbstractChannel, DeliveredMessage

from gridfleet.domains.plants.topology import PLANTS_VHOST, declare, ingest_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from support.clients.lean_mqtt import Connection, Login, connect, packet, read_packet, text
from support.clients.raw_amqp import frame, log_in, short
from support.servers.broker_node import BrokerNode

BODY = os.urandom(173_000)
"""Content of each message of the flood: the size of an array of 1,000 snapshots."""
FLOOD = 160
LINK_BYTES_PER_SECOND = 12_500_000
"""Speed of the plant's network link: 100 Mbit/s. Over it, the flood takes two seconds."""
SEND_BUFFER_BYTES = 64 * 1024
"""What the system of the sender keeps for the network. The default of 4 MB would arrive faster than over a link."""
OTHERS = 40
PAUSE_SECONDS = 0.2
"""Between the messages of the other plant. So their sending takes longer than the flood's keep-alive."""
KEEP_ALIVE_SECONDS = 4
MOST_BEFORE = FLOOD // 4
STORED_SECONDS = 0.1
"""Time that ingest needs for a message of the flood."""
FLOODING, OTHER = str(uuid4()), str(uuid4())


def key(plant: str, channel: str) -> str:
    return f"v1.plants.{plant}.{channel}"


def topic(plant: str, channel: str) -> str:
    return f"v1/plants/{plant}/{channel}"


@asynccontextmanager
async def one_shard(broker: BrokerNode, queue_type: str) -> AsyncIterator[AbstractChannel]:
    """Open a channel to a node with two plants and one shard with an empty queue of this type."""
    async with open_channel(broker.url, PLANTS_VHOST) as channel:
        await channel.queue_delete(ingest_queue(0))
        await declare(broker.url, broker.management_url, shards=1, queue_type=queue_type)
        yield channel
        await channel.queue_delete(ingest_queue(0))


@pytest.fixture(autouse=True)
async def plants(broker: BrokerNode) -> AsyncIterator[None]:
    """Two plants that the broker authorises itself."""
    await broker.declare(1)
    url = httpx.URL(broker.management_url)
    async with httpx.AsyncClient(base_url=url, auth=(url.username, url.password)) as http:
        for plant in (FLOODING, OTHER):
            (await http.put(f"/api/users/{plant}", json={"password": "a password", "tags": ""})).raise_for_status()
            rights = {"configure": ".*", "write": ".*", "read": ".*"}
            granted = await http.put(f"/api/permissions/{quote(PLANTS_VHOST, safe='')}/{plant}", json=rights)
            granted.raise_for_status()
        yield
        for plant in (FLOODING, OTHER):
            (await http.delete(f"/api/users/{plant}")).raise_for_status()


@asynccontextmanager
async def connected(broker: BrokerNode, plant: str) -> AsyncIterator[Connection]:
    login = Login(plant, plant, "a password", keep_alive_seconds=KEEP_ALIVE_SECONDS * (plant == FLOODING))
    async with await connect(broker.settings.mqtt_port, login) as connection:
        connection.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        yield connection


async def send_flood(connection: Connection, qos: int, count: int = FLOOD) -> None:
    """Send that many messages as fast as the link allows, and return when the broker has read them."""
    answers = []
    for number in range(count):
        answers.append(await connection.start_publish(topic(FLOODING, "telemetry"), number.to_bytes(2, "big") + BODY, qos=qos))
        await asyncio.sleep(len(BODY) / LINK_BYTES_PER_SECOND)
    for answer in answers:
        await connection.confirmed(answer, 300)
    await connection.ping(300)


async def send_others(connection: Connection) -> None:
    for number in range(OTHERS):
        await connection.publish(topic(OTHER, "telemetry"), str(number).encode())
        await asyncio.sleep(PAUSE_SECONDS)


async def read(channel: AbstractChannel, count: int) -> list[tuple[str, bytes]]:
    """Return plants and contents of the next messages, once that many have arrived."""
    found: list[tuple[str, bytes]] = []
    complete = asyncio.Event()

    async def take(message: DeliveredMessage) -> None:
        assert message.routing_key is not None
        found.append((message.routing_key.split(".")[2], message.body[:2]))
        await message.channel.basic_ack(message.delivery_tag or 0)
        if len(found) == count:
            complete.set()

    await channel.basic_qos(prefetch_count=20)
    await channel.basic_consume(ingest_queue(0), take)
    async with asyncio.timeout(120):
        await complete.wait()
    return found


@pytest.mark.parametrize(("queue_type", "qos"), [("classic", 0), ("classic", 1), ("quorum", 1)])
async def test_few_messages_of_a_flood_come_before_those_of_others(broker: BrokerNode, queue_type: str, qos: int) -> None:
    async with (
        one_shard(broker, queue_type) as channel,
        connected(broker, FLOODING) as flood,
        connected(broker, OTHER) as other,
        asyncio.TaskGroup() as tasks,
    ):
        await flood.subscribe(topic(FLOODING, "commands"))
        flooding = tasks.create_task(send_flood(flood, qos))

        await send_others(other)
        assert not flooding.done(), "the flood was read before the messages of others were sent"
        await channel.basic_publish(b"a command", exchange="amq.topic", routing_key=key(FLOODING, "commands"))
        async with asyncio.timeout(5):
            assert await flood.received.get() == (topic(FLOODING, "commands"), b"a command")
        assert not flooding.done()
        messages = await read(channel, FLOOD + OTHERS)

    before = [sender for sender, _ in takewhile(lambda message: message != (OTHER, str(OTHERS - 1).encode()), messages)]
    assert before.count(FLOODING) < MOST_BEFORE
    assert [content for sender, content in messages if sender == FLOODING] == [n.to_bytes(2, "big") for n in range(FLOOD)]


@pytest.mark.parametrize("qos", [0, 1])
async def test_others_wait_for_few_messages_of_a_flood_that_is_stored(broker: BrokerNode, qos: int) -> None:
    async with one_shard(broker, "classic") as channel, connected(broker, FLOODING) as flood, connected(broker, OTHER) as other:
        stored = 0
        sent_after: list[int] = []
        waited: list[int] = []
        messages: asyncio.Queue[DeliveredMessage] = asyncio.Queue()

        async def send() -> None:
            for number in range(OTHERS):
                sent_after.append(stored)
                await other.publish(topic(OTHER, "telemetry"), str(number).encode())
                await asyncio.sleep(PAUSE_SECONDS)

        await channel.basic_qos(prefetch_count=500)
        await channel.basic_consume(ingest_queue(0), messages.put)
        async with asyncio.TaskGroup() as tasks:
            flooding = tasks.create_task(send_flood(flood, qos, 10 * FLOOD))
            tasks.create_task(send())
            while len(waited) < OTHERS:
                message = await messages.get()
                if message.routing_key == key(OTHER, "telemetry"):
                    waited.append(stored - sent_after[int(message.body)])
                else:
                    await asyncio.sleep(STORED_SECONDS)
                    stored += 1
                await channel.basic_ack(message.delivery_tag or 0)
            flooding.cancel()

    assert stored > OTHERS
    assert max(waited) < MOST_BEFORE


async def test_the_connection_of_a_flood_is_closed_at_once(broker: BrokerNode) -> None:
    async with one_shard(broker, "classic"), connected(broker, FLOODING) as flood, connected(broker, OTHER) as other:
        flooding = asyncio.create_task(send_flood(flood, 0))
        await send_others(other)
        assert not flooding.done()

        async with open_management(broker.management_url) as management:
            await management.close_connections(FLOODING)

        await flood.wait_lost(5)
        await asyncio.gather(flooding, return_exceptions=True)


@pytest.mark.parametrize("protocol", ["MQTT", "AMQP"])
async def test_what_the_broker_does_not_read_waits_in_the_client(broker: BrokerNode, protocol: str) -> None:
    """During an alarm of memory, the process that decrypts would otherwise go on to read."""
    alarm = "{resource_limit, memory, N}"
    context = ssl.create_default_context(cadata=broker.authority.certificate_pem)
    port = broker.settings.mqtts_port if protocol == "MQTT" else broker.settings.amqps_port
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    if protocol == "MQTT":
        writer.write(Login(FLOODING, FLOODING, "a password").packet())
        await read_packet(reader)
        content = packet(0x30, text(topic(FLOODING, "telemetry")) + BODY)
    else:
        account = httpx.URL(broker.url)
        await log_in(reader, writer, account.username, account.password, "/")
        publish = struct.pack(">HHH", 60, 40, 0) + short("") + short("nowhere") + b"\0"
        body = BODY[:100_000]
        content = frame(1, publish) + frame(1, struct.pack(">HHQH", 60, 0, len(body), 0), kind=2) + frame(1, body, kind=3)
    broker.evaluate(f"rpc:call(N, rabbit_alarm, set_alarm, [{{{alarm}, []}}])")
    sent = 0
    try:
        for _ in range(100):
            if writer.transport.get_write_buffer_size() < len(content):
                writer.write(content * 10)
                sent += 10 * len(content)
            await asyncio.sleep(0.05)
        assert sent - writer.transport.get_write_buffer_size() < 20 * 2**20
        assert not writer.transport.is_closing()
    finally:
        broker.evaluate(f"rpc:call(N, rabbit_alarm, clear_alarm, [{alarm}])")
        writer.transport.abort()
