"""What a plant leaves at the broker for later (retained messages, Last Wills, queues) and whom that can reach."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import aiomqtt
import httpx
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from gridfleet.local.secrets import local_secret
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import Connection, Login, Lost, Refused, Will, connect, packet, text
from support.servers.broker_version import needs_mqtt_5
from support.servers.free_ports import free_ports

METHODS = ("MTLS", "TOKEN", "PASSWORD")
CHANNELS = ("telemetry", "status", "ack", "commands")


@pytest.fixture(scope="module")
def plants(fleet: Fleet) -> dict[str, Plant]:
    """One ACTIVE plant of each method."""
    return {method: fleet.plant(method) for method in METHODS}


@pytest.fixture
def victim(fleet: Fleet) -> Plant:
    """The plant that the others want to reach."""
    return fleet.plant("PASSWORD")


def management(fleet: Fleet, path: str) -> object:
    """What the management API answers to the service's account."""
    account = ("_gridfleet", local_secret(fleet.stack.home, "broker_password"))
    base = f"http://127.0.0.1:{fleet.stack.ports['management_port']}/api"
    return httpx.get(f"{base}{path}", auth=account).raise_for_status().json()


async def received_by(connection: Connection, seconds: float = 1) -> list[tuple[str, bytes]]:
    await asyncio.sleep(seconds)
    await connection.ping()
    return [connection.received.get_nowait() for _ in range(connection.received.qsize())]


async def kept_for(fleet: Fleet, topics: Sequence[str]) -> list[tuple[str, bytes]]:
    """What the broker has retained, as its own account sees it, which may subscribe to everything."""
    password = local_secret(fleet.stack.home, "broker_password")
    async with await connect(fleet.stack.ports["mqtt_port"], Login("reader", "_gridfleet", password)) as connection:
        assert await connection.subscribe(*topics) == [1] * len(topics)
        return await received_by(connection)


@pytest.mark.parametrize("method", METHODS)
async def test_the_broker_retains_nothing(fleet: Fleet, plants: dict[str, Plant], method: str) -> None:
    """No plant may subscribe to what a plant publishes: retained messages would take memory until the end of days."""
    plant = plants[method]
    will = Will(plant.topic("status"), b'{"status":"OFFLINE"}', retain=True)
    async with await plant.connect(replace(plant.login, will=will)) as connection:
        for qos in (0, 1):
            await connection.publish(plant.topic("ack"), b"x", qos=qos, retain=True)
            await connection.publish(plant.topic("telemetry"), b"x", qos=qos, retain=True)
        await connection.ping()
        await connection.close()
    async with await plant.connect() as connection:
        try:
            await connection.publish(plant.topic("telemetry"), b"x" * 2_000_000, qos=0, retain=True)
            await connection.ping()
        except Lost:
            pass
    assert await kept_for(fleet, [plant.topic(channel) for channel in CHANNELS]) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("channel", CHANNELS)
async def test_nothing_is_left_for_another_plant(
    fleet: Fleet, plants: dict[str, Plant], victim: Plant, method: str, channel: str
) -> None:
    plant, topic = plants[method], victim.topic(channel)
    victim.set_online()
    for qos in (0, 1):
        async with await plant.connect() as connection:
            await connection.start_publish(topic, b'{"status":"OFFLINE"}', qos=qos, retain=True)
            await connection.wait_lost()
    for clean in (True, False):
        login = replace(plant.login, will=Will(topic, b'{"status":"OFFLINE"}'), clean_session=clean)
        try:
            async with await plant.connect(login) as connection:
                await connection.ping()
                await connection.close()
        except Refused:
            continue
    async with await victim.connect() as connection:
        assert await connection.subscribe(victim.topic("commands")) == [1]
        assert await received_by(connection) == []
    assert await kept_for(fleet, [topic]) == []
    assert victim.status() == "ONLINE"
    assert victim.refused() == []


