"""SQL of the newest values."""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.history.store import DIGEST, SourceRow
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_value

_NEEDED: Final = (
    " CROSS JOIN LATERAL (WITH newest AS MATERIALIZED (SELECT n.layout_id, n.time, k.metrics FROM telemetry_latest n"
    " JOIN telemetry_layout k ON k.id = n.layout_id WHERE n.source_id = s.id AND n.absent = '' AND n.times IS NULL"
    " ORDER BY n.time DESC LIMIT 25) SELECT t.* FROM telemetry_latest t JOIN telemetry_layout l ON l.id = t.layout_id"
    " WHERE t.source_id = s.id AND NOT EXISTS (SELECT FROM newest n WHERE n.layout_id <> t.layout_id AND n.time > t.time"
    " AND l.metrics <@ n.metrics)) AS t"
)
"""Join of the rows `t` of each source `s` with values that none of its 25 newest complete rows replaces.

A template's edits add rows; a template version has at most ten layouts. Not compared with all rows: a device without a template
may have thousands, and their number would count squared. Each source has a sub-query of its own: the planner takes a plant for
one with few devices, and would compare each row with the rows of all devices.
"""
_LATEST: Final = f"s.id, s.external_id, l.id, {DIGEST}, t.time, t.vals, t.times"


class LatestRow(NamedTuple):
    """The newest values of one source in one layout; `times` is None while all values have the time `time`."""

    source: SourceRow
    time: datetime
    values: list[float | None]
    times: list[datetime | None] | None


async def latest_of_plant(db: Connection, org: OrgScope, plant_id: UUID, limit: int | None) -> list[LatestRow] | None:
    """Return the newest values of a plant and its existing sub-devices, up to `limit` rows; None if there is no such plant.

    Without `limit`, rows that newer ones replace are left out: for a plant with few rows, it takes longer to find them.

    The plant's own values come first, then by external id; within a source the newest layout comes first.
    """
    rows_of_source = " JOIN telemetry_latest t ON t.source_id = s.id" if limit is not None else _NEEDED
    cursor = db.cursor(binary=True)
    await cursor.execute(
        f"SELECT {_LATEST} FROM plant p LEFT JOIN (telemetry_source s{rows_of_source}"
        " JOIN telemetry_layout l ON l.id = t.layout_id) ON s.plant_id = p.id AND s.organization_id = p.organization_id"
        " AND (s.external_id IS NULL OR s.sub_device_id IS NOT NULL)"
        " WHERE p.id = %(plant)s AND p.organization_id = %(org)s AND (%(plants)s::uuid[] IS NULL OR p.id = ANY(%(plants)s))"
        ' ORDER BY s.external_id COLLATE "C" NULLS FIRST, l.id DESC LIMIT %(limit)s::bigint',
        {"plant": plant_id, "limit": limit, **org.parameters},
    )
    rows = await cursor.fetchall()
    return [_latest(*row) for row in rows if row[0] is not None] if rows else None


async def count_latest(db: Connection, org: OrgScope, plant_id: UUID) -> int:
    """Return the number of positions in the rows that `latest_of_plant` returns without a limit."""
    return await fetch_count(
        db,
        f"SELECT coalesce(sum(cardinality(t.vals)), 0) FROM telemetry_source s{_NEEDED}"
        " WHERE s.plant_id = %(plant)s AND s.organization_id = %(org)s"
        " AND (s.external_id IS NULL OR s.sub_device_id IS NOT NULL)",
        {"plant": plant_id, "org": org.organization_id},
    )


async def latest_of_device(db: Connection, org: OrgScope, sub_device_id: UUID) -> list[LatestRow]:
    """Return the newest values of one sub-device; the newest layout comes first."""
    cursor = db.cursor(binary=True)
    await cursor.execute(
        f"SELECT {_LATEST} FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id"
        " WHERE s.sub_device_id = %s AND s.organization_id = %s ORDER BY l.id DESC",
        (sub_device_id, org.organization_id),
    )
    return [_latest(*row) for row in await cursor.fetchall()]


def _latest(
    source_id: int,
    external_id: str | None,
    layout_id: int,
    digest: bytes,
    time: datetime,
    values: list[float | None],
    times: list[datetime | None] | None,
) -> LatestRow:
    return LatestRow(SourceRow(source_id, external_id, layout_id, digest, len(values)), time, values, times)


async def is_clock_behind(db: Connection, now: datetime | None) -> bool:
    """Return whether more of the newest values are over an hour ahead of `now` than are from the day before that limit.

    None means the time of the database.
    """
    found: bool | None = await fetch_value(
        db,
        "SELECT count(*) FILTER (WHERE t.time > c.latest) > count(*) FILTER (WHERE t.time <= c.latest)"
        " FROM (SELECT coalesce(%s::timestamptz, now()) + interval '1 hour' AS latest) AS c"
        " JOIN telemetry_latest t ON t.time > c.latest - interval '1 day'",
        (now,),
    )
    return found is True
