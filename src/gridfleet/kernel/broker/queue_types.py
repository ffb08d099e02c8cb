"""Declaration of the service's queues with the configured type, and replacement of older classic queues.

A queue's type cannot be changed. To replace a classic queue by a quorum queue of the same name, its bindings and messages move
to a spare queue until it has been deleted and declared again. Messages arrive throughout. After a crash at any point every
message is in one of the two queues, and the next run continues from there.
"""

import asyncio
import struct
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import structlog
from aiormq.abc import AbstractChannel
from pamqp.commands import Basic
from pamqp.encode import encode_table_value

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management

__all__ = [
    "DELIVERY_LIMIT",
    "ROUTED_SECONDS",
    "QueueType",
    "ServiceQueue",
    "choose_queue_type",
    "ensure_queue",
    "is_outdated",
    "replace_queue",
    "republish",
]

log = structlog.get_logger(__name__)

QueueType = Literal["classic", "quorum"]

_FIRST_SAFE_QUORUM: Final = (3, 12)
DELIVERY_LIMIT: Final = 1_000_000
_MAX_EXPIRATION: Final = 2**32 - 1
"""The longest time to live of an AMQP message, in milliseconds."""

_COPIES: Final = {"CC": "cc", "BCC": "bcc"}
ROUTED_SECONDS: Final = 0.5
"""Maximum time between the publishing of a message and its arrival in a queue that was bound to the exchange at that time."""


class ServiceQueue(NamedTuple):
    """A durable queue, the routing keys that bind it to one exchange, and its arguments except the type."""

    name: str
    exchange: str
    routing_keys: tuple[str, ...]
    arguments: Mapping[str, Any] = {}

    @property
    def spare(self) -> "ServiceQueue":
        """The queue that replaces it during the replacement.

        It has no single active consumer, because then it could not be read with `get`.
        """
        return self._replace(name=f"{self.name}.replacing", arguments={})


async def choose_queue_type(management: Management, setting: str) -> QueueType:
    """Return the type for new queues.

    Args:
        management: The management API of the broker, which is called for `auto` only.
        setting: `classic`, `quorum` or `auto`. `auto` is quorum on a cluster of RabbitMQ 3.12 or newer, else classic: before
            3.12, a recently declared quorum queue can lose confirmed messages with its node.
    """
    if setting in ("classic", "quorum"):
        return "classic" if setting == "classic" else "quorum"
    clustered = await management.cluster_size() > 1
    return "quorum" if clustered and await management.version() >= _FIRST_SAFE_QUORUM else "classic"


async def ensure_queue(
    channel: AbstractChannel, queue: ServiceQueue, kind: QueueType, types: Mapping[str, str] | None = None
) -> None:
    """Declare and bind a queue. A queue in `types` stays unchanged, also if its type or arguments differ."""
    if queue.name not in (types or {}):
        arguments = {**queue.arguments, "x-queue-type": kind}
        if kind == "quorum":
            arguments["x-delivery-limit"] = DELIVERY_LIMIT  # by default, newer brokers drop a message after 20 deliveries
        await channel.queue_declare(queue.name, durable=True, arguments=arguments)
    for key in queue.routing_keys:
        await channel.queue_bind(queue.name, queue.exchange, routing_key=key)


def is_outdated(queue: ServiceQueue, types: Mapping[str, str], kind: QueueType) -> bool:
    """Return whether a queue must be replaced, or its replacement must be completed.

    A quorum queue is never replaced: a cluster with one remaining node must not fall back to classic queues.

    Args:
        queue: The queue to check.
        types: Types of the vhost's queues, by name.
        kind: The configured type.
    """
    return queue.spare.name in types or (kind == "quorum" and types.get(queue.name) == "classic")


async def replace_queue(broker_url: str, vhost: str, queue: ServiceQueue, types: Mapping[str, str], kind: QueueType) -> None:
    """Replace an outdated queue by one of the configured type. Its messages are kept.

    A spare queue that an interrupted call left is emptied and deleted for either type, because it takes the queue's messages.

    Raises:
        aiormq.exceptions.ChannelPreconditionFailed: The queue has a consumer; the next call continues.
        aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    types = dict(types)
    if kind == "quorum" and types.get(queue.name) == "classic":
        async with open_channel(broker_url, vhost) as channel:
            await ensure_queue(channel, queue.spare, kind, types)
            await _drain(channel, queue, queue.spare)
            await channel.queue_delete(queue.name, if_unused=True, if_empty=True)
        del types[queue.name]
    # A new channel is needed. The broker keeps the names of the queues that a channel has read, and crashes the channel when
    # the same name has another type.
    async with open_channel(broker_url, vhost) as channel:
        await ensure_queue(channel, queue, kind, types)
        await _drain(channel, queue.spare, queue)
        await channel.queue_delete(queue.spare.name)
    log.info("queue replaced", vhost=vhost, queue=queue.name, type=kind)


async def _drain(channel: AbstractChannel, source: ServiceQueue, target: ServiceQueue) -> None:
    """Move a queue's bindings and messages to another queue."""
    for key in source.routing_keys:
        await channel.queue_unbind(source.name, source.exchange, routing_key=key)
    await asyncio.sleep(ROUTED_SECONDS)
    # A separate exchange, because a message must keep its routing key.
    exchange = target.name
    await channel.exchange_declare(exchange, exchange_type="fanout", auto_delete=True)
    await channel.queue_bind(target.name, exchange)
    while await republish(channel, source.name, exchange):
        pass
    await channel.queue_unbind(target.name, exchange)


async def republish(channel: AbstractChannel, queue: str, exchange: str, most: int = 1) -> int:
    """Publish the first messages of a queue to an exchange with their routing keys, and then acknowledge them.

    Returns:
        Their number, at most `most`; 0 if the queue is empty.
    """
    messages: list[Any] = []
    while len(messages) < most:
        message = await channel.basic_get(queue)
        if not isinstance(message.delivery, Basic.GetOk):
            break
        messages.append(message)
    # At the same time, because the broker confirms each message only after it has written it to the disk.
    await asyncio.gather(
        *(
            channel.basic_publish(
                message.body,
                exchange=exchange,
                routing_key=message.delivery.routing_key or "",
                properties=_accepted(message.header.properties),
                mandatory=True,
            )
            for message in messages
        )
    )
    if messages:
        await channel.basic_ack(messages[-1].delivery.delivery_tag or 0, multiple=True)
    return len(messages)


def _accepted(properties: Basic.Properties) -> Basic.Properties:
    """Change the properties of another client's message so that the broker accepts them from the service.

    It refuses the name of another user, and of MQTT 5 a longer time to live and text in CC or BCC. These two are kept in lower
    case, so that a command with them is still refused, and no copies are made. Headers that our client cannot encode, such as
    binary correlation data of MQTT 5, are left out: nothing reads them.
    """
    properties.user_id = None
    if properties.expiration is not None:
        properties.expiration = str(min(int(properties.expiration), _MAX_EXPIRATION))
    if properties.headers is not None:
        given = properties.headers.items()
        properties.headers = {_COPIES.get(name, name): value for name, value in given if _is_encodable(value)}
    return properties


def _is_encodable(value: Any) -> bool:
    try:
        encode_table_value(value)
    except (TypeError, ValueError, OverflowError, struct.error):
        return False
    return True
