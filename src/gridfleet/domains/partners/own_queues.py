"""The owners of partners' vhosts, and the audit records of removed queues and dropped events."""

from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.partners import vhosts
from gridfleet.domains.partners.broker_keys import store
from gridfleet.domains.partners.models import AmqpKey, vhost_of
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.db import Connection, storable
from gridfleet.protocol.partner_routes import EventKind

__all__ = ["VhostOwner", "find_owner", "record_dropped_events", "record_removal"]

_VHOST_PREFIX: Final = "partner-"
_MOST_REMOVALS_A_MINUTE: Final = 60


class VhostOwner(NamedTuple):
    """The key that owns a vhost, and the names of the service's queues there."""

    key: AmqpKey
    service_queues: frozenset[str]


async def find_owner(db: Connection, vhost: str) -> VhostOwner | None:
    """Return the owner of a vhost; None for vhosts that belong to no key of this deployment."""
    try:
        key_id = UUID(vhost.removeprefix(_VHOST_PREFIX))
    except ValueError:
        return None
    key = await store.find_amqp(db, key_id)
    if key is None or vhost_of(key.id) != vhost or key.vhost != vhost:
        return None
    queues = await vhosts.wanted_queues(db, key)
    return VhostOwner(key, queues.names if queues else frozenset())


async def record_removal(db: Connection, key: AmqpKey, queue: str, argument: str) -> None:
    """Record that the service removed a partner's own queue because of one of its arguments."""
    await record(
        db,
        Event.PARTNER_QUEUE_REMOVED,
        Actor(ActorType.SYSTEM),
        Subject(SubjectType.API_KEY, key.id),
        organization_id=key.organization_id,
        details={"queue": storable(queue), "argument": argument},
        most_a_minute=_MOST_REMOVALS_A_MINUTE,
    )


async def record_dropped_events(db: Connection, key: AmqpKey, kind: EventKind, reason: str, events: int) -> None:
    """Record how many events of a kind a key's queue has dropped.

    `reason` is `maxlen` if the queue was full, `expired` if the events were a day old.
    """
    await record(
        db,
        Event.PARTNER_EVENTS_DROPPED,
        Actor(ActorType.SYSTEM),
        Subject(SubjectType.API_KEY, key.id),
        organization_id=key.organization_id,
        details={"kind": kind, "reason": reason, "events": events},
    )
