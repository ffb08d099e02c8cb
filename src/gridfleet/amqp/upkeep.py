"""The broker's upkeep: exchanges and queues stand, and messages that no queue wanted are noticed."""

import asyncio
from typing import Final

import structlog

from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.topology import PLANTS_VHOST, UNROUTED_QUEUE, declare
from gridfleet.kernel.settings import Settings

__all__ = ["keep_broker"]

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 15.0


async def keep_broker(settings: Settings) -> None:
    """Declares what the service needs, then watches the `unrouted` queue until the broker is lost, which raises.

    A message there was confirmed to a plant and reached no shard: somebody removed a binding. It is kept for a week.
    """
    broker_url = settings.secret("broker_url").get_secret_value()
    management_url = settings.secret("broker_management_url").get_secret_value()
    await declare(broker_url, management_url, shards=settings.ingest_shards, queue_type=settings.broker_queue_type)
    seen = 0
    async with open_channel(broker_url, PLANTS_VHOST) as channel:
        while True:
            waiting = (await channel.queue_declare(UNROUTED_QUEUE, passive=True)).message_count or 0
            metrics.UNROUTED_MESSAGES.set(waiting)
            if waiting > seen:
                log.error("messages reached no queue; check the bindings of amq.topic", queue=UNROUTED_QUEUE, messages=waiting)
            seen = waiting
            await asyncio.sleep(_LOOK_SECONDS)
