"""SQL that reads telemetry.

Frames have no organisation column. The ids of sources come only from `sources`, which requires the scope.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.roles import GRID_DEVICE, PV_PREFIX, STANDARD_KEYS
from gridfleet.domains.telemetry.history.models import LayoutIndex
from gridfleet.domains.telemetry.rollups.store import scaled_sum
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_in_turns, fetch_value

__all__ = ["RoleSourceRow", "SourceRow", "ValuesPage"]

Picks = Sequence[tuple[int, int]]
"""(layout id, position from 0) of one metric in the layouts of a source."""


class SourceRow(NamedTuple):
    """A source with one of its layouts, which has `size` metrics; the digest identifies its content in every database."""

    id: int
    external_id: str | None
    layout_id: int
    digest: bytes
    size: int


class RoleSourceRow(NamedTuple):
    """A source of a plant with one of its layouts, and those of the layout's metrics that have had a value and may have a role.

    `roles` are those that the template of the device with its external id declares now, by key; None without a template.
    `positions` count from 0. Each list has an entry for each metric.
    """

    plant_id: UUID
    roles: dict[str, str] | None
    source_id: int
    external_id: str | None
    layout_id: int
    keys: list[str]
    units: list[str]
    positions: list[int]


class ValuesPage(NamedTuple):
    """Values as big-endian doubles and their times as microseconds since 2000-01-01, both as bytes.

    `frames` is the number of frames that were read; `last` is the time of the last one.
    """

    times: bytes
    values: bytes
    frames: int
    last: datetime | None


async def sources(
    db: Connection,
    org: OrgScope,
    plant_id: UUID,
    *,
    external_ids: Sequence[str | None] | None,
    keys: Sequence[str] | None,
    limit: int | None,
) -> list[SourceRow]:
    """Return the sources of the plant with their layouts, newest first.

    Args:
        external_ids: Return only sources with these external ids, of which None is the plant itself; None is all sources.
        keys: Return only layouts with one of these metrics; None is all layouts.
        limit: The most rows to return; None is all.
    """
    wanted = None if keys is None else list(keys)
    named = None if external_ids is None else list(external_ids)
    cursor = db.cursor(row_factory=class_row(SourceRow), binary=True)
    await cursor.execute(
        "SELECT s.id, s.external_id, l.id AS layout_id, l.digest, cardinality(t.vals) AS size"
        " FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " WHERE s.plant_id = %s AND s.organization_id = %s"
        " AND (%s::text[] IS NULL OR array_position(%s::text[], s.external_id) IS NOT NULL)"
        " AND (%s::text[] IS NULL OR l.metrics && %s::text[]) ORDER BY s.id DESC, l.id DESC LIMIT %s::bigint",
        (plant_id, org.organization_id, named, named, wanted, wanted, limit),
    )
    return await cursor.fetchall()


async def usual_seconds(db: Connection, org: OrgScope, plant_id: UUID, external_ids: Sequence[str | None]) -> float | None:
    """Return the shortest usual interval of these devices, of which None is the plant itself; None if none is known."""
    return await fetch_value(
        db,
        "SELECT min(every) FROM (SELECT usual_interval_seconds AS every FROM plant WHERE id = %(plant)s"
        " AND organization_id = %(org)s AND array_position(%(ids)s::text[], NULL) IS NOT NULL"
        " UNION ALL SELECT usual_interval_seconds FROM sub_device WHERE plant_id = %(plant)s AND organization_id = %(org)s"
        " AND external_id = ANY(%(ids)s::text[])) AS intervals",
        {"plant": plant_id, "org": org.organization_id, "ids": list(external_ids)},
    )


async def role_sources(db: Connection, org: OrgScope, plant_ids: Sequence[UUID]) -> list[RoleSourceRow]:
    """Return the sources of plants with their layouts that have a metric with a role, newest first."""
    return await _role_sources(
        db,
        plant_ids,
        " AND p.organization_id = %(org)s AND (%(allowed)s::uuid[] IS NULL OR p.id = ANY(%(allowed)s))",
        {"org": org.organization_id, "allowed": None if org.plant_ids is None else list(org.plant_ids)},
    )


async def role_sources_of_all(db: Connection, plant_ids: Sequence[UUID]) -> list[RoleSourceRow]:
    """Return the same of plants of any organisation."""
    return await _role_sources(db, plant_ids, "", {})


async def _role_sources(
    db: Connection, plant_ids: Sequence[UUID], condition: str, parameters: dict[str, Any]
) -> list[RoleSourceRow]:
    # The metrics are chosen here, because a plant decides how many others are beside them: 200 in each layout, each with a name
    # of its own.
    cursor = db.cursor(row_factory=class_row(RoleSourceRow), binary=True)
    await cursor.execute(
        "SELECT p.id AS plant_id, m.roles, s.id AS source_id, s.external_id, l.id AS layout_id, v.*"
        " FROM plant p JOIN telemetry_source s ON s.plant_id = p.id AND s.organization_id = p.organization_id"
        " JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " LEFT JOIN sub_device d ON d.plant_id = p.id AND d.external_id = s.external_id LEFT JOIN device_template m"
        " ON m.id = CASE WHEN s.external_id IS NULL THEN p.template_id ELSE d.template_id END CROSS JOIN LATERAL"
        " (SELECT array_agg(u.key) AS keys, array_agg(u.unit) AS units, array_agg(u.number::int - 1) AS positions"
        " FROM unnest(l.metrics, l.units, t.vals) WITH ORDINALITY AS u (key, unit, value, number)"
        " WHERE u.value IS NOT NULL AND CASE WHEN m.roles <> '{}' THEN m.roles ? u.key"
        " ELSE u.key = ANY(%(standard)s::text[]) END) AS v"
        " WHERE p.id = ANY(%(wanted)s::uuid[]) AND CASE WHEN m.roles <> '{}'"
        " THEN m.roles ?| l.metrics ELSE (s.external_id = %(grid)s OR starts_with(s.external_id, %(pv)s))"
        f" AND l.metrics && %(standard)s::text[] END AND v.keys IS NOT NULL{condition} ORDER BY s.id DESC, l.id DESC",
        {
            "wanted": list(plant_ids),
            **parameters,
            "grid": GRID_DEVICE,
            "pv": PV_PREFIX,
            "standard": list(STANDARD_KEYS),
        },
    )
    return await cursor.fetchall()


async def layouts(db: Connection, layout_ids: Sequence[int]) -> list[tuple[bytes, LayoutIndex]]:
    """Return the layouts with their digests."""
    cursor = db.cursor(binary=True)
    await cursor.execute(
        "SELECT id, digest, metrics, units, counters, minimums, maximums FROM telemetry_layout WHERE id = ANY(%s::int[])",
        (list(layout_ids),),
    )
    return [(row[1], _layout(row[0], *row[2:])) for row in await cursor.fetchall()]


def _layout(
    layout_id: int,
    metrics: list[str],
    units: list[str],
    counters: list[bool],
    minimums: list[float | None],
    maximums: list[float | None],
) -> LayoutIndex:
    return LayoutIndex(
        layout_id,
        tuple(map(Metric, metrics, units, counters, minimums, maximums)),
        {key: position for position, key in enumerate(metrics)},
    )


async def reported(db: Connection, org: OrgScope, source_id: int, metrics: Sequence[str]) -> set[str]:
    """Return those of the metrics that have a value in a frame of the source, or had one."""
    cursor = await db.execute(
        "SELECT DISTINCT m.key FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id CROSS JOIN LATERAL unnest(l.metrics, t.vals) AS m (key, value)"
        " WHERE s.id = %s AND s.organization_id = %s AND m.key = ANY(%s) AND m.value IS NOT NULL",
        (source_id, org.organization_id, list(metrics)),
    )
    return {row[0] for row in await cursor.fetchall()}


def _value(picks: Picks) -> tuple[str, list[int]]:
    """Return the expression for a metric's value in a frame, and its parameters."""
    cases = " ".join(["WHEN %s::int THEN vals[%s::int]"] * len(picks))
    return f"CASE layout_id {cases} END", [number for layout_id, position in picks for number in (layout_id, position + 1)]


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
    page = await cursor.fetchone()
    assert page is not None
    return page


