"""SQL that reads the values in frames.

Frames have no organisation column. The ids of sources come only from `sources` of `history/store.py`, which requires the scope.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import merge
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

from psycopg.rows import class_row

from gridfleet.domains.telemetry.history.models import SeriesPosition
from gridfleet.domains.telemetry.rollups.store import scaled_sum
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_in_turns, fetch_value
from gridfleet.kernel.db.shards import by_shard, is_distributed

__all__ = ["Frame", "ValuesPage"]

Picks = Sequence[tuple[int, int]]
"""(layout id, position from 0) of one metric in the layouts of a source."""


Frame = tuple[datetime, int, int, list[float | None]]
"""(time, source id, layout id, values)."""
_MICROSECOND: Final = timedelta(microseconds=1)


class ValuesPage(NamedTuple):
    """Values of a metric and their times, of the same number, in 8 bytes each, big-endian.

    Attributes:
        times: Microseconds since 2000-01-01 UTC.
        values: Doubles.
        frames: The number of frames that were read.
        last: The time of the last of them; None if there was none.
    """

    times: bytes
    values: bytes
    frames: int
    last: datetime | None


def _value(picks: Picks) -> tuple[str, list[int]]:
    """Return the expression for a metric's value in a frame, and its parameters."""
    cases = " ".join(["WHEN %s::int THEN vals[%s::int]"] * len(picks))
    return f"CASE layout_id {cases} END", [number for layout_id, position in picks for number in (layout_id, position + 1)]


def _value_within(positions: Sequence[SeriesPosition]) -> tuple[str, list[float]]:
    """Return the expression for a metric's value in a frame, -1 outside the limits of its layout, and its parameters."""
    cases: list[str] = []
    arguments: list[float] = []
    for _, layout_id, number, _, low, high in positions:
        if low == -inf and high == inf:
            cases.append("WHEN %s::int THEN vals[%s::int]")
            arguments += [layout_id, number + 1]
        else:
            cases.append(
                "WHEN %s::int THEN CASE WHEN vals[%s::int] NOT BETWEEN %s::float8 AND %s::float8 THEN -1 ELSE vals[%s::int] END"
            )
            arguments += [layout_id, number + 1, low, high, number + 1]
    return f"CASE layout_id {' '.join(cases)} END", arguments


def _aggregates(value: str) -> str:
    return f"{scaled_sum(value)}, min({value}), max({value}), count({value})"


# Planned for each query: a generic plan includes every day's partition, and takes twice as long for one day.
_PLAN_FOR_THIS_RANGE: Final = False

_IN_RANGE = "source_id = %s::int AND time >= %s::timestamptz AND time < %s::timestamptz"


