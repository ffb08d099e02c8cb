"""Messages that are published many at a time, and what the broker answers."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiormq.abc import AbstractChannel
from pamqp import frame
from pamqp.commands import Basic, Connection

from gridfleet.kernel.broker.connection import LOG_VHOST, open_channel
from gridfleet.kernel.broker.frames import FrameTransport
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.broker.publisher import OutgoingMessage, Publisher
from support.servers.broker_line import BrokerLine, broker_line
from support.servers.broker_node import BrokerNode


class Line:
    """A publisher over a line that can break, and its channel."""

    def __init__(self, line: BrokerLine, channel: AbstractChannel, transport: FrameTransport) -> None:
        self.line = line
        self.channel = channel
        self.transport = transport
        self.publisher = Publisher(channel, transport)

    async def queue(self, **arguments: str | int) -> str:
        declared = await self.channel.queue_declare(exclusive=True, arguments=dict(arguments))
        return declared.queue or ""

    async def bodies(self, queue: str, count: int) -> list[bytes]:
        return [(await self.channel.basic_get(queue, no_ack=True)).body for _ in range(count)]


@pytest.fixture
async def line(broker: BrokerNode) -> AsyncIterator[Line]:
    transport = FrameTransport()
    async with broker_line(broker.url) as line, open_channel(line.url(broker.url), LOG_VHOST, transport) as channel:
        yield Line(line, channel, transport)


def message(queue: str, body: bytes, exchange: str = "") -> OutgoingMessage:
    return OutgoingMessage(exchange, queue, body, Basic.Properties(delivery_mode=2, message_id="m", headers={"n": 7}))


async def test_messages_of_calls_at_the_same_time_arrive_in_order(line: Line) -> None:
    queue = await line.queue()
    bodies = [b"", b"x" * 300_000, *(str(number).encode() for number in range(200))]
    calls = [line.publisher.publish([message(queue, body) for body in bodies], 30) for _ in range(3)]
    assert await asyncio.gather(*calls) == [[True] * len(bodies)] * 3
    assert await line.publisher.publish([], 30) == []
    assert await line.bodies(queue, 3 * len(bodies)) == bodies * 3


async def test_a_message_that_the_broker_refuses_is_not_confirmed(line: Line) -> None:
    full = await line.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    queue = await line.queue()
    assert await line.publisher.publish([message(full, b"1")], 30) == [True]
    mixed = [message(queue, b"1"), message(full, b"2"), message(queue, b"3")]
    assert await line.publisher.publish(mixed, 30) == [True, False, True]
    assert await line.bodies(queue, 2) == [b"1", b"3"]


async def test_a_message_that_cannot_be_encoded_stops_only_its_own_call(line: Line) -> None:
    queue = await line.queue()
    with pytest.raises(TypeError, match="255"):
        await line.publisher.publish([message(queue, b"1"), message("k" * 256, b"2")], 30)
    assert await line.publisher.publish([message(queue, b"3")], 30) == [True]
    assert await line.bodies(queue, 1) == [b"3"]


async def test_a_broker_that_does_not_answer_in_time_has_not_confirmed(line: Line) -> None:
    queue = await line.queue()
    line.line.hang()
    assert await line.publisher.publish([message(queue, b"1")], 0.3) == [False]


async def test_a_closed_channel_ends_the_calls(line: Line) -> None:
    call = asyncio.create_task(line.publisher.publish([message("any", b"1", exchange="missing")], 30))
    await asyncio.wait([asyncio.ensure_future(line.channel.closing)])
    line.publisher.close()
    with pytest.raises(ConnectionError):
        await call
    with pytest.raises(ConnectionError):
        await line.publisher.publish([], 30)


async def test_every_body_arrives_if_the_broker_limits_no_frame(line: Line) -> None:
    queue = await line.queue()
    line.channel.connection.connection_tune.frame_max = 0
    publisher = Publisher(line.channel, line.transport)
    bodies = [b"", b"1", b"x" * 300_000]
    assert await publisher.publish([message(queue, body) for body in bodies], 30) == [True, True, True]
    assert await line.bodies(queue, 3) == bodies


async def test_nothing_is_sent_to_a_broker_that_blocks_its_publishers(line: Line) -> None:
    queue = await line.queue()
    line.line.send(frame.marshal(Connection.Blocked(reason="low on memory"), 0))
    await asyncio.sleep(0.1)
    for _ in range(3):
        assert await line.publisher.publish([message(queue, b"1"), message(queue, b"2")], 0.1) == [False, False]
    last = asyncio.create_task(line.publisher.publish([message(queue, b"3")], 30))
    await asyncio.sleep(0.1)
    line.line.send(frame.marshal(Connection.Unblocked(), 0))
    assert await last == [True]
    assert await line.bodies(queue, 2) == [b"3", b""]


async def test_no_call_passes_an_earlier_one_that_a_blocked_broker_has_failed(line: Line) -> None:
    """The events of the earlier call are published again, and would come after those of the later one."""
    queue = await line.queue()
    line.line.send(frame.marshal(Connection.Blocked(reason="low on memory"), 0))
    await asyncio.sleep(0.1)
    first = asyncio.create_task(line.publisher.publish([message(queue, b"1")], 1))
    await asyncio.sleep(0.5)
    second = asyncio.create_task(line.publisher.publish([message(queue, b"2")], 1))
    assert await first == [False]
    again = asyncio.create_task(line.publisher.publish([message(queue, b"1")], 30))
    await asyncio.sleep(0.1)
    line.line.send(frame.marshal(Connection.Unblocked(), 0))
    assert await asyncio.gather(second, again) == [[False], [True]]
    assert await line.bodies(queue, 2) == [b"1", b""]


@pytest.mark.parametrize("way", ["end", "reset", "close", "forced"])
async def test_calls_while_a_connection_ends_are_no_fault_of_their_messages(broker: BrokerNode, line: Line, way: str) -> None:
    """Otherwise the gateway would set their events aside."""
    queue = await line.queue()
    closed = asyncio.ensure_future(line.channel.closing)
    ending = asyncio.create_task(end_connections(broker, line, way))
    calls = []
    while not closed.done():
        calls.append(asyncio.create_task(line.publisher.publish([message(queue, b"1")], 30)))
        await asyncio.sleep(0)
    await ending
    line.publisher.close()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome != [True] and not isinstance(outcome, ConnectionError)] == []


async def end_connections(broker: BrokerNode, line: Line, way: str) -> None:
    if way == "close":
        await line.channel.connection.close()
    elif way == "forced":
        async with open_management(broker.management_url) as management:
            await management.close_own_connections_in(LOG_VHOST)
    else:
        line.line.end() if way == "end" else line.line.reset()
