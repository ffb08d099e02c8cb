"""SQL that reads roll-ups."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from gridfleet.domains.telemetry.rollups.models import Level, Reach
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_in_turns


async def reach(db: Connection, source_ids: Sequence[int], start: datetime, end: datetime) -> Reach:
    """Return the coverage of these sources' roll-ups, and the dirty hours with `start` <= hour < `end`, in one snapshot.

    The ids come from a query that required the caller's scope.
    """
    cursor = await db.execute(
        "SELECT sealed_before, r.raw_from, r.minutes_from, r.quarters_from,"
        " ARRAY(SELECT DISTINCT hour FROM telemetry_dirty WHERE source_id = ANY(%(ids)s::int[])"
        " AND hour >= %(start)s::timestamptz AND hour < %(end)s::timestamptz)"
        " FROM telemetry_seal, (SELECT coalesce(max(raw_from), 'epoch') AS raw_from,"
        " coalesce(max(minutes_from), 'epoch') AS minutes_from, coalesce(max(quarters_from), 'epoch') AS quarters_from"
        " FROM telemetry_source WHERE id = ANY(%(ids)s::int[])) AS r",
        {"ids": list(source_ids), "start": start, "end": end},
    )
    [row] = await cursor.fetchall()
    return Reach(row[0], row[1], row[2], row[3], frozenset(row[4]))


async def buckets(
    db: Connection,
    level: Level,
    source_id: int,
    layout_id: int,
    positions: Sequence[int],
    start: datetime,
    end: datetime,
    width: timedelta,
) -> list[tuple[Any, ...]]:
    """Return the bucket, then sum × 2^-32, minimum, maximum and count of each of `positions` (from 0), by time.

    The values are columns of their own, because reading arrays takes far longer.

    Args:
        width: The width of a returned bucket: that of the level, or a multiple.
    """
    columns = ("{}", "{}", "{}", "{}") if width == level.width else ("sum({})", "min({})", "max({})", "sum({})")
    picked = ", ".join(
        aggregate.format(f"{column}[{position + 1:d}]")
        for position in positions
        for aggregate, column in zip(columns, ("sums", "lows", "highs", "counts"), strict=True)
    )
    grouped = "bucket" if width == level.width else "date_bin(%(width)s::interval, bucket, 'epoch'::timestamptz)"
    cursor = db.cursor(binary=True)
    await cursor.execute(
        f"SELECT {grouped} AS start, {picked} FROM {level.table} WHERE source_id = %(source)s::int"
        " AND layout_id = %(layout)s::int AND bucket >= %(start)s::timestamptz AND bucket < %(end)s::timestamptz"
        f"{'' if width == level.width else ' GROUP BY start'} ORDER BY start",
        {"width": width, "source": source_id, "layout": layout_id, "start": start, "end": end},
        prepare=False,
    )
    return await fetch_in_turns(cursor)
