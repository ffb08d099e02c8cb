"""Disconnection of plants whose publishing channel the broker has closed.

RabbitMQ before 3.12 publishes a plant's QoS 1 messages on an AMQP channel behind its MQTT connection. An error on that channel,
such as a message above `max_message_size`, closes the channel and leaves the MQTT connection open: pings are answered and
nothing is ever acknowledged again. The broker reports the error only in its log, so the log's error lines are consumed from
the exchange `amq.rabbitmq.log` (`log.exchange = true`) and that connection is closed; the plant reconnects.

Other connections of the plant stay open: a refused subscription also fails a channel and ends its connection, so the plant
may be connected again already.
"""

import asyncio
import itertools
import re
from typing import Any, Final, NamedTuple

import structlog
from pamqp.commands import Basic

from gridfleet.domains.plants.mqtt_access.decisions import parse_plant_name
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.broker.connection import LOG_EXCHANGE, LOG_VHOST, open_channel
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.kernel.settings import Settings

__all__ = ["BrokenConnection", "broken_connection", "disconnect_broken_plants"]

log = structlog.get_logger(__name__)

_QUEUE: Final = "gridfleet.channel-errors"
_ARGUMENTS: Final[dict[str, Any]] = {
    "x-message-ttl": 3_600_000,
    "x-max-length": 10_000,
    "x-overflow": "drop-head",
    "x-expires": 24 * 3_600_000,
}
_POLL_SECONDS: Final = 1.0
_EXCHANGE_SECONDS: Final = 2.0
_EXCHANGE_LOG_EVERY: Final = 300
_CHANNEL_ERROR: Final = re.compile(
    # The peers' addresses hold no space, comma or parenthesis. A connection name that an AMQP client chose follows them, and
    # must not be able to name a plant.
    rb"\S+ \S+ \[error\] <[\d.]+> Channel error on connection <[\d.]+> \(([^ ,()]+ -> [^ ,()]+),"
    rb" vhost: '" + PLANTS_VHOST.encode() + rb"', user: '([^'\n]+)'\), channel \d+:"
)


class BrokenConnection(NamedTuple):
    """A connection whose channel failed: its name at the broker, and the broker user name of the plant."""

    name: str
    user: str


def broken_connection(line: bytes) -> BrokenConnection | None:
    """Return the plant's connection whose channel failed, or None for any other log message."""
    found = _CHANNEL_ERROR.match(line)
    if found is None:
        return None
    name, user = (part.decode(errors="replace") for part in found.groups())
    return BrokenConnection(name, user) if parse_plant_name(user) is not None else None


async def disconnect_broken_plants(settings: Settings) -> None:
    """Close connections of plants whose channels fail. Raises when the broker is lost."""
    async with open_management(settings.secret("broker_management_url").get_secret_value()) as management:
        if not await management.has_mqtt_channels():
            await asyncio.Event().wait()
        broker_url = settings.secret("broker_url").get_secret_value()
        await _wait_for_log_exchange(management)
        async with open_channel(broker_url, LOG_VHOST) as channel:
            await channel.queue_declare(_QUEUE, durable=True, arguments=_ARGUMENTS)
            await channel.queue_bind(_QUEUE, LOG_EXCHANGE, routing_key="error")
            while True:
                message = await channel.basic_get(_QUEUE)
                if not isinstance(message.delivery, Basic.GetOk):
                    await asyncio.sleep(_POLL_SECONDS)
                    continue
                broken = broken_connection(message.body)
                if broken is not None:
                    await management.close_connection(broken.name)
                    log.warning("plant disconnected: the broker had closed its channel", user=broken.user)
                await channel.basic_ack(message.delivery_tag or 0)


async def _wait_for_log_exchange(management: Management) -> None:
    # A new node accepts connections up to five seconds before it has this exchange. The broker would log an error for each
    # passive declaration of a missing one.
    for attempt in itertools.count():
        if (LOG_VHOST, LOG_EXCHANGE) in await management.exchanges():
            return
        if attempt % _EXCHANGE_LOG_EVERY == 10:
            log.error("a plant that sends too large a message will hang: set `log.exchange = true` at the broker")
        await asyncio.sleep(_EXCHANGE_SECONDS)
