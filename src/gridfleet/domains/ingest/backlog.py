"""Limits of the age of messages that wait in a queue.

A plant's message must be recent when it reaches the broker. It may then wait there while the service is stopped, and the broker
does not record when it arrived. But a queue that was seen empty contains only later messages. The time at which it was empty is
stored per shard, and limits the arrival time of all messages that are still in it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from gridfleet.domains.ingest import store
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["load_empty_at", "save_empty_at"]


async def load_empty_at(db: Connection, shard: int) -> int:
    """Return when the shard's queue was last known to be empty, in epoch milliseconds.

    A shard without a stored time was added later, and was empty at the earliest time of the others: that time is returned. If
    no shard has a time, or the time is in the future, the present time is returned. A clock that was ahead stores such times;
    with them, current messages would be refused as too old.
    """
    now = utc_now()
    stored = await store.empty_times(db)
    empty_at = stored.get(shard, min(stored.values(), default=now))
    return int(min(empty_at, now).timestamp() * 1000)


async def save_empty_at(db: Connection, moments: Mapping[int, int]) -> None:
    """Store times by shard (epoch milliseconds). A stored time moves back only if it is in the future."""
    times = {shard: datetime.fromtimestamp(moment / 1000, UTC) for shard, moment in moments.items()}
    await store.save_empty_times(db, times)
