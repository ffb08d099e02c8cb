"""Writing events down, and taking them out again."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from gridfleet.domains.vcp.events import store
from gridfleet.domains.vcp.events.models import NewEvent, QueuedEvent
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["EVENTS_CHANNEL", "drop_stale", "event_id", "next_events", "queue_events", "strike_off"]

EVENTS_CHANNEL: Final = "partner_event"
"""The database notifies here when events were queued."""

_NAMESPACE: Final = UUID("5d0f2f3e-52a5-4c5e-8a76-0a7c8f4d2b10")
_KEPT: Final = timedelta(hours=24)
"""As long as the broker would keep them."""


def event_id(*facts: object) -> UUID:
    """The id of what these facts tell: the same for the same facts, so that a repetition can be known."""
    return uuid5(_NAMESPACE, "\n".join(map(str, facts)))


async def queue_events(db: Connection, system: SystemScope, events: Sequence[NewEvent]) -> None:
    """Queues events with the transaction of `db`."""
    if events:
        await store.insert(db, system, events)


async def next_events(
    db: Connection, system: SystemScope, organization_ids: Collection[UUID], claimed: Collection[int], limit: int
) -> list[QueuedEvent]:
    """The oldest events of these organisations, but for those `claimed`, which are on their way."""
    return await store.waiting(db, system, organization_ids, claimed, limit)


async def strike_off(db: Connection, system: SystemScope, ids: Collection[int]) -> None:
    """Forgets events that the broker has confirmed."""
    await store.delete(db, system, ids)


async def drop_stale(db: Connection, system: SystemScope, now: datetime) -> int:
    """Forgets events that nobody took for a day; how many."""
    return await store.delete_before(db, system, now - _KEPT)
