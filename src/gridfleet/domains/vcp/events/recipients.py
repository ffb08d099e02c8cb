"""Recipients of events: the vhosts that the gateway serves."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.partner_events.models import QueuedEvent
from gridfleet.domains.partners.legacy.topology import LEGACY_EVENTS
from gridfleet.domains.partners.models import AmqpKey, vhost_of
from gridfleet.domains.partners.queues import queue_prefixes
from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.partners.signing import list_amqp_keys
from gridfleet.domains.partners.topology import inbound_queue
from gridfleet.kernel.db import Connection
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST

__all__ = ["ServedVhost", "recipients", "served_vhosts"]


class ServedVhost(NamedTuple):
    """A key's vhost, with the queue in which its partner commands arrive.

    Legacy keys share a vhost. There each organisation has one key and queues of its own.
    """

    key: AmqpKey
    inbound_queue: str

    @property
    def events_exchange(self) -> str:
        """The exchange to which the key's events are published."""
        return LEGACY_EVENTS if self.key.vhost == LEGACY_VHOST else EXCHANGE


async def served_vhosts(db: Connection, known: Mapping[UUID, AmqpKey]) -> list[ServedVhost]:
    """Return the vhosts of all live keys whose organisations have enabled partner queues.

    Args:
        known: The keys that the last call returned, by id. Their plants are not read again.
    """
    prefixes = await queue_prefixes(db)
    return [
        ServedVhost(key, inbound_queue(key.slug if key.vhost == LEGACY_VHOST else prefixes[key.organization_id]))
        for key in await list_amqp_keys(db, prefixes.keys(), known)
        if key.vhost in (vhost_of(key.id), LEGACY_VHOST)
    ]


def recipients(event: QueuedEvent, keys: Sequence[AmqpKey]) -> list[AmqpKey]:
    """Return those of the organisation's keys to whose vhosts the event is published: keys that may consume it."""
    readers = [key for key in keys if Scope.VCP_CONNECT in key.scopes]
    if event.api_key_id is not None:
        return [key for key in readers if key.id == event.api_key_id]
    return [key for key in readers if key.plant_ids is None or event.plant_id in key.plant_ids]
