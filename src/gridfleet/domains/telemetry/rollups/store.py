"""SQL of roll-ups: recomputation, the watermark, and partitions."""

from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta
from functools import cache
from operator import attrgetter
from typing import Final
from uuid import UUID

from psycopg.errors import DuplicateTable, LockNotAvailable
from psycopg.rows import class_row

from gridfleet.domains.telemetry.rollups.models import LayoutHour, Level, SetAsideHour, Stale
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_value
from gridfleet.kernel.db.shards import by_shard

_COLUMNS: Final = ("counts", "sums", "lows", "highs", "firsts", "lasts")
DECOMPRESSED: Final = ", ".join(f"{column} || '{{}}' AS {column}" for column in _COLUMNS)
"""The arrays of a stored bucket, each decompressed once. PostgreSQL would decompress it again for each element that is read."""
_WATERMARK_LOCK: Final = "hashtextextended('telemetry seal', 0)"
_JOB_LOCK: Final = "hashtextextended('telemetry rollups', 0)"
_SLOT_LOCK: Final = "hashtext('telemetry rollups')"
_SLOT: Final = "((id::bigint * 2654435761 & 4294967295) >> 26)::int"
"""The slot of the source `id`: one of 64 parts of all sources. Each is recomputed by one transaction at a time.

The ids are multiplied by the golden ratio, because a plant's sources have consecutive ids: with two each, all devices would
have even ids.
"""
_LOCK_TIMEOUT: Final = "2s"
"""Maximum time to wait for the lock. It is shorter than any limit of a statement's time."""


def scaled_sum(value: str) -> str:
    """Return the SQL aggregate that sums `value`, times 2^-32.

    A sum of finite values could overflow without the factor, which changes no digit. PostgreSQL rejects a product that rounds
    to zero, so values for which it would are counted as zero.
    """
    return f"sum(CASE WHEN abs({value}) < 1e-313::float8 THEN 0 ELSE {value} * 2.3283064365386963e-10::float8 END)"


def slot(source_id: int) -> int:
    """Return the slot of a source, as `_SLOT` does. The transaction that recomputes a source holds the lock of its slot."""
    return (source_id * 2_654_435_761 & 0xFFFF_FFFF) >> 26


