"""Who gets events: the vhosts that the gateway serves, and the plants that somebody listens to."""

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.partners.models import AmqpKey, vhost_of
from gridfleet.domains.partners.signing import list_amqp_keys
from gridfleet.domains.vcp.events import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["ServedVhost", "listened_plants", "served_vhosts"]


class ServedVhost(NamedTuple):
    """A key's own vhost, with the queue in which its orders arrive."""

    key: AmqpKey
    inbound_queue: str


async def served_vhosts(db: Connection, system: SystemScope) -> list[ServedVhost]:
    """The vhosts of all live keys whose organisations' queues stand. Legacy keys share a vhost, in which nobody could tell
    who sent what: they are not served."""
    prefixes = await store.queues(db, system)
    return [
        ServedVhost(key, f"{prefixes[key.organization_id]}.inbound")
        for key in await list_amqp_keys(db, system)
        if key.organization_id in prefixes and key.vhost == vhost_of(key.id)
    ]


async def listened_plants(db: Connection, system: SystemScope, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """The organisation of each of those plants whose events somebody gets."""
    return await store.listeners(db, system, plant_ids)