async def values_page(db: Connection, source_id: int, picks: Picks, start: datetime, end: datetime, limit: int) -> ValuesPage:
    """Return one metric of a source's first `limit` frames from `start` on, without missing values.

    If two layouts have a value of the same time, the older layout's value comes first.
    """
    value, arguments = _value(picks)
    # Bytes in one row instead of one row per value take half the time for a day of 10 s values. An aggregate over a
    # sorted subquery processes rows in that order (PostgreSQL manual, Aggregate Functions); an ORDER BY inside it would
    # sort again.
    cursor = db.cursor(row_factory=class_row(ValuesPage), binary=True)
    await cursor.execute(
        "SELECT coalesce(string_agg(CASE WHEN value IS NOT NULL THEN timestamptz_send(time) END, ''::bytea), '') AS times,"
        " coalesce(string_agg(float8send(value), ''::bytea), '') AS values,"
        f" count(*) AS frames, max(time) AS last FROM (SELECT time, layout_id, {value} AS value FROM telemetry_frame"
        f" WHERE {_IN_RANGE} ORDER BY time, layout_id LIMIT %s::bigint) AS page",
        (*arguments, source_id, start, end, limit),
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    return (await cursor.fetchall())[0]


async def values_by_second(
    db: Connection, source_id: int, positions: Sequence[SeriesPosition], start: datetime, end: datetime
) -> tuple[bytes, bytes]:
    """Return times and values of one metric of a source, of each second the last one, as bytes like those of `ValuesPage`.

    If two layouts have a value of the same time, the newer layout's value is used. Values outside their limits are -1.
    """
    value, arguments = _value_within(positions)
    cursor = db.cursor(binary=True)
    await cursor.execute(
        "SELECT coalesce(string_agg(timestamptz_send(time), ''::bytea), ''),"
        " coalesce(string_agg(float8send(value), ''::bytea), '')"
        " FROM (SELECT time, value, lead(time) OVER (ORDER BY time, layout_id) AS following"
        f" FROM (SELECT time, layout_id, {value} AS value FROM telemetry_frame WHERE {_IN_RANGE}) AS every"
        " WHERE value IS NOT NULL ORDER BY time, layout_id) AS valued"
        " WHERE following IS NULL OR date_trunc('second', following) > date_trunc('second', time)",
        (*arguments, source_id, start, end),
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    [row] = await cursor.fetchall()
    return row[0], row[1]


async def frames_page(
    db: Connection, source_ids: Sequence[int], start: datetime, end: datetime, limit: int, most: int
) -> tuple[list[Frame], datetime]:
    """Return the first frames from `start` on by time, source and layout, and the time before which none is missing.

    Args:
        db: The connection.
        source_ids: The sources to read.
        start: The first time.
        end: The time after the last one.
        limit: The frames of each source; further ones of the time of its last frame are returned, too.
        most: The frames of all sources; further ones of the time of the last frame are returned, too.
    """
    pages: list[list[Frame]] = []
    for part in by_shard(db, source_ids, int):
        cursor = db.cursor(binary=True)
        await cursor.execute(
            "SELECT time, id, layout_id, vals FROM (SELECT f.time, s.id, f.layout_id, f.vals FROM unnest(%s::int[]) AS s (id)"
            " CROSS JOIN LATERAL (SELECT time, layout_id, vals FROM telemetry_frame WHERE source_id = s.id"
            f" AND time >= %s::timestamptz AND time < %s::timestamptz{part.condition} ORDER BY time"
            " FETCH FIRST (%s::bigint) ROWS WITH TIES) AS f ORDER BY f.time FETCH FIRST (%s::bigint) ROWS WITH TIES) AS page"
            " ORDER BY time, id, layout_id",
            (part.items, start, end, limit, most),
            prepare=_PLAN_FOR_THIS_RANGE,
        )
        page = await cursor.fetchall()
        if len(page) >= most:
            end = min(end, page[-1][0] + _MICROSECOND)
        pages.append(page)
    return pages[0] if len(pages) == 1 else list(merge(*pages, key=itemgetter(0, 1, 2))), end


async def count_values(
    db: Connection, source_ids: Sequence[int], picks: Picks, start: datetime, end: datetime, limit: int
) -> int:
    """Return the number of values of one metric; counting stops at `limit`."""
    value, arguments = _value(picks)
    return await fetch_count(
        db,
        f"SELECT count(*) FROM (SELECT true FROM telemetry_frame WHERE {value} IS NOT NULL AND source_id = ANY(%s::int[])"
        " AND time >= %s::timestamptz AND time < %s::timestamptz LIMIT %s::bigint) AS counted",
        (*arguments, list(source_ids), start, end, limit),
        prepare=_PLAN_FOR_THIS_RANGE,
    )


async def count_points(db: Connection, source_ids: Sequence[int], start: datetime, end: datetime, limit: int) -> int:
    """Return the number of values in the sources' frames.

    Counting stops after `limit` frames, each of which has at least one value.
    """
    return await fetch_count(
        db,
        "SELECT coalesce(sum(points), 0) FROM (SELECT num_nonnulls(VARIADIC vals) AS points FROM telemetry_frame"
        " WHERE source_id = ANY(%s::int[]) AND time >= %s::timestamptz AND time < %s::timestamptz LIMIT %s::bigint) AS counted",
        (list(source_ids), start, end, limit),
        prepare=_PLAN_FOR_THIS_RANGE,
    )


async def extent(db: Connection, source_ids: Sequence[int], start: datetime, end: datetime) -> tuple[datetime, datetime] | None:
    """Return the part of the range from the sources' first frame or hour of roll-ups to their last; None without either.

    Roll-ups reach further back than frames, which retention drops.
    """
    frames = "FROM telemetry_frame WHERE source_id = s.id AND time >= %(start)s AND time < %(end)s{0} ORDER BY time"
    hours = (
        "FROM telemetry_hour WHERE source_id = s.id AND bucket > %(start)s - interval '1 hour' AND bucket < %(end)s"
        " ORDER BY bucket"
    )
    of_frames = f"(SELECT time {frames} LIMIT 1) UNION ALL (SELECT time {frames} DESC LIMIT 1)"
    of_hours = (
        f"(SELECT greatest(bucket, %(start)s) AS time {hours} LIMIT 1) UNION ALL"
        f" (SELECT least(bucket + interval '1 hour', %(end)s) - interval '1 microsecond' {hours} DESC LIMIT 1)"
    )
    if is_distributed(db):
        # Hours are not.
        wanted = [(of_frames.format(part.condition), part.items) for part in by_shard(db, source_ids, int)]
        wanted.append((of_hours, list(source_ids)))
    else:
        wanted = [(f"{of_frames.format('')} UNION ALL {of_hours}", list(source_ids))]
    found: list[datetime] = []
    for times, ids in wanted:
        cursor = await db.execute(
            "SELECT min(f.time), max(f.time) FROM unnest(%(ids)s::int[]) AS s (id)" + f" CROSS JOIN LATERAL ({times}) AS f",
            {"ids": ids, "start": start, "end": end},
            prepare=_PLAN_FOR_THIS_RANGE,
        )
        found += [time for time in await cursor.fetchone() or () if time is not None]
    return (min(found), max(found)) if found else None


async def frontier(
    db: Connection, org: OrgScope, source_ids: Sequence[int], start: datetime, end: datetime, frames: int
) -> datetime | None:
    """Return the time before which no source has more than `frames` frames from `start` on, at most `end`.

    None if frames from `start` on may have been dropped.
    """
    cursor = await db.execute(
        "SELECT id, raw_from FROM telemetry_source WHERE id = ANY(%s::int[]) AND organization_id = %s",
        (list(source_ids), org.organization_id),
    )
    starts: dict[int, datetime] = dict(await cursor.fetchall())
    if not starts or max(starts.values()) > start:
        return None
    found = end
    for part in by_shard(db, list(starts), int):
        first = await fetch_value(
            db,
            "SELECT min(f.time) FROM unnest(%(ids)s::int[]) AS s (id) CROSS JOIN LATERAL (SELECT time"
            f" FROM telemetry_frame WHERE source_id = s.id AND time >= %(start)s AND time < %(end)s{part.condition}"
            " ORDER BY time OFFSET %(frames)s LIMIT 1) AS f",
            {"ids": part.items, "start": start, "end": end, "frames": frames},
            prepare=_PLAN_FOR_THIS_RANGE,
        )
        found = min(found, first or end)
    return found


async def buckets(
    db: Connection, positions: Sequence[tuple[int, int, int]], start: datetime, end: datetime, width: timedelta
) -> list[tuple[datetime, float, float, float, int]]:
    """Return (bucket, sum × 2^-32, minimum, maximum, count) of one metric, computed from frames.

    Args:
        positions: (source id, layout id, number from 0). Of values of the same time, that of the first entry is used.
    """
    if len(positions) == 1:
        source_id, layout_id, number = positions[0]
        # OFFSET 0 prevents the planner from reading the value from the array once for each aggregate.
        values = f"SELECT time, vals[%s::int] AS value FROM telemetry_frame WHERE {_IN_RANGE} AND layout_id = %s::int OFFSET 0"
        parameters: list[object] = [number + 1, source_id, start, end, layout_id]
    else:
        values = (
            "SELECT DISTINCT ON (time) time, value FROM (SELECT time, rank, vals[number] AS value FROM telemetry_frame f"
            " JOIN unnest(%s::int[], %s::int[], %s::int[]) WITH ORDINALITY AS chosen (source_id, layout_id, number, rank)"
            " USING (source_id, layout_id) WHERE f.source_id = ANY(%s::int[]) AND time >= %s::timestamptz"
            " AND time < %s::timestamptz OFFSET 0) AS every WHERE value IS NOT NULL ORDER BY time, rank"
        )
        sources = [position[0] for position in positions]
        parameters = [
            *(sources, [position[1] for position in positions], [position[2] + 1 for position in positions]),
            *(list(set(sources)), start, end),
        ]
    cursor = db.cursor(binary=True)
    await cursor.execute(
        f"SELECT date_bin(%s::interval, time, 'epoch'::timestamptz) AS bucket, {_aggregates('value')}"
        f" FROM ({values}) AS valued WHERE value IS NOT NULL GROUP BY bucket ORDER BY bucket",
        (width, *parameters),
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    return await cursor.fetchall()


async def wide_buckets(
    db: Connection,
    source_id: int,
    layout_id: int,
    positions: Sequence[int],
    start: datetime,
    end: datetime,
    width: timedelta,
) -> list[tuple[Any, ...]]:
    """Return the bucket, then sum × 2^-32, minimum, maximum and count of each position, from one source's frames of one layout.

    One pass over the frames, for any number of metrics. A metric without a value in a bucket has count 0. Positions count
    from 0.
    """
    columns = ", ".join(f"vals[{position + 1:d}] AS v{position:d}" for position in positions)
    aggregates = ", ".join(_aggregates(f"v{position:d}") for position in positions)
    cursor = db.cursor(binary=True)
    await cursor.execute(
        f"SELECT date_bin(%s::interval, time, 'epoch'::timestamptz) AS bucket, {aggregates} FROM (SELECT time, {columns}"
        f" FROM telemetry_frame WHERE {_IN_RANGE} AND layout_id = %s::int OFFSET 0) AS valued GROUP BY bucket",
        (width, source_id, start, end, layout_id),
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    return await fetch_in_turns(cursor)
