"""SQL of retention: the times from which sources have data, deletion, and partitions."""

from collections.abc import Sequence
from datetime import date, datetime
from uuid import UUID

from gridfleet.domains.telemetry.rollups.models import Days, Kept
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_value
from gridfleet.kernel.db.shards import by_shard


async def limits(db: Connection, deployment: Days) -> list[tuple[UUID, Days]]:
    """Return the retention of each organisation that has telemetry: its own, or that of `deployment` where it has set none."""
    cursor = await db.execute(
        "SELECT s.organization_id, coalesce(r.raw_days, %s), coalesce(r.minute_days, %s), coalesce(r.quarter_days, %s)"
        " FROM (SELECT DISTINCT organization_id FROM telemetry_source) AS s"
        " LEFT JOIN telemetry_retention r USING (organization_id)",
        (deployment.raw, deployment.minute, deployment.quarter),
    )
    return [(row[0], Days(*row[1:])) for row in await cursor.fetchall()]


async def rolled_up_before(db: Connection, organization_id: UUID) -> datetime:
    """Return the time before which all frames of an organisation are in the roll-ups, except hours that are set aside."""
    cursor = await db.execute(
        "SELECT least(sealed_before, (SELECT min(d.hour) FROM telemetry_dirty d JOIN telemetry_source s ON s.id = d.source_id"
        " WHERE s.organization_id = %s AND d.hour >= s.raw_from AND NOT EXISTS (SELECT FROM telemetry_set_aside a"
        " WHERE a.source_id = d.source_id AND a.hour = d.hour))) FROM telemetry_seal",
        (organization_id,),
    )
    [row] = await cursor.fetchall()
    before: datetime = row[0]
    return before


async def move_start(db: Connection, kept: Kept, organization_id: UUID, start: datetime) -> None:
    """Record that the organisation's sources have no data before `start`; the start never moves back."""
    await db.execute(
        f"UPDATE telemetry_source SET {kept.column} = %(start)s"
        f" WHERE organization_id = %(organization)s AND {kept.column} < %(start)s",
        {"organization": organization_id, "start": start},
    )


async def move_start_of_frames(db: Connection, organization_id: UUID, start: datetime, held_from: datetime) -> None:
    """Record that the organisation's sources have no frames before `start`; the start never moves back.

    A source keeps its frames from the day of its first hour from `held_from` on that is set aside.
    """
    await db.execute(
        "UPDATE telemetry_source s SET raw_from = kept.start FROM (SELECT id, least(%(start)s, (SELECT"
        " date_bin('1 day', min(a.hour), 'epoch') FROM telemetry_set_aside a WHERE a.source_id = t.id"
        " AND a.hour >= %(held_from)s)) AS start FROM telemetry_source t WHERE organization_id = %(organization)s) AS kept"
        " WHERE s.id = kept.id AND s.raw_from < kept.start",
        {"organization": organization_id, "start": start, "held_from": held_from},
    )


async def give_up_hours(db: Connection) -> list[tuple[int, datetime]]:
    """Remove the hours that are set aside without frames, also from the dirty log. Returns them as (source id, hour).

    Their roll-ups stay as they are.
    """
    cursor = await db.execute(
        "WITH lost AS (DELETE FROM telemetry_set_aside a USING telemetry_source s WHERE s.id = a.source_id"
        " AND a.hour < s.raw_from RETURNING a.source_id, a.hour),"
        " cleared AS (DELETE FROM telemetry_dirty d USING lost l WHERE d.source_id = l.source_id AND d.hour = l.hour)"
        " SELECT source_id, hour FROM lost ORDER BY 1, 2"
    )
    return await cursor.fetchall()


async def correct_starts(db: Connection, kept: Kept, now: datetime) -> None:
    """Replace every start in the future, which retention has written by a clock that was ahead, by the present hour.

    What is older was deleted then. Data before a start is neither read nor rolled up.
    """
    await db.execute(
        f"UPDATE telemetry_source SET {kept.column} = date_bin('1 hour', %(now)s::timestamptz, 'epoch')"
        f" WHERE {kept.column} > %(now)s",
        {"now": now},
    )


