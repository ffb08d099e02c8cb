"""The queue of events to partners in the database."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid5

from gridfleet.domains.partner_events import store
from gridfleet.domains.partner_events.models import NewEvent, QueuedEvent, Room
from gridfleet.kernel.db import Connection

__all__ = ["EVENTS_CHANNEL", "delete_published", "drop_stale", "event_id", "next_events", "queue_events", "subscribed_plants"]

EVENTS_CHANNEL: Final = "partner_event"
"""The database notifies this channel when events have been queued."""

_NAMESPACE: Final = UUID("5d0f2f3e-52a5-4c5e-8a76-0a7c8f4d2b10")
_KEPT: Final = timedelta(hours=24)
"""Maximum age of a queued event, the same as in the broker's queues."""
_DROPPED_AT_ONCE: Final = 10_000
"""Maximum number of events that a statement deletes: all stale ones of a long outage take longer than a statement may."""


def event_id(*facts: object) -> UUID:
    """Return an event id derived from these facts.

    The same facts give the same id, so that repetitions can be recognised.
    """
    return uuid5(_NAMESPACE, "\n".join(map(str, facts)))


async def queue_events(db: Connection, events: Sequence[NewEvent]) -> None:
    """Queue events in the transaction of `db`."""
    if events:
        await store.insert(db, events)


async def next_events(
    db: Connection, rooms: Mapping[UUID, Room], claimed: Collection[int], limit: int, size: int
) -> list[QueuedEvent]:
    """Return the oldest events of some organisations, at most `limit`. The organisations take turns.

    Args:
        db: The connection.
        rooms: The room for events of each organisation. An organisation without room gets no event.
        claimed: The ids of events that are left out, because they are being published.
        limit: Maximum number of events.
        size: The bytes at which no further event is returned, counted as in `rooms`.
    """
    free = {one: room for one, room in rooms.items() if room.events > 0 and room.size > 0}
    return await store.waiting(db, free, claimed, limit, size)


async def delete_published(db: Connection, ids: Collection[int]) -> None:
    """Delete events that the broker has confirmed."""
    await store.delete(db, ids)


async def drop_stale(db: Connection, now: datetime) -> int:
    """Delete some of the events that were not published within a day. Returns how many; call it again until there are none."""
    return await store.delete_before(db, now - _KEPT, _DROPPED_AT_ONCE)


async def subscribed_plants(db: Connection, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the organisation ids of the plants among `plant_ids` whose events a partner receives, by plant id."""
    return await store.subscribed(db, plant_ids)
