"""Declaration of the service's queues with the type that the deployment chose, and replacement of older classic ones.

A queue's type cannot be changed, so a classic queue is replaced by a quorum queue of the same name: its bindings and messages
go to a spare queue until it has been deleted and declared again. Messages arrive all the while; a crash at any point leaves
every message in one of the two queues, and the next run goes on from there.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import structlog
from aiormq.abc import AbstractChannel
from pamqp.commands import Basic

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management

__all__ = ["QueueType", "ServiceQueue", "choose_queue_type", "ensure_queue", "is_outdated", "replace_queue"]

log = structlog.get_logger(__name__)

QueueType = Literal["classic", "quorum"]

_FIRST_SAFE_QUORUM: Final = (3, 12)
_DELIVERY_LIMIT: Final = 1_000_000
_ROUTED_SECONDS: Final = 0.5
"""How long a message may take from an exchange to a queue that was bound to it when it was published."""


class ServiceQueue(NamedTuple):
    """A durable queue, the routing keys that bind it to one exchange, and its arguments beside the type."""

    name: str
    exchange: str
    routing_keys: tuple[str, ...]
    arguments: Mapping[str, Any] = {}

    @property
    def spare(self) -> "ServiceQueue":
        """The queue that takes its place during the replacement. With a single active consumer it could not be read by hand."""
        return self._replace(name=f"{self.name}.replacing", arguments={})


async def choose_queue_type(management: Management, setting: str) -> QueueType:
    """Return the type for new queues; `auto` is quorum on a cluster of RabbitMQ 3.12 or newer, else classic.

    Before 3.12 a young quorum queue can lose confirmed messages with its node.
    """
    if setting in ("classic", "quorum"):
        return "classic" if setting == "classic" else "quorum"
    clustered = await management.cluster_size() > 1
    return "quorum" if clustered and await management.version() >= _FIRST_SAFE_QUORUM else "classic"


async def ensure_queue(
    channel: AbstractChannel, queue: ServiceQueue, kind: QueueType, types: Mapping[str, str] | None = None
) -> None:
    """Declare and bind a queue; one that `types` has stays as it is, whatever its type and arguments."""
    if queue.name not in (types or {}):
        arguments = {**queue.arguments, "x-queue-type": kind}
        if kind == "quorum":
            arguments["x-delivery-limit"] = _DELIVERY_LIMIT  # newer brokers drop a message after 20 deliveries by default
        await channel.queue_declare(queue.name, durable=True, arguments=arguments)
    for key in queue.routing_keys:
        await channel.queue_bind(queue.name, queue.exchange, routing_key=key)


def is_outdated(queue: ServiceQueue, types: Mapping[str, str], kind: QueueType) -> bool:
    """Return whether a queue is to be replaced, or a replacement is to be completed. `types`: of the vhost's queues, by name.

    A quorum queue is never replaced: a cluster of which one node is left must not fall back to classic queues.
    """
    return kind == "quorum" and (types.get(queue.name) == "classic" or queue.spare.name in types)


async def replace_queue(broker_url: str, vhost: str, queue: ServiceQueue, types: Mapping[str, str], kind: QueueType) -> None:
    """Replace an outdated queue by one of the wanted type, keeping its messages.

    Raises:
        aiormq.exceptions.ChannelPreconditionFailed: The queue has a consumer; the next call goes on.
        aiormq.exceptions.AMQPError: The broker is away or refuses.
    """
    async with open_channel(broker_url, vhost) as channel:
        await ensure_queue(channel, queue.spare, kind)
        if types.get(queue.name) == "classic":
            await _drain(channel, queue, queue.spare)
            await channel.queue_delete(queue.name, if_unused=True, if_empty=True)
    # A new channel: the broker remembers the queues that a channel has read by their names, and crashes the channel when it
    # meets the same name with another type.
    async with open_channel(broker_url, vhost) as channel:
        await ensure_queue(channel, queue, kind)
        await _drain(channel, queue.spare, queue)
        await channel.queue_delete(queue.spare.name)
    log.info("queue replaced", vhost=vhost, queue=queue.name, type=kind)


async def _drain(channel: AbstractChannel, source: ServiceQueue, target: ServiceQueue) -> None:
    """Move a queue's bindings and messages."""
    for key in source.routing_keys:
        await channel.queue_unbind(source.name, source.exchange, routing_key=key)
    await asyncio.sleep(_ROUTED_SECONDS)
    # An exchange of its own, since a message must keep its routing key.
    exchange = target.name
    await channel.exchange_declare(exchange, exchange_type="fanout", auto_delete=True)
    await channel.queue_bind(target.name, exchange)
    while isinstance((message := await channel.basic_get(source.name)).delivery, Basic.GetOk):
        await channel.basic_publish(
            message.body,
            exchange=exchange,
            routing_key=message.delivery.routing_key or "",
            properties=message.header.properties,
            mandatory=True,
        )
        await channel.basic_ack(message.delivery.delivery_tag or 0)
    await channel.queue_unbind(target.name, exchange)
