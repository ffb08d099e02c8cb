"""Queues of the type that the deployment chose, and classic ones that are replaced without losing a message."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import aiomqtt
import aiormq
import httpx
import pytest
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import ChannelPreconditionFailed
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as MqttProperties
from pamqp.commands import Basic

from gridfleet.domains.partners.legacy.topology import (
    LEGACY_EVENTS,
    ensure_legacy_vhost,
)
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost, inbound_queue
from gridfleet.domains.plants.topology import PLANTS_VHOST, UNROUTED_QUEUE, declare, ingest_queue, replace_shard
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.broker.queue_types import QueueType, ServiceQueue, ensure_queue, is_outdated, replace_queue
from gridfleet.local.broker.configuration import ACCOUNT
from gridfleet.local.secrets import local_secret
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST, EventKind, event_queue
from support.clients.raw_properties import GROWING, STRANGE, STRANGE_HEADERS, UNENCODABLE, RawProperties
from support.servers.broker_node import BrokerNode
from support.servers.broker_version import needs_mqtt_5

VHOST = "replaced"
STRANGE_PROPERTIES = STRANGE | STRANGE_HEADERS | GROWING | UNENCODABLE
QUEUE = ServiceQueue("kept", "x", ("a.#", "b.#"), {"x-max-length-bytes": 10_000_000})


@pytest.fixture
async def channel(broker: BrokerNode) -> AsyncIterator[AbstractChannel]:
    """A channel to a vhost with a classic queue."""
    async with open_management(broker.management_url) as management:
        await management.enter_vhost(VHOST)
        async with open_channel(broker.url, VHOST) as opened:
            await opened.exchange_declare("x", exchange_type="topic", durable=True)
            await ensure_queue(opened, QUEUE, "classic")
            yield opened
        await management.delete_vhost(VHOST)


async def types_in(broker: BrokerNode, vhost: str) -> dict[str, str]:
    async with open_management(broker.management_url) as management:
        return await management.queue_types(vhost)


async def publish(channel: AbstractChannel, number: int) -> None:
    await channel.basic_publish(
        str(number).encode(),
        exchange="x",
        routing_key=f"{'ab'[number % 2]}.{number}",
        properties=aiormq.spec.Basic.Properties(delivery_mode=2, message_id=f"m{number}"),
        mandatory=True,
    )


async def take_all(channel: AbstractChannel) -> dict[int, tuple[str | None, str | None]]:
    """Routing key and message id of each message that waits.

    A message that is published while both queues are bound comes twice, like any message after a lost acknowledgement.
    """
    found = {}
    while isinstance((message := await channel.basic_get(QUEUE.name, no_ack=True)).delivery, Basic.GetOk):
        found[int(message.body)] = (message.delivery.routing_key, message.header.properties.message_id)
    return found


async def test_a_classic_queue_is_replaced_while_messages_arrive(broker: BrokerNode, channel: AbstractChannel) -> None:
    for number in range(200):
        await publish(channel, number)
    published = 200
    types = await types_in(broker, VHOST)
    assert is_outdated(QUEUE, types, "quorum")
    replacing = asyncio.create_task(replace_queue(broker.url, VHOST, QUEUE, types, "quorum"))
    while not replacing.done():
        await publish(channel, published)
        published += 1
    await replacing
    assert published > 210
    types = await types_in(broker, VHOST)
    assert types == {QUEUE.name: "quorum"}
    assert not is_outdated(QUEUE, types, "quorum")
    assert await take_all(channel) == {n: (f"{'ab'[n % 2]}.{n}", f"m{n}") for n in range(published)}


async def test_a_replacement_that_was_interrupted_is_completed(broker: BrokerNode, channel: AbstractChannel) -> None:
    for number in range(50):
        await publish(channel, number)
    await channel.basic_qos(prefetch_count=1)
    consumer = await channel.basic_consume(QUEUE.name, asyncio.Queue().put)
    with pytest.raises(ChannelPreconditionFailed):
        await replace_queue(broker.url, VHOST, QUEUE, await types_in(broker, VHOST), "quorum")
    await publish(channel, 50)
    await channel.basic_cancel(str(consumer.consumer_tag))
    await channel.basic_nack(1)
    types = await types_in(broker, VHOST)
    assert is_outdated(QUEUE, types, "quorum")
    await replace_queue(broker.url, VHOST, QUEUE, types, "quorum")
    assert (await take_all(channel)).keys() == set(range(51))
    assert await types_in(broker, VHOST) == {QUEUE.name: "quorum"}


@pytest.mark.parametrize("kept", ["classic", "quorum", None])
async def test_an_interrupted_replacement_is_completed_when_the_setting_has_changed_back(
    broker: BrokerNode, channel: AbstractChannel, kept: QueueType | None
) -> None:
    """The spare queue takes messages until it is deleted, whatever the setting is now."""
    await channel.queue_delete(QUEUE.name)
    await ensure_queue(channel, QUEUE.spare, "quorum")
    if kept:
        await ensure_queue(channel, QUEUE, kept)
    for number in range(4):
        await publish(channel, number)
    types = await types_in(broker, VHOST)
    assert is_outdated(QUEUE, types, "classic")
    await replace_queue(broker.url, VHOST, QUEUE, types, "classic")
    await publish(channel, 4)
    assert (await take_all(channel)).keys() == set(range(5))
    assert await types_in(broker, VHOST) == {QUEUE.name: kept or "classic"}


async def test_a_message_that_names_its_user_is_kept(broker: BrokerNode, channel: AbstractChannel) -> None:
    """The broker takes a message with the name of another user from no one, so the service cannot publish it unchanged."""
    rights = {"configure": "", "write": "x", "read": ""}
    httpx.put(f"{broker.management_url}/api/users/sender", json={"password": "sender", "tags": ""}).raise_for_status()
    httpx.put(f"{broker.management_url}/api/permissions/{VHOST}/sender", json=rights).raise_for_status()
    try:
        async with open_channel(f"amqp://sender:sender@127.0.0.1:{broker.settings.amqp_port}", VHOST) as sending:
            properties = aiormq.spec.Basic.Properties(delivery_mode=2, message_id="m0", user_id="sender")
            await sending.basic_publish(b"0", exchange="x", routing_key="a.0", properties=properties, mandatory=True)
    finally:
        httpx.delete(f"{broker.management_url}/api/users/sender").raise_for_status()
    await publish(channel, 1)
    await replace_queue(broker.url, VHOST, QUEUE, await types_in(broker, VHOST), "quorum")
    assert await take_all(channel) == {0: ("a.0", "m0"), 1: ("b.1", "m1")}


async def test_messages_with_strange_properties_are_kept(broker: BrokerNode, channel: AbstractChannel) -> None:
    """Those of MQTT 5 may hold any bytes."""
    for number, raw in enumerate(STRANGE_PROPERTIES.values()):
        await channel.basic_publish(
            b"%d" % number, exchange="x", routing_key="a.0", properties=RawProperties(raw), mandatory=True
        )
    await replace_queue(broker.url, VHOST, QUEUE, await types_in(broker, VHOST), "quorum")
    assert await types_in(broker, VHOST) == {QUEUE.name: "quorum"}
    assert (await take_all(channel)).keys() == set(range(len(STRANGE_PROPERTIES)))


@needs_mqtt_5()
async def test_a_plants_message_that_amqp_refuses_is_kept(broker: BrokerNode) -> None:
    """MQTT 5 allows longer times than AMQP, and any name of a property."""
    strange, endless = MqttProperties(PacketTypes.PUBLISH), MqttProperties(PacketTypes.PUBLISH)
    strange.UserProperty = [("CC", "a"), ("BCC", "b"), ("x-death", "c")]
    strange.CorrelationData = b"\xff\x00"
    endless.MessageExpiryInterval = 2**32 - 1
    topic = f"v1/plants/{uuid4()}/telemetry"
    await broker.declare(1)
    try:
        async with aiomqtt.Client(
            "127.0.0.1",
            broker.settings.mqtt_port,
            username=ACCOUNT,
            password=local_secret(broker.settings.home, "broker_password"),
            protocol=aiomqtt.ProtocolVersion.V5,
        ) as client:
            for number, properties in enumerate([endless, strange, None]):
                await client.publish(topic, str(number).encode(), qos=1, properties=properties)
        declared = await declare(broker.url, broker.management_url, shards=1, queue_type="quorum")
        await replace_shard(broker.url, declared, 0)
        async with open_channel(broker.url, PLANTS_VHOST) as channel:
            arrived = asyncio.Queue[DeliveredMessage]()
            await channel.basic_consume(ingest_queue(0), arrived.put, no_ack=True)
            async with asyncio.timeout(10):
                found = [await arrived.get() for _ in range(3)]
        assert [(one.body, one.routing_key) for one in found] == [(b"%d" % n, topic.replace("/", ".")) for n in range(3)]
    finally:
        async with open_channel(broker.url, PLANTS_VHOST) as channel:
            for name in (UNROUTED_QUEUE, ingest_queue(0), f"{ingest_queue(0)}.replacing"):
                await channel.queue_delete(name)


def test_a_quorum_queue_is_never_replaced() -> None:
    assert not is_outdated(QUEUE, {QUEUE.name: "quorum"}, "classic")
    assert not is_outdated(QUEUE, {QUEUE.name: "classic"}, "classic")


async def test_the_plants_queues_follow_the_setting(broker: BrokerNode) -> None:
    await broker.declare(2)
    async with open_channel(broker.url, PLANTS_VHOST) as channel:
        await channel.queue_purge(UNROUTED_QUEUE)
        await channel.basic_publish(b"lost", exchange="amq.topic", routing_key="no.binding")
        try:
            declared = await declare(broker.url, broker.management_url, shards=3, queue_type="quorum")
            assert declared.outdated == {0, 1}
            types = await types_in(broker, PLANTS_VHOST)
            assert [types[ingest_queue(shard)] for shard in range(3)] == ["classic", "classic", "quorum"]
            assert types[UNROUTED_QUEUE] == "quorum"
            message = await channel.basic_get(UNROUTED_QUEUE, no_ack=True)
            assert (message.body, message.delivery.routing_key) == (b"lost", "no.binding")  # type: ignore[union-attr]
            again = await declare(broker.url, broker.management_url, shards=3, queue_type="classic")
            assert again.outdated == set()
        finally:
            for name in (UNROUTED_QUEUE, ingest_queue(2)):
                await channel.queue_delete(name)


async def test_a_partners_queues_follow_the_setting(broker: BrokerNode) -> None:
    queues, vhost = PartnerQueues("acme", "acme"), "partner-outdated"
    async with open_management(broker.management_url) as management:
        try:
            await ensure_partner_vhost(management, broker.url, vhost, queues, queue_type="classic")
            assert set((await management.queue_types(vhost)).values()) == {"classic"}
            async with open_channel(broker.url, vhost) as channel:
                for key in ("acme.event.status", "acme.command.mode", "acme.schedule.set"):
                    await channel.basic_publish(key.encode(), exchange=EXCHANGE, routing_key=key, mandatory=True)
            async with open_channel(broker.url, vhost) as consumer:
                await consumer.basic_consume(inbound_queue("acme"), asyncio.Queue().put, exclusive=True)
                await ensure_partner_vhost(management, broker.url, vhost, queues, queue_type="quorum")
                await asyncio.wait([consumer.closing], timeout=5)
                assert consumer.closing.done()
            assert await management.queue_types(vhost) == dict.fromkeys(queues.names, "quorum")
            async with open_channel(broker.url, vhost) as channel:
                await channel.basic_publish(b"after", exchange=EXCHANGE, routing_key="acme.event.status", mandatory=True)
                for name, wanted in (
                    (event_queue("acme", EventKind.STATUS), ["acme.event.status", "after"]),
                    (inbound_queue("acme"), ["acme.command.mode", "acme.schedule.set"]),
                ):
                    found = [(await channel.basic_get(name, no_ack=True)).body.decode() for _ in wanted]
                    assert found == wanted
        finally:
            await management.delete_vhost(vhost)


async def test_the_queues_of_legacy_keys_follow_the_setting(broker: BrokerNode) -> None:
    queues = PartnerQueues("legacy-acme", "legacy-acme")
    async with open_management(broker.management_url) as management:
        try:
            await ensure_legacy_vhost(management, broker.url, queues, queue_type="classic")
            types = await management.queue_types(LEGACY_VHOST)
            assert {types[name] for name in queues.names} == {"classic"}
            sent = {EXCHANGE: "legacy-acme.command.mode", LEGACY_EVENTS: "legacy-acme.event.status"}
            async with open_channel(broker.url, LEGACY_VHOST) as channel:
                for exchange, key in (*sent.items(), (EXCHANGE, "legacy-acme.schedule.set")):
                    await channel.basic_publish(key.encode(), exchange=exchange, routing_key=key, mandatory=True)
            async with open_channel(broker.url, LEGACY_VHOST) as consumer:
                await consumer.basic_consume(inbound_queue("legacy-acme"), asyncio.Queue().put, exclusive=True)
                await ensure_legacy_vhost(management, broker.url, queues, queue_type="quorum")
                await asyncio.wait([consumer.closing], timeout=5)
                assert consumer.closing.done()
            types = await management.queue_types(LEGACY_VHOST)
            assert {types[name] for name in queues.names} == {"quorum"}
            assert not [name for name in types if name.endswith(".replacing")]
            async with open_channel(broker.url, LEGACY_VHOST) as channel:
                for exchange, key in sent.items():
                    await channel.basic_publish(b"after", exchange=exchange, routing_key=key, mandatory=True)
                for name, wanted in (
                    (event_queue("legacy-acme", EventKind.STATUS), ["legacy-acme.event.status", "after"]),
                    (inbound_queue("legacy-acme"), ["legacy-acme.command.mode", "legacy-acme.schedule.set", "after"]),
                ):
                    assert [(await channel.basic_get(name, no_ack=True)).body.decode() for _ in wanted] == wanted
        finally:
            for name in queues.names:
                await management.delete_queue(LEGACY_VHOST, name)
