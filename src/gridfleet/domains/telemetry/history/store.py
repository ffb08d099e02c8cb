"""SQL that reads the sources of plants and their layouts."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby, repeat
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.roles import GRID_DEVICE, PV_PREFIX, STANDARD_KEYS
from gridfleet.domains.telemetry.history.models import LayoutIndex
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_value

__all__ = ["DIGEST", "ReportedRow", "RoleSourceRow", "SourceRow"]

DIGEST: Final = "l.digest || coalesce(sha256(array_to_string(l.scalings, ',', '')::bytea), '')"
"""The identity of a layout's content. Scalings are not in `digest`, because layouts of earlier releases get them later."""


class SourceRow(NamedTuple):
    """A source with one of its layouts, which has `size` metrics; the digest identifies its content in every database."""

    id: int
    external_id: str | None
    layout_id: int
    digest: bytes
    size: int


class RoleSourceRow(NamedTuple):
    """A source of a plant with one of its layouts, and those of the layout's metrics that have had a value and may have a role.

    `roles` by key are those that the current template of the device with this external id declares, and those of earlier
    templates and versions. `began_at` is the hour of the source's first value, or the first open hour if no closed one has a
    value. `positions` count from 0. `ends` are the times of the last values of metrics whose sub-device was deleted, or whose
    role is that of an earlier template; None for the others. Each list has an entry for each metric.
    """

    plant_id: UUID
    roles: dict[str, str]
    source_id: int
    external_id: str | None
    began_at: datetime
    layout_id: int
    keys: list[str]
    units: list[str]
    counters: list[bool]
    scalings: list[str | None]
    positions: list[int]
    minimums: list[float | None]
    maximums: list[float | None]
    ends: list[datetime | None]


class ReportedRow(NamedTuple):
    """A metric that has had a value.

    Attributes:
        began_at: The first hour with a value, or the first open hour if no closed one has any.
        ended_at: The time of the last value if the present template of the device does not declare the metric; otherwise None.
    """

    key: str
    began_at: datetime
    ended_at: datetime | None


class _PlaceRow(NamedTuple):
    """A metric of one layout of a source, which has had a value.

    `number` is its position, counted from 1. `began_at` is that of `ReportedRow` as far as the roll-ups show it, and `dirty`
    are the earlier hours whose roll-ups do not hold all frames yet.
    """

    key: str
    layout_id: int
    number: int
    began_at: datetime
    dirty: list[datetime]
    ended_at: datetime | None


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
        f"SELECT s.id, s.external_id, l.id AS layout_id, {DIGEST} AS digest, cardinality(t.vals) AS size"
        " FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " WHERE s.plant_id = %s AND s.organization_id = %s"
        " AND (%s::text[] IS NULL OR array_position(%s::text[], s.external_id) IS NOT NULL)"
        " AND (%s::text[] IS NULL OR l.metrics && %s::text[]) ORDER BY s.id DESC, l.id DESC LIMIT %s::bigint",
        (plant_id, org.organization_id, named, named, wanted, wanted, limit),
    )
    return await cursor.fetchall()


async def usual_seconds(db: Connection, org: OrgScope, plant_id: UUID, external_ids: Sequence[str | None]) -> float | None:
    """Return the shortest usual interval of these devices in seconds (None in the list is the plant); None if none is known."""
    return await fetch_value(
        db,
        "SELECT min(every) FROM (SELECT usual_interval_seconds AS every FROM plant WHERE id = %(plant)s"
        " AND organization_id = %(org)s AND array_position(%(ids)s::text[], NULL) IS NOT NULL"
        " UNION ALL SELECT usual_interval_seconds FROM sub_device WHERE plant_id = %(plant)s AND organization_id = %(org)s"
        " AND external_id = ANY(%(ids)s::text[])) AS intervals",
        {"plant": plant_id, "org": org.organization_id, "ids": list(external_ids)},
    )