async def values_by_second(db: Connection, source_id: int, picks: Picks, start: datetime, end: datetime) -> tuple[bytes, bytes]:
    """Return times and values of one metric of a source, of each second the last one, as bytes like those of `ValuesPage`.

    If two layouts have a value of the same time, the newer layout's value is used.
    """
    value, arguments = _value(picks)
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
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def frames_page(
    db: Connection, source_ids: Sequence[int], start: datetime, end: datetime, limit: int
) -> list[tuple[datetime, int, int, list[float | None]]]:
    """Return (time, source, layout, values) of the first `limit` frames of each source from `start` on, in that order.

    Further frames of the time of a source's last frame are returned, too.
    """
    cursor = db.cursor(binary=True)
    await cursor.execute(
        "SELECT f.time, s.id, f.layout_id, f.vals FROM unnest(%s::int[]) AS s (id) CROSS JOIN LATERAL"
        " (SELECT time, layout_id, vals FROM telemetry_frame WHERE source_id = s.id AND time >= %s::timestamptz"
        " AND time < %s::timestamptz ORDER BY time FETCH FIRST (%s::bigint) ROWS WITH TIES) AS f"
        " ORDER BY f.time, s.id, f.layout_id",
        (list(source_ids), start, end, limit),
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    return await cursor.fetchall()


async def count_values(
    db: Connection, source_ids: Sequence[int], picks: Picks, start: datetime, end: datetime, limit: int
) -> int:
    """Return the number of values of one metric; counting stops at `limit`."""
    value, arguments = _value(picks)
    return await fetch_count(
        db,
        f"SELECT count(*) FROM (SELECT FROM telemetry_frame WHERE {value} IS NOT NULL AND source_id = ANY(%s::int[])"
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
    frames = "FROM telemetry_frame WHERE source_id = s.id AND time >= %(start)s AND time < %(end)s ORDER BY time"
    hours = (
        "FROM telemetry_hour WHERE source_id = s.id AND bucket > %(start)s - interval '1 hour' AND bucket < %(end)s"
        " ORDER BY bucket"
    )
    cursor = await db.execute(
        "SELECT min(f.time), max(f.time) FROM unnest(%(ids)s::int[]) AS s (id) CROSS JOIN LATERAL ("
        f" (SELECT time {frames} LIMIT 1) UNION ALL (SELECT time {frames} DESC LIMIT 1)"
        f" UNION ALL (SELECT greatest(bucket, %(start)s) {hours} LIMIT 1)"
        f" UNION ALL (SELECT least(bucket + interval '1 hour', %(end)s) - interval '1 microsecond' {hours} DESC LIMIT 1)"
        ") AS f",
        {"ids": list(source_ids), "start": start, "end": end},
        prepare=_PLAN_FOR_THIS_RANGE,
    )
    row = await cursor.fetchone()
    return None if row is None or row[0] is None else (row[0], row[1])


async def frontier(
    db: Connection, org: OrgScope, source_ids: Sequence[int], start: datetime, end: datetime, frames: int
) -> datetime | None:
    """Return the time before which no source has more than `frames` frames from `start` on, at most `end`.

    None if frames from `start` on may have been dropped.
    """
    return await fetch_value(
        db,
        "SELECT coalesce(min(f.time), %(end)s::timestamptz) FROM telemetry_source s LEFT JOIN LATERAL (SELECT time"
        " FROM telemetry_frame WHERE source_id = s.id AND time >= %(start)s AND time < %(end)s ORDER BY time"
        " OFFSET %(frames)s LIMIT 1) AS f ON true WHERE s.id = ANY(%(ids)s::int[]) AND s.organization_id = %(org)s"
        " HAVING max(s.raw_from) <= %(start)s",
        {"org": org.organization_id, "ids": list(source_ids), "start": start, "end": end, "frames": frames},
        prepare=_PLAN_FOR_THIS_RANGE,
    )


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

    One pass over the frames, whatever the number of metrics. A metric without a value in a bucket has count 0. Positions count
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
