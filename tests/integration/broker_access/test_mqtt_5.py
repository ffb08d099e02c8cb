"""What MQTT 5 adds to what a plant can try: shared subscriptions, topic aliases, response topics, sessions of others."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.clients.fleet_under_test import Fleet, Plant
from support.clients.lean_mqtt import Connection
from support.servers.broker_version import needs_mqtt_5

pytestmark = needs_mqtt_5()


@pytest.fixture(scope="module")
def attacker(fleet: Fleet) -> Plant:
    """The plant whose client tries."""
    return fleet.plant("PASSWORD")


@pytest.fixture(scope="module")
def victim(fleet: Fleet) -> Plant:
    """The plant that it wants to reach."""
    return fleet.plant("PASSWORD")


@asynccontextmanager
async def client(plant: Plant, identifier: str | None = None, **members: Any) -> AsyncIterator[aiomqtt.Client]:
    async with aiomqtt.Client(
        "localhost",
        plant.fleet.stack.ports["mqtts_port"],
        identifier=identifier or plant.id,
        username=plant.login.username,
        password=plant.login.password,
        protocol=aiomqtt.ProtocolVersion.V5,
        tls_context=plant.tls(),
        **members,
    ) as connected:
        yield connected


@asynccontextmanager
async def listening(plant: Plant) -> AsyncIterator[Connection]:
    """The plant with its subscription; it is still connected and has received nothing at the end."""
    async with await plant.connect() as connection:
        assert await connection.subscribe(plant.topic("commands")) == [1]
        yield connection
        await asyncio.sleep(1)
        await connection.ping()
        assert connection.received.empty()


async def test_a_shared_subscription_takes_no_commands(attacker: Plant, victim: Plant) -> None:
    filters = [f"$share/group/{topic}" for topic in (victim.topic("commands"), "v1/plants/+/commands", "#")]
    granted = []
    async with listening(victim):
        for wanted in filters:
            with contextlib.suppress(aiomqtt.MqttError):
                async with client(attacker) as connected:
                    granted += [code.value for code in await connected.subscribe(wanted, qos=1, timeout=10)]
    assert all(code >= 0x80 for code in granted), granted


async def test_a_session_of_another_plant_is_not_taken_over(attacker: Plant, victim: Plant) -> None:
    async with listening(victim):
        for clean in (True, False):
            with pytest.raises(aiomqtt.MqttError):
                async with client(attacker, victim.id, clean_start=clean):
                    pass


async def test_a_topic_alias_leads_to_no_topic_of_others(attacker: Plant, victim: Plant) -> None:
    async with listening(victim):
        for channel in ("commands", "telemetry", "status"):
            alias = Properties(PacketTypes.PUBLISH)
            alias.TopicAlias = 1
            with contextlib.suppress(aiomqtt.MqttError):
                async with client(attacker) as connected:
                    await connected.publish(attacker.topic("ack"), b"{}", qos=1, properties=alias, timeout=10)
                    await connected.publish(victim.topic(channel), b"{}", qos=1, properties=alias, timeout=10)
                    await connected.publish("", b"{}", qos=1, properties=alias, timeout=10)
    assert victim.refused() == []


async def test_a_response_topic_and_correlation_data_are_ignored(attacker: Plant, victim: Plant) -> None:
    asked = Properties(PacketTypes.PUBLISH)
    asked.ResponseTopic = victim.topic("commands")
    asked.CorrelationData = b"x" * 60_000
    asked.UserProperty = [(f"name{number}", "x" * 100) for number in range(200)]
    async with listening(victim), client(attacker) as connected:
        status = json.dumps({"status": "ONLINE"})
        await connected.publish(attacker.topic("status"), status, qos=1, properties=asked, timeout=10)
    async with asyncio.timeout(10):
        while attacker.status() != "ONLINE":
            await asyncio.sleep(0.1)


async def publish_with(plant: Plant, properties: Properties) -> None:
    async with client(plant) as connected:
        for _ in range(30):
            await connected.publish(plant.topic("telemetry"), b"", qos=1, properties=properties, timeout=60)


async def test_a_connection_with_very_many_user_properties_is_closed(attacker: Plant, victim: Plant) -> None:
    many = Properties(PacketTypes.PUBLISH)
    many.UserProperty = [("a", "")] * 150_000
    async with listening(victim):
        with pytest.raises(aiomqtt.MqttError):
            await publish_with(attacker, many)
    async with client(attacker) as connected:
        await connected.publish(attacker.topic("status"), b"{}", qos=1, timeout=10)