async def lock(db: Connection, *, is_shared: bool = False) -> bool:
    """Take the lock for dropping roll-ups until the transaction ends. Returns False if another holds it.

    Deletions of sources take it for moments, again and again over minutes, so this function waits for up to two seconds.

    Args:
        db: The connection.
        is_shared: Other transactions may hold it in the same way: those that recompute sources of other slots.
    """
    shared = "_shared" if is_shared else ""
    cursor = await db.execute(f"SELECT pg_try_advisory_xact_lock{shared}({_JOB_LOCK})")
    row = await cursor.fetchone()
    if row is not None and row[0]:
        return True
    try:
        async with db.transaction():
            cursor = await db.execute("SELECT current_setting('lock_timeout')")
            [before] = await cursor.fetchall()
            await db.execute("SELECT set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
            await db.execute(f"SELECT pg_advisory_xact_lock{shared}({_JOB_LOCK})")
            await db.execute("SELECT set_config('lock_timeout', %s, true)", before)
    except LockNotAvailable:
        return False
    return True


async def is_hour_over(db: Connection, grace: timedelta) -> bool:
    """Return whether the first open hour ended at least `grace` ago."""
    cursor = await db.execute(
        "SELECT FROM telemetry_seal WHERE sealed_before + interval '1 hour' <= now() - %s::interval", (grace,)
    )
    return await cursor.fetchone() is not None


async def wait_for_writers(db: Connection) -> None:
    """Wait until every transaction that relies on the watermark has ended. Those that begin later wait for this one."""
    await db.execute(f"SELECT pg_advisory_xact_lock({_WATERMARK_LOCK})")


async def is_watermark_ahead(db: Connection) -> bool:
    """Return whether the watermark is in the future. A clock that was ahead has closed those hours."""
    return await fetch_value(db, "SELECT sealed_before > now() FROM telemetry_seal") is True


async def open_hours_ahead(db: Connection) -> None:
    """Open the hours from the current one on again."""
    await db.execute("UPDATE telemetry_seal SET sealed_before = date_trunc('hour', now()) WHERE sealed_before > now()")


async def advance_watermark(db: Connection) -> None:
    """Close one more hour. Its sources become dirty.

    A source with a frame in the hour has a newest value at least as late, so none is missed.
    """
    await db.execute(
        "WITH closed AS (UPDATE telemetry_seal SET sealed_before = sealed_before + interval '1 hour'"
        " RETURNING sealed_before - interval '1 hour' AS hour)"
        " INSERT INTO telemetry_dirty (source_id, hour) SELECT DISTINCT l.source_id, s.hour"
        " FROM closed s JOIN telemetry_latest l ON l.time >= s.hour"
    )


async def dirty_sources(db: Connection) -> dict[int, UUID | None]:
    """Return the sources with dirty hours: one of each organisation, then the second of each, etc., in random order.

    The value of a source is its organisation, None if the source was deleted.
    """
    cursor = await db.execute(
        # One look-up in the index for each source, however many of its hours are dirty.
        "WITH RECURSIVE dirty AS (SELECT min(source_id) AS id FROM telemetry_dirty UNION ALL"
        " SELECT (SELECT min(source_id) FROM telemetry_dirty WHERE source_id > d.id) FROM dirty d WHERE d.id IS NOT NULL)"
        " SELECT d.id, s.organization_id FROM dirty d LEFT JOIN telemetry_source s USING (id) WHERE d.id IS NOT NULL"
        " ORDER BY row_number() OVER (PARTITION BY s.organization_id ORDER BY random()), s.organization_id"
    )
    return dict(await cursor.fetchall())


async def take_dirty(db: Connection, sources: Sequence[int], most: int, limit: int) -> list[Stale]:
    """Remove up to `limit` dirty hours from the log, at most `most` of each source, and return them by source and hour.

    Hours that are set aside are left out until they are due again, as are sources that another transaction is recomputing:
    the roll-ups of a day are computed from those of its hours, which would not be visible here.
    """
    cursor = await db.execute(
        f"WITH held AS MATERIALIZED (SELECT slot FROM (SELECT DISTINCT {_SLOT} AS slot FROM unnest(%s::int[]) AS s (id))"
        f" AS slots WHERE pg_try_advisory_xact_lock({_SLOT_LOCK}, slot)),"
        " chosen AS (SELECT d.* FROM unnest(%s::int[]) WITH ORDINALITY AS s (id, turn)"
        f" JOIN held ON slot = {_SLOT} CROSS JOIN LATERAL"
        " (SELECT DISTINCT source_id, hour, s.turn FROM telemetry_dirty d WHERE source_id = s.id"
        " AND NOT EXISTS (SELECT FROM telemetry_set_aside a"
        " WHERE a.source_id = d.source_id AND a.hour = d.hour AND a.retry_at > now()) ORDER BY source_id, hour LIMIT %s) AS d"
        " ORDER BY turn, hour LIMIT %s),"
        " gone AS (DELETE FROM telemetry_dirty d USING chosen c WHERE d.source_id = c.source_id AND d.hour = c.hour),"
        " retried AS (DELETE FROM telemetry_set_aside a USING chosen c WHERE a.source_id = c.source_id AND a.hour = c.hour)"
        " SELECT source_id, hour FROM chosen ORDER BY turn, hour",
        (list(sources), list(sources), most, limit),
    )
    return [Stale(*row) for row in await cursor.fetchall()]


async def hold_slot(db: Connection, source_id: int) -> bool:
    """Take the lock of a source's slot until the transaction ends. Returns False if another transaction holds it."""
    query = f"SELECT pg_try_advisory_xact_lock({_SLOT_LOCK}, %s)"
    return bool(await fetch_value(db, query, (slot(source_id),)))


async def set_aside(db: Connection, stale: Stale, error: str) -> None:
    """Leave a dirty hour out of roll-ups: half an hour the first time, then twice as long each time, at most a day."""
    await db.execute(
        "INSERT INTO telemetry_set_aside AS a (source_id, hour, error, retry_at)"
        " SELECT source_id, hour, %s, now() + interval '30 minutes' FROM telemetry_dirty"
        " WHERE source_id = %s AND hour = %s LIMIT 1"
        " ON CONFLICT (source_id, hour) DO UPDATE SET error = excluded.error, attempts = a.attempts + 1,"
        " retry_at = now() + least(interval '1 day', interval '30 minutes' * 2 ^ least(a.attempts, 10))",
        (error, stale.source_id, stale.hour),
    )


async def set_aside_hours(db: Connection, limit: int) -> list[SetAsideHour]:
    """Return the hours that are set aside, the earliest failure first."""
    cursor = db.cursor(row_factory=class_row(SetAsideHour))
    await cursor.execute(
        "SELECT s.plant_id, s.external_id, a.hour, a.error, a.attempts FROM telemetry_set_aside a"
        " JOIN telemetry_source s ON s.id = a.source_id ORDER BY a.failed_at, a.source_id, a.hour LIMIT %s",
        (limit,),
    )
    return await cursor.fetchall()


async def layouts_to_recompute(db: Connection, stale: Sequence[Stale]) -> list[LayoutHour]:
    """Return the layouts that have frames in these hours, ordered by number of metrics, unless the frames are to be deleted.

    The sources stay until the transaction ends, so that no roll-up is written while its source is being deleted.
    """
    cursor = db.cursor(row_factory=class_row(LayoutHour))
    await cursor.execute(
        "SELECT w.source_id, w.layout_id, w.hour, cardinality(l.metrics) AS metrics,"
        " w.hour + interval '1 hour' > s.minutes_from AS keeps_minutes,"
        " w.hour + interval '1 hour' > s.quarters_from AS keeps_quarters"
        " FROM unnest(%s::int[], %s::int[], %s::timestamptz[]) AS w (source_id, layout_id, hour)"
        " JOIN telemetry_source s ON s.id = w.source_id AND w.hour >= s.raw_from"
        " JOIN telemetry_layout l ON l.id = w.layout_id ORDER BY 4, 1, 3, 2 FOR KEY SHARE OF s",
        [list(column) for column in zip(*await _layouts(db, stale), strict=True)] or [[], [], []],
    )
    return await cursor.fetchall()


async def _layouts(db: Connection, stale: Sequence[Stale]) -> list[tuple[int, int, datetime]]:
    """Return source, layout and hour of the frames in these hours: a source may have thousands of other layouts."""
    found: list[tuple[int, int, datetime]] = []
    for part in by_shard(db, stale, attrgetter("source_id")):
        hours = [one.hour for one in part.items]
        cursor = await db.execute(
            "SELECT DISTINCT f.source_id, f.layout_id, w.hour FROM unnest(%s::int[], %s::timestamptz[]) AS w (id, hour)"
            " CROSS JOIN LATERAL (SELECT source_id, layout_id FROM telemetry_frame WHERE source_id = w.id AND time >= w.hour"
            " AND time < w.hour + interval '1 hour' AND time >= %s::timestamptz AND time < %s::timestamptz"
            f"{part.condition} OFFSET 0) AS f",
            ([one.source_id for one in part.items], hours, min(hours), max(hours) + timedelta(hours=1)),
        )
        found += await cursor.fetchall()
    return found


async def recompute_hours(db: Connection, due: Sequence[LayoutHour], metrics: int) -> None:
    """Write minutes, quarters and hours from frames. Each of the layouts has `metrics` metrics."""
    await db.execute(_recompute_hours(metrics), hours_parameters(due))


def hours_parameters(due: Sequence[LayoutHour]) -> dict[str, object]:
    """Return the parameters of statements that compute roll-ups of these hours."""
    hours = [one.hour for one in due]
    return {
        "sources": [one.source_id for one in due],
        "layouts": [one.layout_id for one in due],
        "hours": hours,
        "start": min(hours),
        "end": max(hours) + timedelta(hours=1),
    }


async def note_energy(db: Connection, stale: Sequence[Stale]) -> None:
    """Log that the energy of these sources' plants in these hours is to be computed again."""
    await db.execute(
        "INSERT INTO energy_dirty (plant_id, hour) SELECT DISTINCT s.plant_id, w.hour"
        " FROM unnest(%s::int[], %s::timestamptz[]) AS w (id, hour) JOIN telemetry_source s ON s.id = w.id",
        ([one.source_id for one in stale], [one.hour for one in stale]),
    )


async def recompute_days(db: Connection, due: Sequence[tuple[int, int, datetime]], metrics: int) -> None:
    """Write days of (source, layout, day) from their hours."""
    await db.execute(
        _recompute_days(metrics),
        {
            "sources": [source for source, _, _ in due],
            "layouts": [layout for _, layout, _ in due],
            "days": [day for _, _, day in due],
        },
    )


def _array(expression: str, count: int) -> str:
    return "ARRAY[" + ", ".join(expression.format(position=position) for position in range(1, count + 1)) + "]"


def _merged(count: int, order: str) -> str:
    """Return the six arrays of a bucket, merged from those of the narrower buckets in it."""
    first = f"array_agg(firsts[{{position}}] ORDER BY {order}) FILTER (WHERE firsts[{{position}}] IS NOT NULL)"
    last = f"array_agg(lasts[{{position}}] ORDER BY {order} DESC) FILTER (WHERE lasts[{{position}}] IS NOT NULL)"
    return ", ".join(
        (
            _array("sum(counts[{position}])::int", count) + " AS counts",
            _array("sum(sums[{position}])", count) + " AS sums",
            _array("min(lows[{position}])", count) + " AS lows",
            _array("max(highs[{position}])", count) + " AS highs",
            _array(f"({first})[1]", count) + " AS firsts",
            _array(f"({last})[1]", count) + " AS lasts",
        )
    )


def upsert(table: str, rows: str) -> str:
    """Return the statement that writes buckets, which replace those that exist."""
    columns = ", ".join(_COLUMNS)
    changed = ", ".join(f"{column} = excluded.{column}" for column in _COLUMNS)
    return (
        f"INSERT INTO {table} (source_id, layout_id, bucket, {columns})"
        f" SELECT source_id, layout_id, bucket, {columns} FROM {rows}"
        f" ON CONFLICT (source_id, bucket, layout_id) DO UPDATE SET {changed}"
    )


def wider(count: int, width: str, rows: str) -> str:
    """Return the query of the buckets of `width` that narrower ones form."""
    bucket = f"date_bin('{width}', bucket, 'epoch')"
    return f"SELECT source_id, layout_id, {bucket} AS bucket, {_merged(count, 'bucket')} FROM {rows} GROUP BY 1, 2, {bucket}"


def minutes_of_frames(count: int, condition: str = "") -> str:
    """Return the query of the minutes: one pass over the frames. Its parameters are those of `hours_parameters`.

    Named columns instead of unnested rows take an eighth of the time. `condition` restricts the frames. The layouts of an hour
    are read together, by `+ 0`: with the index, each would read the entries of all of them.
    """
    values = ", ".join(f"vals[{position}] AS v{position}" for position in range(1, count + 1))
    ordered = "array_agg(v{position} ORDER BY time) FILTER (WHERE v{position} IS NOT NULL)"
    aggregates = ", ".join(
        (
            _array("count(v{position})::int", count) + " AS counts",
            _array(scaled_sum("v{position}"), count) + " AS sums",
            _array("min(v{position})", count) + " AS lows",
            _array("max(v{position})", count) + " AS highs",
            _array(f"({ordered})[1]", count) + " AS firsts",
            _array(f"({ordered})[count(v{{position}})]", count) + " AS lasts",
        )
    )
    return (
        f"SELECT source_id, layout_id, bucket, {aggregates} FROM (SELECT f.* FROM"
        " (SELECT source_id, hour, array_agg(layout_id) AS layouts"
        " FROM unnest(%(sources)s::int[], %(layouts)s::int[], %(hours)s::timestamptz[]) AS u (source_id, layout_id, hour)"
        " GROUP BY 1, 2) AS w CROSS JOIN LATERAL (SELECT source_id, layout_id, time,"
        f" date_bin('1 minute', time, 'epoch') AS bucket, {values} FROM telemetry_frame"
        " WHERE source_id = w.source_id AND time >= w.hour AND time < w.hour + interval '1 hour'"
        " AND layout_id + 0 = ANY(w.layouts)"
        f" AND time >= %(start)s::timestamptz AND time < %(end)s::timestamptz{condition} OFFSET 0) AS f) AS frames"
        " GROUP BY 1, 2, 3"
    )


@cache
def _recompute_hours(count: int) -> str:
    return (
        f"WITH minutes AS MATERIALIZED ({minutes_of_frames(count)}),"
        f" quarters AS MATERIALIZED ({wider(count, '15 minutes', 'minutes')}),"
        f" hours AS ({wider(count, '1 hour', 'quarters')}),"
        " kept_minutes AS (SELECT m.* FROM minutes m JOIN telemetry_source s ON s.id = m.source_id"
        " AND m.bucket >= s.minutes_from),"
        " kept_quarters AS (SELECT q.* FROM quarters q JOIN telemetry_source s ON s.id = q.source_id"
        " AND q.bucket >= s.quarters_from),"
        f" written_minutes AS ({upsert('telemetry_minute', 'kept_minutes')}),"
        f" written_quarters AS ({upsert('telemetry_quarter', 'kept_quarters')})"
        f" {upsert('telemetry_hour', 'hours')}"
    )


@cache
def _recompute_days(count: int) -> str:
    return (
        f"WITH hours AS (SELECT source_id, layout_id, bucket, {DECOMPRESSED}"
        " FROM unnest(%(sources)s::int[], %(layouts)s::int[], %(days)s::timestamptz[]) AS w (source, layout, day)"
        " JOIN telemetry_hour ON source_id = source AND layout_id = layout"
        " AND bucket >= day AND bucket < day + interval '1 day' OFFSET 0),"
        f" days AS ({wider(count, '1 day', 'hours')})"
        f" {upsert('telemetry_day', 'days')}"
    )


async def missing_partitions(db: Connection, level: Level, firsts: Collection[date]) -> list[date]:
    """Return those of the days `firsts` on which a partition of the level should begin and none does, in order.

    None is missing where an extension partitions the table.
    """
    cursor = await db.execute(
        "SELECT first FROM unnest(%s::date[]) AS s (first) WHERE to_regclass(%s || to_char(first, '_YYYYMMDD')) IS NULL"
        " AND (SELECT relkind = 'p' FROM pg_class WHERE oid = %s::regclass) ORDER BY first",
        (list(firsts), level.table, level.table),
    )
    return [row[0] for row in await cursor.fetchall()]


async def create_partition(db: Connection, level: Level, start: date) -> None:
    """Create the level's partition that begins with `start`, unless it exists."""
    try:
        async with db.transaction():
            await db.execute("SELECT create_telemetry_partition(%s, %s)", (level.table, start))
    except DuplicateTable:
        # Another transaction has created it meanwhile, and the function used what this session had cached.
        return


async def hold_still(db: Connection) -> None:
    """Wait for a running roll-up, and prevent others until the transaction ends."""
    await db.execute(f"SELECT pg_advisory_xact_lock({_JOB_LOCK})")


async def nth_bucket(db: Connection, source_id: int, level: Level, n: int) -> datetime | None:
    """Return the start of the `n`-th bucket of a source at a level; None if there are fewer."""
    query = f"SELECT bucket FROM {level.table} WHERE source_id = %s ORDER BY bucket OFFSET %s LIMIT 1"
    return await fetch_value(db, query, (source_id, n - 1), prepare=False)


async def erase(db: Connection, source_id: int, level: Level, last: datetime | None = None) -> None:
    """Delete the buckets of a source at a level up to the one that starts at `last`; None deletes all."""
    query = f"DELETE FROM {level.table} WHERE source_id = %s AND bucket <= coalesce(%s::timestamptz, 'infinity')"
    await db.execute(query, (source_id, last), prepare=False)


async def delete_dirty(db: Connection, source_id: int) -> None:
    """Remove a source from the dirty log and from the hours that are set aside."""
    await db.execute("DELETE FROM telemetry_dirty WHERE source_id = %s", (source_id,))
    await db.execute("DELETE FROM telemetry_set_aside WHERE source_id = %s", (source_id,))
