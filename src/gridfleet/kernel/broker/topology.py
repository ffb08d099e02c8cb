"""What must stand in the broker before a plant's message may arrive: exchanges, queues and bindings of the plants' vhost.

    amq.topic ──v1.plants.*.telemetry|status|ack──▶ gridfleet.ingest (consistent hash) ──▶ gridfleet.ingest.0 … n-1
        ├── v1.plants.*.commands ──▶ gridfleet.commands, where nothing is bound
        └── alternate exchange ──▶ gridfleet.unrouted ──▶ unrouted

A publish is confirmed once its exchange has it, routable or not; the alternate exchange keeps what matched nothing. A
command that no plant subscribes to is no fault of ours, though: the empty exchange counts as a match, so that a mandatory
publish comes back to its sender instead.
"""

from typing import Any, Final, Literal

from aiormq.abc import AbstractChannel

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.protocol.topics import Channel, routing_key_pattern

__all__ = ["LOG_EXCHANGE", "LOG_VHOST", "PLANTS_VHOST", "UNROUTED_QUEUE", "declare", "ingest_queue"]

PLANTS_VHOST: Final = "plants"
LOG_VHOST: Final = "/"
LOG_EXCHANGE: Final = "amq.rabbitmq.log"
"""Where the broker publishes its log, if `log.exchange` is on."""
INGEST_EXCHANGE: Final = "gridfleet.ingest"
COMMANDS_EXCHANGE: Final = "gridfleet.commands"
UNROUTED_EXCHANGE: Final = "gridfleet.unrouted"
UNROUTED_QUEUE: Final = "unrouted"
_UNROUTED_TTL_MILLISECONDS: Final = 7 * 24 * 3600 * 1000
_UNROUTED_MAX_BYTES: Final = 64 * 1024 * 1024
_FIRST_SAFE_QUORUM: Final = (3, 12)

QueueType = Literal["classic", "quorum"]


def ingest_queue(shard: int) -> str:
    """The name of one shard's queue."""
    return f"{INGEST_EXCHANGE}.{shard}"


async def declare(broker_url: str, management_url: str, *, shards: int, queue_type: str = "auto") -> None:
    """Declares everything; what exists already stays. Shards may be added later, not taken away."""
    async with open_management(management_url) as management:
        await management.ensure_vhost(PLANTS_VHOST)
        kind = await _queue_type(management, queue_type)
        async with open_channel(broker_url, PLANTS_VHOST) as channel:
            await channel.exchange_declare(UNROUTED_EXCHANGE, exchange_type="fanout", durable=True)
            await channel.queue_declare(
                UNROUTED_QUEUE,
                durable=True,
                arguments={
                    "x-message-ttl": _UNROUTED_TTL_MILLISECONDS,
                    "x-max-length-bytes": _UNROUTED_MAX_BYTES,
                    "x-overflow": "drop-head",
                },
            )
            await channel.queue_bind(UNROUTED_QUEUE, UNROUTED_EXCHANGE)
            await channel.exchange_declare(INGEST_EXCHANGE, exchange_type="x-consistent-hash", durable=True)
            for shard in range(shards):
                await _declare_shard(channel, shard, kind)
            for source in (Channel.TELEMETRY, Channel.STATUS, Channel.ACK):
                await channel.exchange_bind(INGEST_EXCHANGE, "amq.topic", routing_key=routing_key_pattern(source))
            await channel.exchange_declare(COMMANDS_EXCHANGE, exchange_type="fanout", durable=True)
            await channel.exchange_bind(COMMANDS_EXCHANGE, "amq.topic", routing_key=routing_key_pattern(Channel.COMMANDS))
        await management.put_policy(
            PLANTS_VHOST, "unrouted", r"^amq\.topic$", "exchanges", {"alternate-exchange": UNROUTED_EXCHANGE}
        )


async def _declare_shard(channel: AbstractChannel, shard: int, kind: QueueType) -> None:
    # No length limit: rejected publishes cut MQTT clients off. Memory and disk alarms hold publishers back instead.
    arguments: dict[str, Any] = {"x-single-active-consumer": True, "x-queue-type": kind}
    if kind == "quorum":
        arguments["x-delivery-limit"] = 1_000_000  # the default of newer brokers drops a message after 20 tries
    await channel.queue_declare(ingest_queue(shard), durable=True, arguments=arguments)
    await channel.queue_bind(ingest_queue(shard), INGEST_EXCHANGE, routing_key="1")


async def _queue_type(management: Management, setting: str) -> QueueType:
    """Classic on one node: a young quorum queue can lose confirmed messages with its node. Quorum on a cluster that has
    mature ones."""
    if setting in ("classic", "quorum"):
        return "classic" if setting == "classic" else "quorum"
    clustered = await management.running_nodes() > 1
    return "quorum" if clustered and await management.version() >= _FIRST_SAFE_QUORUM else "classic"
