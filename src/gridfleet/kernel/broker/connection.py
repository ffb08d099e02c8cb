"""AMQP connections of the service's account."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from aiormq.abc import AbstractChannel
from aiormq.connection import TransportFactory

from gridfleet.kernel import metrics
from gridfleet.kernel.broker.decoding import tolerate_undecodable_properties
from gridfleet.protocol.amqp import open_connection

__all__ = ["HEARTBEAT_SECONDS", "LOG_EXCHANGE", "LOG_VHOST", "fail_when_closed", "open_channel", "vhost_url"]

HEARTBEAT_SECONDS: Final = 15
LOG_VHOST: Final = "/"
LOG_EXCHANGE: Final = "amq.rabbitmq.log"
"""Exchange to which the broker publishes its log if `log.exchange` is on."""

tolerate_undecodable_properties()


def vhost_url(broker_url: str, vhost: str) -> str:
    """Return the broker's URL with a vhost. The query is kept."""
    address, _, query = broker_url.partition("?")
    query = "&".join(filter(None, (f"heartbeat={HEARTBEAT_SECONDS}", query)))
    return f"{address.rstrip('/')}/{quote(vhost, safe='')}?{query}"


@asynccontextmanager
async def open_channel(
    broker_url: str, vhost: str, transport: TransportFactory | None = None
) -> AsyncIterator[AbstractChannel]:
    """Open a channel on its own connection.

    A lost connection raises an error in the code that uses the channel. The caller's supervisor restarts that code, which
    declares everything again and continues.
    """
    connection = await open_connection(vhost_url(broker_url, vhost), transport)
    metrics.BROKER_CONNECTIONS.inc()
    try:
        yield await connection.channel()
    finally:
        metrics.BROKER_CONNECTIONS.dec()
        await connection.close()


async def fail_when_closed(channel: AbstractChannel) -> None:
    """Wait until the channel closes, or the broker ends one of its consumers.

    The broker ends a consumer when its queue is deleted, or fails and starts again. The channel stays open.

    Raises:
        ConnectionError: The channel or a consumer ended. In a task group, this ends the tasks that use the channel.
    """
    ended = asyncio.Event()
    channel.on_consumer_cancel_callbacks.add(lambda _: ended.set())
    waiting = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait({channel.closing, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if ended.is_set():
        raise ConnectionError("the broker ended a consumer")
    await channel.closing
    raise ConnectionError("the broker closed the channel")
