"""Creation, change and removal of partners' vhosts at the broker."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import structlog

from gridfleet.domains.partners import vhosts
from gridfleet.domains.partners.legacy.topology import ensure_legacy_vhost
from gridfleet.domains.partners.topology import (
    ensure_partner_vhost,
    has_current_bounds,
    remove_former_queues,
    remove_partner_vhost,
    vhosts_with_outdated_queues,
)
from gridfleet.kernel.broker.management import Management, QueueFacts, open_management
from gridfleet.kernel.broker.queue_types import choose_queue_type
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.outbox import CarryOut
from gridfleet.kernel.settings import Settings
from gridfleet.protocol.partner_routes import LEGACY_VHOST

__all__ = ["CHECK_SECONDS", "keep_partner_vhosts", "vhost_updater"]

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 5.0
"""Seconds for which an expired key may still be connected."""
CHECK_SECONDS: Final = 30.0
"""Interval of the check that the broker still has every vhost, with its exchanges and queues."""


def vhost_updater(settings: Settings, management: Management) -> CarryOut:
    """Return the function that carries out `vhosts.UPDATE`: it updates a key's vhost to its current required state."""
    broker_url = settings.secret("broker_url").get_secret_value()

    async def update(db: Connection, payload: dict[str, Any]) -> None:
        wanted = await vhosts.wanted_vhost(db, payload)
        if wanted.is_shared:
            await ensure_legacy_vhost(
                management, broker_url, wanted.queues, wanted.unwanted, queue_type=settings.broker_queue_type
            )
        elif wanted.is_needed:
            if removed := await remove_former_queues(management, wanted.vhost, wanted.prefix):
                log.warning("own queues with a former prefix deleted", vhost=wanted.vhost, queues=removed)
            await ensure_partner_vhost(
                management,
                broker_url,
                wanted.vhost,
                wanted.queues,
                wanted.unwanted,
                queue_type=settings.broker_queue_type,
                queue_bytes=wanted.queue_bytes,
            )
        if not wanted.is_needed:
            await _close(management, wanted)

    return update


async def keep_partner_vhosts(settings: Settings, database: Database) -> None:
    """Recreate outdated and missing vhosts, and end the connections of keys as they expire.

    A vhost is outdated if its bounds or queues are of an older kind, or its bounds are those for another number of keys. It is
    missing if it or one of its exchanges or queues was deleted, or if the broker has lost its data. No request shows such a
    loss: the broker may be back before the next request, and it confirms events for which there is no queue.

    Raises:
        Exception: The broker or the database is lost.
    """
    async with open_management(settings.secret("broker_management_url").get_secret_value()) as management:
        kind = await choose_queue_type(management, settings.broker_queue_type)
        queues = await management.queues()
        outdated = set(vhosts_with_outdated_queues(queues, kind))
        found = await _names_by_vhost(management, database, queues)
        async with database.transaction() as db:
            await vhosts.queue_updates_except(db, {vhost: found[vhost] for vhost in found.keys() - outdated})
        checked_at = time.monotonic()
        while True:
            async with database.transaction() as db:
                ended = await vhosts.expire_due(db)
            if ended:
                log.info("broker access of keys ended", keys=ended)
            await asyncio.sleep(_POLL_SECONDS)
            if time.monotonic() - checked_at >= CHECK_SECONDS:
                found = await _names_by_vhost(management, database, await management.queues())
                async with database.transaction() as db:
                    missing = await vhosts.queue_updates_of_missing(db, found)
                if missing:
                    log.warning("vhosts of partners are missing, incomplete or have other bounds", vhosts=missing)
                checked_at = time.monotonic()


async def _names_by_vhost(management: Management, database: Database, queues: Sequence[QueueFacts]) -> dict[str, set[str]]:
    """Return the names of exchanges and queues of each vhost that has its current bounds, and of the shared vhost."""
    policies, limits = await management.policies(), await management.vhost_limits()
    async with database.transaction() as db:
        sizes = await vhosts.queue_bytes_by_vhost(db)
    current = {
        vhost for vhost, size in sizes.items() if has_current_bounds(policies.get(vhost, {}), limits.get(vhost, {}), size)
    }
    current |= {LEGACY_VHOST}
    found: dict[str, set[str]] = defaultdict(set)
    for queue in queues:
        found[queue.vhost].add(queue.name)
    for vhost, name in await management.exchanges():
        found[vhost].add(name)
    return {vhost: found[vhost] for vhost in current}


async def _close(management: Management, wanted: vhosts.WantedVhost) -> None:
    if wanted.is_shared:
        await management.close_connections_in(wanted.vhost, wanted.slug)
    else:
        await remove_partner_vhost(management, wanted.vhost, wanted.slug)
