"""However a connection to the broker ends: its calls fail with an outage, none as if its caller was cancelled or at fault."""

import asyncio

import pytest
from aiormq.abc import AbstractChannel, DeliveredMessage

from gridfleet.kernel.broker import connection
from gridfleet.kernel.broker.connection import LOG_VHOST, fail_when_closed, open_channel
from gridfleet.kernel.isolation import is_poison
from gridfleet.protocol import amqp
from support.servers.broker_line import BrokerLine, broker_line
from support.servers.broker_node import BrokerNode

WAYS = ["reset", "end", "silence", "closed"]
EXCHANGE = "amq.fanout"
DELIVERIES = 300
"""More frames than a channel of the client buffers, so that it still reads them when the stream ends."""


async def publish(channel: AbstractChannel) -> None:
    while True:
        await channel.basic_publish(b"{}", exchange=EXCHANGE, timeout=30)


@pytest.mark.parametrize("way", WAYS)
async def test_every_call_fails_with_an_outage(broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "silence":
        monkeypatch.setattr(connection, "HEARTBEAT_SECONDS", 2)
    async with broker_line(broker.url) as line, open_channel(line.url(broker.url), LOG_VHOST) as channel:
        queue = (await channel.queue_declare(exclusive=True)).queue or ""
        for _ in range(DELIVERIES):
            await channel.basic_publish(b"{}", routing_key=queue)
        calls = [asyncio.create_task(publish(channel)) for _ in range(5)]
        calls.append(asyncio.create_task(fail_when_closed(channel)))
        await asyncio.sleep(0.2)
        line.hang()
        consuming = asyncio.create_task(channel.basic_consume(queue, ignore, no_ack=True))
        await asyncio.sleep(0.5)
        await break_line(line, channel, way)
        done, waiting = await asyncio.wait(calls, timeout=60)
        assert not waiting
        errors = await asyncio.gather(*done, consuming, return_exceptions=True)
        with pytest.raises(Exception) as later:
            await channel.basic_publish(b"{}", exchange=EXCHANGE)
    judged = [error for error in (*errors, later.value) if isinstance(error, BaseException)]
    assert [error for error in judged if not isinstance(error, Exception) or is_poison(error)] == []
    assert len(judged) >= len(calls) + 1


async def test_the_end_of_a_consumer_is_noticed(broker: BrokerNode) -> None:
    """The channel stays open: a program that does not notice waits for messages for ever."""
    async with open_channel(broker.url, LOG_VHOST) as channel, open_channel(broker.url, LOG_VHOST) as other:
        await channel.queue_declare("consumed")
        await channel.basic_consume("consumed", ignore)
        waiting = asyncio.create_task(fail_when_closed(channel))
        await asyncio.sleep(0.1)
        await other.queue_delete("consumed")
        with pytest.raises(ConnectionError, match="consumer"):
            await asyncio.wait_for(waiting, 30)


async def test_a_broker_that_opens_no_connection_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have hung until its machine was reset, which then knows nothing of the connection."""
    monkeypatch.setattr(amqp, "CONNECT_SECONDS", 0.5)
    left = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server, asyncio.timeout(30):
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionError, match="did not open"):
            async with open_channel(f"amqp://guest:guest@127.0.0.1:{port}", LOG_VHOST):
                raise AssertionError("there is no broker")
        await left.wait()


async def ignore(_: DeliveredMessage) -> None:
    pass


async def break_line(line: BrokerLine, channel: AbstractChannel, way: str) -> None:
    if way == "reset":
        line.reset()
    elif way == "end":
        line.end()
    elif way == "closed":
        await channel.connection.close()
