"""The queue of events to partners in the database."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid5

from gridfleet.domains.partner_events import store
from gridfleet.domains.partner_events.models import NewEvent, QueuedEvent, Room, Walk
from gridfleet.domains.partner_events.queue_starts import QueueStarts
from gridfleet.kernel.db import Connection, Database

__all__ = [
    "EVENTS_CHANNEL",
    "MOST_BYTES",
    "count_events",
    "delete_published",
    "drop_stale",
    "drop_surplus",
    "drop_unserved",
    "event_id",
    "first_ids",
    "may_have_surplus",
    "next_events",
    "oldest_seconds",
    "queue_events",
    "subscribed_plants",
]

EVENTS_CHANNEL: Final = "partner_event"
"""The database notifies this channel when events have been queued."""

_NAMESPACE: Final = UUID("5d0f2f3e-52a5-4c5e-8a76-0a7c8f4d2b10")
_KEPT: Final = timedelta(hours=24)
"""Maximum age of a queued event, the same as in the broker's queues."""
_UNSERVED_KEPT: Final = timedelta(minutes=1)
_DROPPED_AT_ONCE: Final = 2_000
"""Maximum number of events that a statement deletes. All stale ones of a long outage take longer than a statement may, and one
that has just been published may be among them: its deletion waits for the lock.
"""
MOST_BYTES: Final = 1024**3
"""Bytes on disk of an organisation's telemetry events that wait. Other events are few and small, and are not counted."""
_ROW_BYTES: Final = 200
"""Bytes of an event besides its body: the rest of its row, and its entries in the indexes."""
_START: Final = Walk(2**63 - 1, 0, 0)
_COUNTED: Final = 10_000
"""Maximum number of events that are counted: a metric must not read through a backlog of millions."""
_STEP: Final = 2_000
"""Maximum number of events that a statement reads and deletes to find the surplus. Their bodies may have a GiB together."""


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


async def drop_stale(db: Connection, starts: QueueStarts[None]) -> int:
    """Delete some of the events that were not published within a day. Returns how many; call it again until there are none."""
    dropped, first = await store.delete_older(db, _KEPT, starts.start(None), _DROPPED_AT_ONCE)
    starts.note({} if first is None else {None: first})
    return dropped


async def drop_unserved(db: Connection, served: Collection[UUID]) -> int:
    """Delete some of the events of organisations that no vhost serves, once they are a minute old. Returns how many.

    Their last key has ended, or their trading is disabled. A key that is made later has queues of its own, and is not sent what
    happened before.
    """
    return await store.delete_of_others(db, served, _UNSERVED_KEPT, _DROPPED_AT_ONCE)


async def first_ids(db: Connection, starts: Mapping[UUID, int]) -> dict[UUID, int]:
    """Return the id of the first event of each organisation that has one from its start."""
    return await store.first_ids(db, starts)


async def oldest_seconds(db: Connection, starts: QueueStarts[None]) -> float:
    """Return how many seconds the oldest event has waited; 0 without events."""
    found = await store.oldest(db, starts.start(None))
    if found is None:
        return 0.0
    starts.note({None: found[0]})
    return found[1]


async def count_events(db: Connection, starts: QueueStarts[None]) -> int:
    """Return the number of events that wait, at most 10,000."""
    return await store.count(db, starts.start(None), _COUNTED)


async def may_have_surplus(db: Connection) -> bool:
    """Return whether the events of all organisations take more space than those of one may."""
    return await store.disk_size(db) > MOST_BYTES


async def drop_surplus(database: Database, organization_id: UUID, start: int, claimed: Callable[[], Collection[int]]) -> int:
    """Delete the oldest telemetry events of an organisation beyond `MOST_BYTES`, as a full queue of the broker does.

    Each step is a transaction: an organisation may have more events than a statement can read in its time.

    Args:
        database: The database.
        organization_id: The organisation.
        start: The id below which no event of it waits.
        claimed: Returns the ids of events that are being published. They stay.

    Returns:
        How many were deleted.
    """
    dropped = 0
    walk: Walk | None = _START
    while walk is not None:
        async with database.transaction() as db:
            walk = await store.delete_surplus(db, organization_id, start, walk, MOST_BYTES, _ROW_BYTES, claimed(), _STEP)
        dropped += walk.dropped if walk else 0
    return dropped


async def subscribed_plants(db: Connection, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the organisation ids of the plants among `plant_ids` whose events a partner receives, by plant id."""
    return await store.subscribed(db, plant_ids)
