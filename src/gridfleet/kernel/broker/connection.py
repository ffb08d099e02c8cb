"""AMQP connections of the service's own account."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection

from gridfleet.kernel import metrics
from gridfleet.kernel.broker.decoding import tolerate_strange_properties

__all__ = ["HEARTBEAT_SECONDS", "open_channel", "vhost_url"]

HEARTBEAT_SECONDS = 15

tolerate_strange_properties()


def vhost_url(broker_url: str, vhost: str) -> str:
    """The broker's address with a vhost; what its query says stays."""
    address, _, query = broker_url.partition("?")
    query = "&".join(filter(None, (f"heartbeat={HEARTBEAT_SECONDS}", query)))
    return f"{address.rstrip('/')}/{quote(vhost, safe='')}?{query}"


@asynccontextmanager
async def open_channel(broker_url: str, vhost: str) -> AsyncIterator[AbstractChannel]:
    """A channel on a connection of its own. A lost connection surfaces as an error of whatever uses the channel; the
    caller's supervisor starts it anew, which redeclares and resumes."""
    connection: AbstractConnection = await aiormq.connect(vhost_url(broker_url, vhost))
    metrics.BROKER_CONNECTIONS.inc()
    try:
        yield await connection.channel()
    finally:
        metrics.BROKER_CONNECTIONS.dec()
        await connection.close()
