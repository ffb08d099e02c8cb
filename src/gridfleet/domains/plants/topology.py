"""Exchanges, queues and bindings of the plants' vhost. They must exist before a plant's message may arrive.

    amq.topic ──v1.plants.*.telemetry|status|ack──▶ gridfleet.ingest (consistent hash) ──▶ gridfleet.ingest.0 … n-1
        ├── v1.plants.*.commands ──▶ gridfleet.commands, where nothing is bound
        └── alternate exchange ──▶ gridfleet.unrouted ──▶ unrouted

The broker confirms a publish when its exchange has accepted it, routable or not. The alternate exchange keeps messages that
matched no binding. A command without a subscribed plant is not an error of the service: the exchange `gridfleet.commands`
without bindings counts as a match, so a mandatory publish is returned to its sender instead.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from aiormq.exceptions import ChannelLockedResource

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.broker.queue_types import (
    QueueType,
    ServiceQueue,
    choose_queue_type,
    ensure_queue,
    is_outdated,
    replace_queue,
    republish,
)
from gridfleet.protocol.topics import Channel, routing_key_pattern

__all__ = [
    "INGEST_EXCHANGE",
    "PLANTS_VHOST",
    "UNROUTED_QUEUE",
    "DeclaredShards",
    "count_shards",
    "declare",
    "ingest_queue",
    "replace_shard",
    "return_unrouted",
]

PLANTS_VHOST: Final = "plants"
INGEST_EXCHANGE: Final = "gridfleet.ingest"
COMMANDS_EXCHANGE: Final = "gridfleet.commands"
UNROUTED_EXCHANGE: Final = "gridfleet.unrouted"
UNROUTED_QUEUE: Final = "unrouted"
_UNROUTED_TTL_MILLISECONDS: Final = 7 * 24 * 3600 * 1000
_UNROUTED_MAX_BYTES: Final = 64 * 1024 * 1024
_RETURNED_AT_ONCE: Final = 200
_UNROUTED: Final = ServiceQueue(
    UNROUTED_QUEUE,
    UNROUTED_EXCHANGE,
    ("",),
    {
        "x-message-ttl": _UNROUTED_TTL_MILLISECONDS,
        "x-max-length-bytes": _UNROUTED_MAX_BYTES,
        "x-overflow": "drop-head",
    },
)
_SHARD: Final = re.compile(rf"{re.escape(INGEST_EXCHANGE)}\.(\d+)(\.replacing)?")
_REPLACEMENT_LOCK: Final = "gridfleet.replacing"


class DeclaredShards(NamedTuple):
    """The number of shards, and those whose queue does not have the configured type, with the parameters of their replacement.

    The number is that of the queues. It is greater than `GRIDFLEET_INGEST_SHARDS` of a process with a lower value than another.
    """

    total: int
    outdated: set[int]
    types: Mapping[str, str]
    kind: QueueType


def ingest_queue(shard: int) -> str:
    """Return the name of a shard's queue."""
    return f"{INGEST_EXCHANGE}.{shard}"


async def count_shards(management_url: str) -> int:
    """Return the number of shards whose queues receive messages. Raises `httpx.HTTPError`."""
    async with open_management(management_url) as management:
        return _count(await management.bound_queues(PLANTS_VHOST, INGEST_EXCHANGE))


async def declare(
    broker_url: str, management_url: str, *, shards: int, queue_type: str = "auto", add_shards: bool = True
) -> DeclaredShards:
    """Declare exchanges, queues and bindings of the plants' vhost. Existing ones are kept.

    Shards can be added later but not removed, because messages may wait in their queues. Without `add_shards`, queues of shards
    are added only if there are none: only the processes that read them add more. Queues of shards whose type differs from
    `queue_type` are also kept: only the process that holds a shard's lease can replace its queue, with `replace_shard`.
    """
    async with open_management(management_url) as management:
        await management.ensure_vhost(PLANTS_VHOST)
        kind = await choose_queue_type(management, queue_type)
        types = await management.queue_types(PLANTS_VHOST)
        existing = _count(types)
        count = max(shards, existing) if add_shards else existing or shards
        queues = {shard: _shard_queue(shard) for shard in range(count)}
        async with open_channel(broker_url, PLANTS_VHOST) as channel:
            await channel.exchange_declare(UNROUTED_EXCHANGE, exchange_type="fanout", durable=True)
            await channel.exchange_declare(INGEST_EXCHANGE, exchange_type="x-consistent-hash", durable=True)
            for queue in (_UNROUTED, *queues.values()):
                if not is_outdated(queue, types, kind):
                    await ensure_queue(channel, queue, kind, types)
            for source in (Channel.TELEMETRY, Channel.STATUS, Channel.ACK):
                await channel.exchange_bind(INGEST_EXCHANGE, "amq.topic", routing_key=routing_key_pattern(source))
            await channel.exchange_declare(COMMANDS_EXCHANGE, exchange_type="fanout", durable=True)
            await channel.exchange_bind(COMMANDS_EXCHANGE, "amq.topic", routing_key=routing_key_pattern(Channel.COMMANDS))
        await management.put_policy(
            PLANTS_VHOST, "unrouted", r"^amq\.topic$", "exchanges", {"alternate-exchange": UNROUTED_EXCHANGE}
        )
    if is_outdated(_UNROUTED, types, kind):
        await _replace_unrouted(broker_url, types, kind)
    outdated = {shard for shard, queue in queues.items() if is_outdated(queue, types, kind)}
    return DeclaredShards(count, outdated, types, kind)


async def replace_shard(broker_url: str, declared: DeclaredShards, shard: int) -> None:
    """Replace the queue of an outdated shard, which must not have a consumer, and remove it from `declared.outdated`.

    Raises:
        aiormq.exceptions.ChannelPreconditionFailed: The queue has a consumer; the next call continues.
        aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    await replace_queue(broker_url, PLANTS_VHOST, _shard_queue(shard), declared.types, declared.kind)
    declared.outdated.discard(shard)


async def return_unrouted(broker_url: str) -> int:
    """Publish the messages of `unrouted` to `amq.topic` again, in their order. Returns their number.

    A message that matches no binding is back in the queue afterwards, so only as many as wait at the beginning are read. After
    an interruption, some messages may be in both places.
    """
    async with open_channel(broker_url, PLANTS_VHOST) as channel:
        waiting = (await channel.queue_declare(UNROUTED_QUEUE, passive=True)).message_count or 0
        returned = 0
        while found := await republish(channel, UNROUTED_QUEUE, "amq.topic", min(waiting - returned, _RETURNED_AT_ONCE)):
            returned += found
    return returned


async def _replace_unrouted(broker_url: str, types: Mapping[str, str], kind: QueueType) -> None:
    """Replace the queue in one process. Has no effect if another process is already replacing it."""
    async with open_channel(broker_url, PLANTS_VHOST) as channel:
        try:
            await channel.queue_declare(_REPLACEMENT_LOCK, exclusive=True)
        except ChannelLockedResource:
            return
        await replace_queue(broker_url, PLANTS_VHOST, _UNROUTED, types, kind)


def _count(queues: Iterable[str]) -> int:
    """Return the number of shards of which the last one has a queue, or a spare queue that replaces it."""
    found = (_SHARD.fullmatch(queue) for queue in queues)
    return max((1 + int(shard[1]) for shard in found if shard), default=0)


def _shard_queue(shard: int) -> ServiceQueue:
    # No length limit, because rejected publishes disconnect MQTT clients. Memory and disk alarms block publishers instead.
    return ServiceQueue(ingest_queue(shard), INGEST_EXCHANGE, ("1",), {"x-single-active-consumer": True})
