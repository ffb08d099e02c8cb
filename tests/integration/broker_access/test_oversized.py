"""MQTT packets larger than the broker takes."""

import asyncio
import contextlib

import psutil
import pytest

from gridfleet.kernel.clock import utc_now
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import SUBSCRIBE, Lost, packet, text
from support.servers.broker_version import broker_version

SECONDS = 5.0
MIB = 2**20
LARGEST = b"\xff\xff\xff\x7f"
"""The remaining length of a packet of 256 MiB."""

PING = b"\xc0\0"


@pytest.mark.parametrize("method", ["MTLS", "PASSWORD"])
@pytest.mark.parametrize("size", [1024 * 1024 + 1, 8 * 1024 * 1024])
async def test_a_plant_learns_within_seconds_that_its_message_is_too_large(fleet: Fleet, method: str, size: int) -> None:
    plant = fleet.plant(method)
    async with await plant.connect() as connection:
        try:
            await connection.publish(plant.topic(), b"x" * size, seconds=SECONDS)
        except Lost:
            pass
        else:
            assert [one["reason"] for one in wait_for(plant.refused)] == ["TOO_LARGE"]
    await assert_is_received(plant)


@pytest.mark.parametrize("start", [b"\x10" + LARGEST, b"\x30" + LARGEST], ids=["before the login", "after the login"])
async def test_a_client_whose_packet_does_not_end_is_disconnected(fleet: Fleet, start: bytes) -> None:
    """RabbitMQ before 3.12 reads packets of any size, and keeps them in memory for as long as they are incomplete."""
    plant = fleet.plant("PASSWORD")
    broker = psutil.Process(fleet.stack.state["processes"]["broker"])
    before = broker.memory_info().rss
    async with contextlib.AsyncExitStack() as stack:
        if start.startswith(b"\x30"):
            connection = await stack.enter_async_context(await plant.connect())
            reader, writer = connection.reader, connection.writer
        else:
            port = fleet.stack.ports["mqtts_port"]
            reader, writer = await asyncio.open_connection("localhost", port, ssl=plant.tls())
            stack.callback(writer.transport.abort)
        writer.write(start)
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b"\0" * MIB)
                await writer.drain()
                await asyncio.sleep(0.05)
                if writer.is_closing() or reader.at_eof():
                    break
                assert broker.memory_info().rss < before + 200 * MIB
            else:
                pytest.fail("the broker reads on")


@pytest.mark.skipif(broker_version() >= (3, 12), reason="RabbitMQ 3.12 ends the connection after half a minute")
async def test_a_client_that_reads_no_answers_is_disconnected(fleet: Fleet) -> None:
    """RabbitMQ before 3.12 waits for the client's socket and keeps in memory what arrives meanwhile."""
    plant = fleet.plant("PASSWORD")
    broker = psutil.Process(fleet.stack.state["processes"]["broker"])
    before = broker.memory_info().rss
    connection = await plant.connect()
    transport = connection.writer.transport
    try:
        async with asyncio.timeout(30):
            while not transport.is_closing():
                if transport.get_write_buffer_size() < 4 * MIB:
                    transport.write(PING * (MIB // len(PING)))
                await asyncio.sleep(0.05)
                assert broker.memory_info().rss < before + 500 * MIB
    finally:
        transport.abort()
    await assert_is_received(plant)


@pytest.mark.parametrize(
    "content", [b"\x36\x05\0\1a\0\1", b"\x82\x06\0\1\xff\xff\0\0"], ids=["QoS 3", "incomplete subscription"]
)
async def test_a_packet_that_the_broker_cannot_read_is_not_logged_as_a_whole(fleet: Fleet, content: bytes) -> None:
    """As text with what follows it, it takes 400 times its memory, and an incomplete login is not even a plant's."""
    plant = fleet.plant("PASSWORD")
    logs = fleet.stack.home / "broker" / "logs"

    def written() -> int:
        return sum(file.stat().st_size for file in logs.iterdir())

    before = written()
    for _ in range(4):
        async with await plant.connect() as connection:
            connection.writer.write(content + b"\xff" * (MIB - 1_000))
            await connection.wait_lost(30)
    assert written() - before < MIB // 4
    await assert_is_received(plant)


@pytest.mark.skipif(broker_version() >= (3, 12), reason="RabbitMQ 3.12 ends the connection with the first answer that fails")
async def test_answers_to_a_client_that_has_gone_are_logged_once(fleet: Fleet) -> None:
    """RabbitMQ before 3.12 answers all that it has received, for minutes, and would log each answer."""
    plant = fleet.plant("PASSWORD")
    logs = fleet.stack.home / "broker" / "logs"

    def failed() -> int:
        return sum(file.read_text().count("a socket write failed") for file in logs.iterdir())

    before = failed()
    connection = await plant.connect()
    subscription = packet(SUBSCRIBE, b"\0\1" + text(plant.topic("commands")) + b"\1")
    connection.writer.write(subscription * 500)
    await connection.writer.drain()
    connection.writer.transport.abort()
    await asyncio.to_thread(wait_for, lambda: failed() > before)
    await asyncio.sleep(2)
    assert failed() == before + 1
    await assert_is_received(plant)


async def assert_is_received(plant: Plant) -> None:
    async with await plant.connect() as connection:
        await connection.publish(plant.topic(), plant.signed({"time": utc_now().isoformat(), "fields": {"after": 1}}))
        await asyncio.to_thread(wait_for, lambda: "after" in plant.latest())
        assert not connection.lost
