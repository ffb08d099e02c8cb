"""SQL of the state of ingest."""

from collections.abc import Mapping
from datetime import datetime

from gridfleet.kernel.db import Connection


async def empty_times(db: Connection) -> dict[int, datetime]:
    """Return the latest time at which each shard's queue is known to have been empty."""
    cursor = await db.execute("SELECT shard, drained_at FROM ingest_shard")
    return dict(await cursor.fetchall())


async def save_empty_times(db: Connection, times: Mapping[int, datetime]) -> None:
    """Store these times. A stored time moves back only if it is in the future."""
    await db.execute(
        "INSERT INTO ingest_shard AS s (shard, drained_at) SELECT * FROM unnest(%s::int[], %s::timestamptz[])"
        " ON CONFLICT (shard) DO UPDATE SET drained_at = CASE WHEN s.drained_at > now() THEN excluded.drained_at"
        " ELSE greatest(s.drained_at, excluded.drained_at) END",
        (list(times), list(times.values())),
    )