async def earliest_start(db: Connection, kept: Kept) -> datetime | None:
    """Return the earliest start of the data of any source; None without sources."""
    return await fetch_value(db, f"SELECT min({kept.column}) FROM telemetry_source")


async def sources_that_start_later(db: Connection, kept: Kept, start: datetime) -> list[tuple[int, datetime]]:
    """Return the sources whose data starts after `start`, with their starts."""
    cursor = await db.execute(f"SELECT id, {kept.column} FROM telemetry_source WHERE {kept.column} > %s", (start,))
    return await cursor.fetchall()


async def oldest_before(db: Connection, kept: Kept, sources: Sequence[int], start: datetime) -> datetime | None:
    """Return the time of the oldest data of these sources before `start`; None if there is none."""
    # Source by source; otherwise the planner reads the whole table for the minimum.
    found = [
        await fetch_value(
            db,
            f"SELECT min(o.first) FROM unnest(%s::int[]) AS s (id) CROSS JOIN LATERAL (SELECT {kept.time} AS first"
            f" FROM {kept.table} WHERE source_id = s.id AND {kept.time} < %s{part.condition}"
            f" ORDER BY {kept.time} LIMIT 1) AS o",
            (part.items, start),
            prepare=False,
        )
        for part in by_shard(db, sources, int)
    ]
    return min((time for time in found if time is not None), default=None)


async def nth_time(
    db: Connection, kept: Kept, sources: Sequence[int], start: datetime, end: datetime, n: int
) -> datetime | None:
    """Return the earliest time up to which one of the sources has `n` rows from `start` to before `end`; None if none has."""
    found = [
        await fetch_value(
            db,
            f"SELECT min(o.nth) FROM unnest(%s::int[]) AS s (id) CROSS JOIN LATERAL (SELECT {kept.time} AS nth"
            f" FROM {kept.table} WHERE source_id = s.id AND {kept.time} >= %s AND {kept.time} < %s{part.condition}"
            f" ORDER BY {kept.time} OFFSET %s LIMIT 1) AS o",
            (part.items, start, end, n - 1),
            prepare=False,
        )
        for part in by_shard(db, sources, int)
    ]
    return min((time for time in found if time is not None), default=None)


async def delete_between(db: Connection, kept: Kept, sources: Sequence[int], start: datetime, end: datetime) -> None:
    """Delete the data of these sources from `start` to before `end`."""
    await db.execute(
        f"DELETE FROM {kept.table} WHERE source_id = ANY(%s) AND {kept.time} >= %s AND {kept.time} < %s",
        (list(sources), start, end),
        prepare=False,
    )


async def partitions(db: Connection, kept: Kept) -> list[tuple[str, date]]:
    """Return names and first days of the partitions, oldest first."""
    cursor = await db.execute(
        "SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = %s::regclass AND c.relname ~ '_\\d{8}$' ORDER BY 2",
        (kept.table,),
    )
    return await cursor.fetchall()


async def drop_partition(db: Connection, name: str) -> None:
    """Drop a partition."""
    await db.execute("SELECT drop_telemetry_partition(%s)", (name,))


async def drop_chunks(db: Connection, kept: Kept, until: datetime) -> int:
    """Drop what ends at `until` or before if TimescaleDB partitions the table. Returns the number of dropped chunks."""
    return await fetch_count(db, "SELECT drop_telemetry_chunks(%s, %s)", (kept.table, until))


async def set_limits(db: Connection, slug: str, raw: int | None, minute: int | None, quarter: int | None) -> bool:
    """Set an organisation's retention in days; None uses the deployment's. Returns whether the organisation exists."""
    cursor = await db.execute(
        "INSERT INTO telemetry_retention (organization_id, raw_days, minute_days, quarter_days)"
        " SELECT id, %s::int, %s::int, %s::int FROM organization WHERE slug = %s ON CONFLICT (organization_id) DO UPDATE"
        " SET raw_days = excluded.raw_days, minute_days = excluded.minute_days, quarter_days = excluded.quarter_days",
        (raw, minute, quarter, slug),
    )
    return cursor.rowcount == 1
