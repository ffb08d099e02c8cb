"""The organisation's queues at the broker: whether they stand, and what the names of its own ones begin with.

Trading switches them on and off. What must stand in which vhost follows from here and from the keys; the gateway makes it so
(`vhosts.SETTLE`), now and whenever it is told again.
"""

from uuid import UUID

from gridfleet.domains.partners import store, vhosts
from gridfleet.domains.partners.models import AmqpPlace
from gridfleet.kernel.broker.partner_topology import PartnerQueues, inbound_queue
from gridfleet.kernel.caller import OrgScope, SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["amqp_place", "queue_prefix", "set_queues"]


async def set_queues(db: Connection, org: OrgScope, prefix: str, *, enabled: bool) -> None:
    """From the commit on the organisation's own queues begin with `prefix`; with `enabled` the service's queues
    stand in the vhost of each of its active keys, without it they are removed there."""
    before = await store.lock_queues(db, org)
    await store.save_queues(db, org, prefix, enabled)
    gone = [] if before is None or not before.enabled else [inbound_queue(before.prefix)]
    for key in await store.list_amqp_of(db, org):
        own = PartnerQueues(key.slug, prefix).names
        await vhosts.queue_settling(db, key, unwanted=gone if enabled else [*gone, *own])


async def queue_prefix(db: Connection, system: SystemScope, organization_id: UUID) -> str:
    """What the names of the organisation's own queues begin with: its slug until trading chose otherwise."""
    return await store.find_prefix(db, system, organization_id)


async def amqp_place(db: Connection, org: OrgScope) -> AmqpPlace:
    """Where the organisation's programs connect: the vhost of its newest active key, None without any, and its slug."""
    return await store.find_place(db, org)
