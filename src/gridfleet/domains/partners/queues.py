"""An organisation's queues at the broker: whether they are enabled, and the prefix of its own queue names.

Trading switches them on and off. The required queues of each vhost follow from this and from the keys. The gateway creates
and removes queues accordingly each time it carries out the effect `vhosts.UPDATE`.
"""

from collections.abc import Set
from uuid import UUID

from gridfleet.domains.partners import store, vhosts
from gridfleet.domains.partners.broker_keys import store as broker_keys
from gridfleet.domains.partners.models import AmqpAddress
from gridfleet.domains.partners.topology import PartnerQueues, inbound_queue
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["amqp_address", "count_vhosts", "queue_prefix", "queue_prefixes", "set_queues"]


async def set_queues(db: Connection, org: OrgScope, prefix: str, *, enabled: bool) -> None:
    """Set the prefix of the organisation's own queues, and switch the service's queues on or off.

    Both take effect when the transaction commits. With `enabled` the service's queues exist in the vhost of each of the
    organisation's active keys; without it they are removed there. If the service's queues stay the same, a key whose update
    waits gets no other.
    """
    before = await store.lock_queues(db, org)
    if before is None or (before.prefix, before.enabled) != (prefix, enabled):  # a change wakes all gateways
        await store.save_queues(db, org, prefix, enabled)
    # While they are disabled, a new prefix only removes the queues that partners declared with the former one.
    stay = before is not None and before.enabled == enabled and (not enabled or before.prefix == prefix)
    waiting: Set[str] = await vhosts.waiting_updates(db) if stay else frozenset()
    gone = [] if before is None or not before.enabled else [inbound_queue(before.prefix)]
    for key in await broker_keys.list_amqp_of(db, org):
        if str(key.id) in waiting:
            continue
        own = PartnerQueues(key.slug, prefix).names
        await vhosts.queue_vhost_update(db, key, unwanted=gone if enabled else [*gone, *own])


async def count_vhosts(db: Connection, org: OrgScope) -> int:
    """Return how many of the organisation's keys have a vhost, in each of which trading makes queues."""
    return await broker_keys.count_amqp_of(db, org)


async def queue_prefix(db: Connection, organization_id: UUID) -> str:
    """Return the prefix of the names of the organisation's own queues: its slug until trading sets another."""
    return await store.find_prefix(db, organization_id)


async def queue_prefixes(db: Connection) -> dict[UUID, str]:
    """Return the queue name prefix of each organisation whose queues are enabled."""
    return await store.list_prefixes(db)


async def amqp_address(db: Connection, org: OrgScope) -> AmqpAddress:
    """Return where the organisation's programs connect: its slug, and the vhost of the caller's or its newest key, or None.

    Raises:
        LookupError: The organisation was deleted.
    """
    return await store.find_amqp_address(db, org)