async def role_sources(db: Connection, plant_ids: Sequence[UUID]) -> list[RoleSourceRow]:
    """Return the sources of plants of any organisation, each with its layouts that have a metric with a role.

    The newest source comes first, and of a source the newest layout.
    """
    # The statement selects the metrics, because a plant decides how many others a layout has: up to 200 with any names.
    cursor = db.cursor(row_factory=class_row(RoleSourceRow), binary=True)
    await cursor.execute(
        "SELECT p.id AS plant_id, r.roles, s.id AS source_id, s.external_id,"
        " coalesce(least((SELECT h.bucket FROM telemetry_hour h WHERE h.source_id = s.id ORDER BY h.bucket LIMIT 1),"
        " (SELECT min(y.hour) FROM telemetry_dirty y WHERE y.source_id = s.id)),"
        " (SELECT sealed_before FROM telemetry_seal)) AS began_at,"
        " l.id AS layout_id, v.*"
        " FROM plant p JOIN telemetry_source s ON s.plant_id = p.id AND s.organization_id = p.organization_id"
        " JOIN telemetry_latest t ON t.source_id = s.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " LEFT JOIN sub_device d ON d.plant_id = p.id AND d.external_id = s.external_id LEFT JOIN device_template m"
        " ON m.id = CASE WHEN s.external_id IS NULL THEN p.template_id ELSE d.template_id END CROSS JOIN LATERAL"
        " (SELECT coalesce(m.roles, '{}') AS present, CASE WHEN s.external_id IS NULL AND m.id IS NULL AND '' = ALL (l.units)"
        # What a plant without a template sends, perhaps with the names that its template had.
        " THEN '{}' ELSE coalesce(m.former_roles, '{}') || coalesce(s.roles, '{}') END AS former OFFSET 0) AS k"
        " CROSS JOIN LATERAL (SELECT CASE WHEN k.former ?| l.metrics THEN k.former || k.present ELSE k.present END AS roles"
        " OFFSET 0) AS r CROSS JOIN LATERAL"
        " (SELECT array_agg(u.key) AS keys, array_agg(u.unit) AS units, array_agg(u.scaling) AS scalings,"
        " array_agg(l.counters[u.number]) AS counters, array_agg(u.number::int - 1) AS positions,"
        " array_agg(l.minimums[u.number]) AS minimums, array_agg(l.maximums[u.number]) AS maximums,"
        " array_agg(CASE WHEN (s.external_id IS NOT NULL AND s.sub_device_id IS NULL)"
        " OR (r.roles ? u.key AND NOT k.present ? u.key) THEN t.time END) AS ends"
        " FROM unnest(l.metrics, l.units, t.vals, l.scalings) WITH ORDINALITY AS u (key, unit, value, scaling, number)"
        " WHERE u.value IS NOT NULL AND CASE WHEN r.roles <> '{}' THEN r.roles ? u.key"
        " ELSE u.key = ANY(%(standard)s::text[]) END) AS v"
        " WHERE p.id = ANY(%(wanted)s::uuid[]) AND CASE WHEN r.roles <> '{}'"
        " THEN r.roles ?| l.metrics ELSE (s.external_id = %(grid)s OR starts_with(s.external_id, %(pv)s))"
        " AND l.metrics && %(standard)s::text[] END AND v.keys IS NOT NULL ORDER BY s.id DESC, l.id DESC",
        {
            "wanted": list(plant_ids),
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
        f"SELECT l.id, {DIGEST}, metrics, units, counters, minimums, maximums, scalings FROM telemetry_layout l"
        " WHERE l.id = ANY(%s::int[])",
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
    scalings: list[str | None] | None,
) -> LayoutIndex:
    return LayoutIndex(
        layout_id,
        tuple(map(Metric, metrics, units, counters, minimums, maximums, scalings or repeat(None))),
        {key: position for position, key in enumerate(metrics)},
    )


async def reporting_since(
    db: Connection, org: OrgScope, source_ids: Sequence[int], metrics: Sequence[str], since: datetime
) -> set[int]:
    """Return those of the sources of which one of the metrics has a value of `since` or later."""
    cursor = await db.execute(
        "SELECT s.id FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id WHERE s.id = ANY(%s) AND s.organization_id = %s AND EXISTS (SELECT"
        " FROM unnest(l.metrics, t.vals, t.times) AS m (key, value, at)"
        " WHERE m.key = ANY(%s) AND m.value IS NOT NULL AND coalesce(m.at, t.time) >= %s)",
        (list(source_ids), org.organization_id, list(metrics), since),
    )
    return {row[0] for row in await cursor.fetchall()}


async def reported(db: Connection, org: OrgScope, source_id: int, metrics: Sequence[str]) -> list[ReportedRow]:
    """Return those of the metrics that have ever had a value in a frame of the source."""
    cursor = db.cursor(row_factory=class_row(_PlaceRow))
    await cursor.execute(
        "SELECT m.key, l.id AS layout_id, m.number::int, r.began_at,"
        " ARRAY(SELECT DISTINCT y.hour FROM telemetry_dirty y WHERE y.source_id = s.id AND y.hour < r.began_at) AS dirty,"
        " CASE WHEN NOT p.signals @> jsonb_build_array(jsonb_build_object('key', m.key)) THEN coalesce(m.at, t.time) END"
        " AS ended_at FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id LEFT JOIN sub_device d ON d.id = s.sub_device_id"
        " LEFT JOIN device_template p ON p.id = d.template_id"
        " CROSS JOIN LATERAL unnest(l.metrics, t.vals, t.times) WITH ORDINALITY AS m (key, value, at, number)"
        " CROSS JOIN LATERAL (SELECT coalesce((SELECT h.bucket FROM telemetry_hour h WHERE h.source_id = s.id"
        " AND h.layout_id = l.id AND h.counts[m.number] > 0 ORDER BY h.bucket LIMIT 1),"
        " (SELECT sealed_before FROM telemetry_seal)) AS began_at OFFSET 0) AS r"
        " WHERE s.id = %s AND s.organization_id = %s AND m.key = ANY(%s) AND m.value IS NOT NULL ORDER BY m.key",
        (source_id, org.organization_id, list(metrics)),
    )
    places = await cursor.fetchall()
    earlier = await _first_dirty(db, source_id, [place for place in places if place.dirty])
    return [
        ReportedRow(
            key,
            min(earlier.get((one.layout_id, one.number), one.began_at) for one in group),
            max((one.ended_at for one in group if one.ended_at is not None), default=None),
        )
        for key, group in ((key, list(rows)) for key, rows in groupby(places, attrgetter("key")))
    ]


async def _first_dirty(db: Connection, source_id: int, places: Sequence[_PlaceRow]) -> dict[tuple[int, int], datetime]:
    """Return the first dirty hour of each place in which a frame has a value, by layout and number."""
    if not places:
        return {}
    hours = [(place.layout_id, place.number, hour) for place in places for hour in place.dirty]
    # Of the tables, only that of frames may be distributed: all other values are parameters.
    cursor = await db.execute(
        "SELECT w.layout_id, w.number, min(w.hour) FROM unnest(%s::int[], %s::int[], %s::timestamptz[])"
        " AS w (layout_id, number, hour) CROSS JOIN LATERAL (SELECT true FROM telemetry_frame WHERE source_id = %s"
        " AND time >= w.hour AND time < w.hour + interval '1 hour' AND layout_id = w.layout_id"
        " AND time >= %s::timestamptz AND time < %s::timestamptz + interval '1 hour'"
        " AND vals[w.number] IS NOT NULL LIMIT 1) AS f GROUP BY w.layout_id, w.number",
        (*map(list, zip(*hours, strict=True)), source_id, min(hour for *_, hour in hours), max(hour for *_, hour in hours)),
        prepare=False,
    )
    return {(layout_id, number): hour for layout_id, number, hour in await cursor.fetchall()}
