"""Upkeep of the broker: queues and exchanges exist with the chosen type, and unroutable messages are reported."""

import asyncio
from typing import Final

import structlog

from gridfleet.domains.plants.topology import PLANTS_VHOST, UNROUTED_QUEUE, declare
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management, QueueFacts, open_management
from gridfleet.kernel.broker.queue_types import QueueType, choose_queue_type
from gridfleet.kernel.settings import Settings

__all__ = ["keep_broker"]

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 15.0
_ID_LENGTH: Final = 36
_SESSIONS: Final = 200
"""Sessions that are replaced at a time: their plants reconnect all at once."""


async def keep_broker(settings: Settings) -> None:
    """Declare queues and exchanges, then replace outdated sessions and check the `unrouted` queue.

    A message in that queue was confirmed to a plant and reached no shard: a binding is missing. It is kept for a week. Raises
    when the broker is lost.
    """
    broker_url = settings.secret("broker_url").get_secret_value()
    management_url = settings.secret("broker_management_url").get_secret_value()
    await declare(
        broker_url, management_url, shards=settings.ingest_shards, queue_type=settings.broker_queue_type, add_shards=False
    )
    seen = 0
    async with open_management(management_url) as management, open_channel(broker_url, PLANTS_VHOST) as channel:
        sessions = _Sessions(management, await choose_queue_type(management, settings.broker_queue_type))
        while True:
            waiting = (await channel.queue_declare(UNROUTED_QUEUE, passive=True)).message_count or 0
            metrics.UNROUTED_MESSAGES.set(waiting)
            if waiting > seen:
                log.error("messages reached no queue; check the bindings of amq.topic", queue=UNROUTED_QUEUE, messages=waiting)
            seen = waiting
            await sessions.replace_some()
            await asyncio.sleep(_POLL_SECONDS)


class _Sessions:
    """Replacement of plants' classic session queues, which would exclude plants while the queue's node is down.

    The broker creates a session's queue with the type of `mqtt.durable_queue_type`. After the old queue is deleted, its plant
    reconnects with a new queue; commands that waited in the old one are sent again. RabbitMQ 3.10 disconnects the plant itself.
    RabbitMQ 4.0 leaves it connected without a queue, so its connections are closed here.
    """

    def __init__(self, management: Management, kind: QueueType) -> None:
        self._management = management
        self._replacing = kind == "quorum"
        self._deleted: set[str] = set()

    async def replace_some(self) -> None:
        """Delete a batch of classic session queues. Stops permanently if the broker creates classic ones again."""
        if not self._replacing:
            return
        queues = await self._management.queues(PLANTS_VHOST, with_arguments=True)
        outdated = [queue.name for queue in queues if _is_classic_session(queue)]
        if self._deleted.intersection(outdated):
            self._replacing = False
            log.error("sessions of plants are not replicated: set `mqtt.durable_queue_type = quorum` at every node")
            return
        # The first queue alone shows whether the broker creates replicated ones.
        batch = outdated[: _SESSIONS if self._deleted else 1]
        for name in batch:
            await self._management.delete_queue(PLANTS_VHOST, name)
        if batch:
            plants = {_plant_of(name) for name in batch}
            for connection, user in await self._management.connections_of(PLANTS_VHOST):
                # A certificate's user name ends with the plant's id.
                if user[-_ID_LENGTH:] in plants:
                    await self._management.close_connection(connection)
        self._deleted.update(batch)
        self._replacing = bool(outdated)
        if batch:
            log.info("classic sessions of plants deleted", sessions=len(batch), left=len(outdated) - len(batch))


def _plant_of(session: str) -> str:
    """Return the plant's id, with which its client id begins."""
    return session.removeprefix("mqtt-subscription-").removesuffix("qos1")[:_ID_LENGTH]


def _is_classic_session(queue: QueueFacts) -> bool:
    lasting = "x-expires" in queue.arguments and not queue.exclusive
    return lasting and queue.type == "classic" and queue.name.startswith("mqtt-subscription-") and queue.name.endswith("qos1")
