"""SQL of the ingest's own bookkeeping."""

from collections.abc import Mapping
from datetime import datetime

from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection


async def drained_at(db: Connection, system: SystemScope) -> dict[int, datetime]:
    """Until when each shard's queue is known to have been empty."""
    cursor = await db.execute("SELECT shard, drained_at FROM ingest_shard")
    return dict(await cursor.fetchall())


async def record_drained(db: Connection, system: SystemScope, drained: Mapping[int, datetime]) -> None:
    """Moves those moments forward."""
    await db.execute(
        "INSERT INTO ingest_shard AS s (shard, drained_at) SELECT * FROM unnest(%s::int[], %s::timestamptz[])"
        " ON CONFLICT (shard) DO UPDATE SET drained_at = greatest(s.drained_at, excluded.drained_at)",
        (list(drained), list(drained.values())),
    )
