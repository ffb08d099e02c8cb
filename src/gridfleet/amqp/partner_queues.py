"""Removal of partners' own queues whose arguments would harm others.

The plugin `gridfleet_bounds` refuses such queues. RabbitMQ itself does not check a queue's arguments, so without the plugin,
and in vhosts of older releases, such a queue exists until it is found here.
"""

import asyncio
import time
from typing import Final

import structlog

from gridfleet.domains.partners.own_queues import VhostOwner, find_owner, record_removal
from gridfleet.domains.partners.topology import forbidden_argument
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.management import Management, QueueFacts, open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.leases import open_leases
from gridfleet.kernel.settings import Settings

__all__ = ["remove_forbidden_queues"]

log = structlog.get_logger(__name__)

_LEASE_KIND: Final = 0x6F19
_POLL_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 5.0
"""Maximum pause, so that a partner that keeps the broker busy cannot delay the examination of its queues for long."""
_SHARE_OF_TIME: Final = 0.05
"""Approximate share of the time spent on listing: the broker needs a while to list the queues of a thousand vhosts."""


async def remove_forbidden_queues(settings: Settings, database: Database) -> None:
    """Remove forbidden queues in one of the gateway processes. Raises when broker or database are lost."""
    management_url = settings.secret("broker_management_url").get_secret_value()
    async with open_management(management_url) as management, open_leases(database.url, _LEASE_KIND, 1) as leases:
        while True:
            is_held, started = await leases.hold_only(), time.monotonic()
            if is_held:
                await _examine(management, database)
            pause = (time.monotonic() - started) / _SHARE_OF_TIME
            await asyncio.sleep(min(max(_POLL_SECONDS, pause), _LONGEST_SECONDS))


async def _examine(management: Management, database: Database) -> None:
    queues = await management.queues_with_arguments()
    found = [(queue, argument) for queue in queues if (argument := forbidden_argument(queue.arguments))]
    owners: dict[str, VhostOwner | None] = {}
    async with database.transaction() as db:
        for vhost in {queue.vhost for queue, _ in found}:
            owners[vhost] = await find_owner(db, vhost)
    removals = [
        _remove(management, database, owner, queue, argument)
        for queue, argument in found
        if (owner := owners[queue.vhost]) is not None and queue.name not in owner.service_queues
    ]
    outcomes = await asyncio.gather(*removals, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


async def _remove(management: Management, database: Database, owner: VhostOwner, queue: QueueFacts, argument: str) -> None:
    if queue.exclusive:
        # Only the connection that declared an exclusive queue may delete it. The queue is deleted when the connection closes.
        await management.close_connections_in(queue.vhost, owner.key.slug)
    else:
        await management.delete_queue(queue.vhost, queue.name)
    async with database.transaction() as db:
        await record_removal(db, owner.key, queue.name, argument)
    metrics.PARTNER_QUEUES_REMOVED.labels(argument).inc()
    log.warning("partner's queue removed", vhost=queue.vhost, queue=queue.name, argument=argument)