@needs_mqtt_5()  # 3.1.1 has no delayed wills
@pytest.mark.parametrize("method", METHODS)
async def test_a_delayed_will_reaches_no_other_plant(
    fleet: Fleet, plants: dict[str, Plant], victim: Plant, method: str
) -> None:
    """The broker keeps such a will in a queue of the plant and dead-letters it to the will's topic when its time has come."""
    plant = plants[method]
    plant.set_online()
    await die_with_will(plant, plant.topic("status"), delay_seconds=0)
    await asyncio.to_thread(wait_for, lambda: plant.status() == "OFFLINE")
    plant.set_online()
    await die_with_will(plant, plant.topic("status"), delay_seconds=1)
    await asyncio.sleep(3)
    assert plant.status() == "ONLINE", "docs/mqtt.md says that it does not arrive"
    victim.set_online()
    async with await victim.connect() as connection:
        assert await connection.subscribe(victim.topic("commands")) == [1]
        for channel in CHANNELS:
            await die_with_will(plant, victim.topic(channel), delay_seconds=1)
        assert await received_by(connection, 3) == []
    assert victim.status() == "ONLINE"
    assert victim.refused() == []


async def die_with_will(plant: Plant, topic: str, *, delay_seconds: int) -> None:
    session, will = Properties(PacketTypes.CONNECT), Properties(PacketTypes.WILLMESSAGE)
    session.SessionExpiryInterval, will.WillDelayInterval = 60, delay_seconds
    async with aiomqtt.Client(
        "localhost",
        plant.fleet.stack.ports["mqtts_port"],
        identifier=plant.id,
        username=plant.login.username,
        password=plant.login.password,
        protocol=aiomqtt.ProtocolVersion.V5,
        properties=session,
        will=aiomqtt.Will(topic, b'{"status":"OFFLINE"}', qos=1, properties=will),
        tls_context=plant.tls(),
    ) as client:
        client._client.disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))


@pytest.mark.parametrize("method", METHODS)
async def test_no_queue_of_a_plant_dead_letters(fleet: Fleet, plants: dict[str, Plant], method: str) -> None:
    """Dead-lettered messages pass no check of their topic."""
    plant = plants[method]
    login = replace(plant.login, clean_session=False)
    async with await plant.connect(login) as connection:
        for qos in (0, 1):
            assert await connection.subscribe(plant.topic("commands"), qos=qos) == [qos]
    queues, policies = management(fleet, "/queues/plants?disable_stats=true"), management(fleet, "/policies/plants")
    assert isinstance(queues, list)
    assert isinstance(policies, list)
    own = [queue for queue in queues if plant.id in queue["name"]]
    assert own
    definitions = [*(queue["arguments"] for queue in queues), *(policy["definition"] for policy in policies)]
    assert [name for definition in definitions for name in definition if "dead-letter" in name] == []


async def test_a_connection_from_the_port_of_an_earlier_one_ends_with_its_plant(fleet: Fleet) -> None:
    """The broker lists connections by their addresses, and notices the end of the first after the beginning of the second."""
    plant = fleet.plant("PASSWORD")
    [own_port] = free_ports(1)
    port = fleet.stack.ports["mqtt_port"]
    login = replace(plant.login, client_id=f"{plant.id}-1", keep_alive_seconds=0)
    first = await connect(port, replace(login, will=Will(plant.topic("status"), b'{"status":"OFFLINE"}')), own_port=own_port)
    first.writer.write(packet(0x30, text(plant.topic("status")) + b'{"status":"ONLINE"}'))
    await asyncio.to_thread(wait_for, lambda: plant.status() == "ONLINE")

    commands = text(plant.topic("commands"))
    subscribe_and_end = packet(0x82, b"\0\1" + commands + b"\1") + packet(0xA2, b"\0\1" + commands)
    first.writer.write(subscribe_and_end * 600)  # the broker needs a while for them
    await asyncio.sleep(0.1)
    first.reset()
    async with await connect(port, replace(login, client_id=f"{plant.id}-2"), own_port=own_port) as second:
        await asyncio.to_thread(wait_for, lambda: plant.status() == "OFFLINE")
        await asyncio.sleep(1)
        await second.ping()
        await asyncio.to_thread(fleet.call, "POST", f"/plants/{plant.id}/revoke")
        await second.wait_lost(10)
        assert second.lost
