"""SQL that writes telemetry. The service itself writes it: ingest checks organisations before it creates a frame."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.domains.telemetry.frames.models import (
    FrameBatch,
    FrameLayout,
    LayoutColumns,
    Source,
    SourceLayout,
    SourceOwner,
    pack_latest_row,
    pack_row,
)
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_value

_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_ROWS_PER_CHUNK = 2_000
_OWN_NAMES: Final = (
    "'' = ALL (l.units) AND NOT true = ANY (l.counters) AND num_nonnulls(VARIADIC l.minimums || l.maximums) = 0"
    " AND NOT EXISTS (SELECT FROM unnest(l.metrics, l.scalings) AS u (key, scaling) WHERE u.scaling <> u.key || ' 1.0 0.0')"
)
"""Whether values in a layout `l` are stored as a device without a template sends them."""

_EARLIEST: Final = "(SELECT min(s.{0}) FROM telemetry_source s WHERE s.organization_id = o.id AND s.{0} > 'epoch')"
_STARTS: Final = (
    f" starts AS (SELECT id, {_EARLIEST.format('minutes_from')} AS minutes,"
    f" {_EARLIEST.format('quarters_from')} AS quarters FROM (SELECT DISTINCT organization_id AS id FROM held) o)"
)
"""From when retention keeps minutes and quarters of an organisation. The sources of a plant that moved in may start later, if
its former organisation kept less. It is read only if a source is created."""
_START: Final = ", ".join(
    f"coalesce((SELECT {one} FROM starts WHERE id = p.organization_id), 'epoch')" for one in ("minutes", "quarters")
)

_WITHOUT_SOURCE: Final = (
    "WHERE NOT EXISTS (SELECT FROM telemetry_source s WHERE s.sub_device_id = d.id) ORDER BY d.id FOR KEY SHARE OF d"
)
"""Selects and holds the sub-devices `d` that have no source. One that is being deleted is waited for and then left out.
Otherwise its foreign key would fail the batch, and all plants would have to be read again."""


async def ensure_sources(db: Connection, plant_ids: Sequence[UUID]) -> None:
    """Create missing sources of plants and their sub-devices.

    The plants are locked before their organisations are read, so that a source of a plant that moves gets the new organisation.
    A new source has no minutes and quarters from before those of its organisation's sources: they would be dropped within the
    hour, and while a partition is dropped all readers wait.
    """
    await db.execute(
        "WITH held AS (SELECT id, organization_id FROM plant WHERE id = ANY(%(ids)s) ORDER BY id FOR KEY SHARE),"
        f"{_STARTS}, new AS (SELECT d.id, d.plant_id, d.external_id, p.organization_id"
        f" FROM held p JOIN sub_device d ON d.plant_id = p.id {_WITHOUT_SOURCE})"
        " INSERT INTO telemetry_source (organization_id, plant_id, sub_device_id, external_id, minutes_from, quarters_from)"
        f" SELECT p.organization_id, p.id, NULL, NULL, {_START} FROM held p"
        " WHERE NOT EXISTS (SELECT FROM telemetry_source s WHERE s.plant_id = p.id AND s.external_id IS NULL)"
        f" UNION ALL SELECT p.organization_id, p.plant_id, p.id, p.external_id, {_START} FROM new p"
        " ON CONFLICT DO NOTHING",
        {"ids": list(plant_ids)},
    )


async def ensure_device_sources(db: Connection, names: Sequence[tuple[UUID, str]]) -> None:
    """Create missing sources of the sub-devices that exist with these plants and external ids, as `ensure_sources` does."""
    await db.execute(
        "WITH held AS (SELECT id, organization_id FROM plant WHERE id = ANY(%(plants)s) ORDER BY id FOR KEY SHARE),"
        f"{_STARTS}, new AS (SELECT d.id, d.plant_id, d.external_id, p.organization_id"
        " FROM unnest(%(plants)s::uuid[], %(names)s::text[]) AS n (plant_id, external_id)"
        f" JOIN sub_device d USING (plant_id, external_id) JOIN held p ON p.id = d.plant_id {_WITHOUT_SOURCE})"
        " INSERT INTO telemetry_source (organization_id, plant_id, sub_device_id, external_id, minutes_from, quarters_from)"
        f" SELECT p.organization_id, p.plant_id, p.id, p.external_id, {_START} FROM new p ON CONFLICT DO NOTHING",
        {"plants": [plant_id for plant_id, _ in names], "names": [name for _, name in names]},
    )


async def device_sources(db: Connection, names: Sequence[tuple[UUID, str]]) -> dict[UUID, list[Source]]:
    """Return the sources of the sub-devices that exist with these plants and external ids, by plant."""
    cursor = await db.execute(
        "SELECT s.plant_id, s.id, s.external_id FROM unnest(%s::uuid[], %s::text[]) AS n (plant_id, external_id)"
        " JOIN sub_device d USING (plant_id, external_id) JOIN telemetry_source s ON s.sub_device_id = d.id",
        ([plant_id for plant_id, _ in names], [name for _, name in names]),
    )
    return _by_plant(await cursor.fetchall())


async def sources(db: Connection, plant_ids: Sequence[UUID]) -> dict[UUID, list[Source]]:
    """Return the sources of the plants and of their existing sub-devices."""
    cursor = await db.execute(
        "SELECT plant_id, id, external_id FROM telemetry_source"
        " WHERE plant_id = ANY(%s) AND (external_id IS NULL OR sub_device_id IS NOT NULL)",
        (list(plant_ids),),
    )
    return _by_plant(await cursor.fetchall())


def _by_plant(rows: Iterable[tuple[UUID, int, str | None]]) -> dict[UUID, list[Source]]:
    found: dict[UUID, list[Source]] = {}
    for plant_id, source_id, external_id in rows:
        found.setdefault(plant_id, []).append(Source(source_id, external_id))
    return found


async def complete_own_scalings(db: Connection, source_ids: Sequence[int]) -> None:
    """Store the scalings of the names in the layouts that `used_layouts` returns. Earlier releases did not."""
    await db.execute(
        "UPDATE telemetry_layout SET scalings = ARRAY(SELECT u.key || ' 1.0 0.0' FROM unnest(metrics) WITH ORDINALITY"
        " AS u (key, number) ORDER BY u.number) WHERE id IN (SELECT l.id FROM telemetry_latest t"
        " JOIN telemetry_layout l ON l.id = t.layout_id WHERE t.source_id = ANY(%s)"
        f" AND (l.scalings IS NULL OR array_position(l.scalings, NULL) IS NOT NULL) AND {_OWN_NAMES}"
        " ORDER BY l.id FOR NO KEY UPDATE OF l)",
        (list(source_ids),),
    )


async def used_layouts(db: Connection, source_ids: Sequence[int]) -> dict[int, list[SourceLayout]]:
    """Return every layout without units, limits and scales that each source has used, oldest first."""
    cursor = await db.execute(
        "SELECT t.source_id, l.id, l.metrics,"
        " ARRAY(SELECT greatest(t.made_at, CASE WHEN value IS NOT NULL THEN coalesce(at, t.time) END)"
        " FROM unnest(t.vals, t.times) WITH ORDINALITY AS u (value, at, position) ORDER BY position) AS seen"
        " FROM telemetry_latest t JOIN telemetry_layout l ON l.id = t.layout_id WHERE t.source_id = ANY(%s)"
        f" AND {_OWN_NAMES} ORDER BY l.id",
        (list(source_ids),),
    )
    found: dict[int, list[SourceLayout]] = {source_id: [] for source_id in source_ids}
    for source_id, *layout in await cursor.fetchall():
        found[source_id].append(SourceLayout(*layout))
    return found


async def count_used_names(db: Connection, source_ids: Sequence[int]) -> dict[int, int]:
    """Return the number of names in the layouts that `used_layouts` returns, by source."""
    cursor = await db.execute(
        "SELECT t.source_id, sum(cardinality(l.metrics)) FROM telemetry_latest t JOIN telemetry_layout l ON l.id = t.layout_id"
        f" WHERE t.source_id = ANY(%s) AND {_OWN_NAMES} GROUP BY t.source_id",
        (list(source_ids),),
    )
    return {source_id: int(count) for source_id, count in await cursor.fetchall()}


async def count_own_names(db: Connection, plant_id: UUID, since: datetime) -> int:
    """Return the number of names in the layouts without units and limits that sources of the plant have used since then.

    Sources with a template do not count: their signals may have neither.
    """
    return await fetch_count(
        db,
        "SELECT coalesce(sum(cardinality(t.vals)), 0) FROM telemetry_source s JOIN telemetry_latest t ON t.source_id = s.id"
        " JOIN telemetry_layout l ON l.id = t.layout_id JOIN plant p ON p.id = s.plant_id"
        " LEFT JOIN sub_device d ON d.id = s.sub_device_id WHERE s.plant_id = %s"
        " AND CASE WHEN s.external_id IS NULL THEN p.template_id IS NULL ELSE d.id IS NOT NULL AND d.template_id IS NULL END"
        " AND greatest(t.time, t.made_at) > %s"
        f" AND {_OWN_NAMES}",
        (plant_id, since),
    )


async def ensure_layout(db: Connection, layout: FrameLayout) -> int:
    """Return the id of the layout with this content; create it if it does not exist.

    Of layouts that differ in their scalings only, the first one has the digest without them, by which earlier releases find it.
    A layout of an earlier release, which stored fewer scalings or none, gets those of the first device that uses it.
    """
    metrics = layout.metrics
    scalings = "unnest(l.scalings, %(scalings)s::text[]) WITH ORDINALITY AS u (stored, wanted, number)"
    fits = f"NOT EXISTS (SELECT FROM {scalings} WHERE u.stored <> u.wanted)"
    lacks = f"EXISTS (SELECT FROM {scalings} WHERE u.stored IS NULL AND u.wanted IS NOT NULL)"
    cursor = await db.execute(
        # An insertion takes an id even if the layout exists. Ids have 32 bits, and without a free one no layout could be found.
        f"WITH plain AS (SELECT l.id, {fits} AS fits, {lacks} AS lacks FROM telemetry_layout l WHERE l.digest = %(plain)s),"
        " completed AS (UPDATE telemetry_layout l"
        f" SET scalings = (SELECT array_agg(coalesce(u.wanted, u.stored) ORDER BY u.number) FROM {scalings})"
        f" WHERE l.digest = %(plain)s AND {fits} AND {lacks} RETURNING l.id),"
        " wanted AS (SELECT CASE WHEN EXISTS (SELECT FROM plain) THEN %(digest)s ELSE %(plain)s END AS digest"
        " WHERE NOT EXISTS (SELECT FROM plain WHERE fits)"
        " AND NOT EXISTS (SELECT FROM telemetry_layout WHERE digest = %(digest)s)),"
        " made AS (INSERT INTO telemetry_layout (digest, metrics, units, counters, minimums, maximums, scalings)"
        " SELECT digest, %(metrics)s::text[], %(units)s::text[], %(counters)s::boolean[], %(minimums)s::float8[],"
        " %(maximums)s::float8[], %(scalings)s::text[] FROM wanted"
        " ON CONFLICT ON CONSTRAINT telemetry_layout_digest_key DO NOTHING RETURNING id)"
        " SELECT id FROM completed UNION ALL SELECT id FROM made UNION ALL SELECT id FROM plain WHERE fits AND NOT lacks"
        " UNION ALL SELECT id FROM telemetry_layout WHERE digest = %(digest)s AND digest <> %(plain)s LIMIT 1",
        {
            "digest": layout.digest,
            "plain": layout.plain_digest,
            "scalings": layout.scalings,
            "metrics": [metric.key for metric in metrics],
            "units": [metric.unit for metric in metrics],
            "counters": [metric.counter for metric in metrics],
            "minimums": [metric.minimum for metric in metrics],
            "maximums": [metric.maximum for metric in metrics],
        },
    )
    row = await cursor.fetchone()
    if row is None:  # another process committed it after this statement's snapshot was taken
        return await ensure_layout(db, layout)
    return int(row[0])


async def partition_days(db: Connection) -> set[date]:
    """Return the days that have a partition."""
    cursor = await db.execute(
        "SELECT to_date(right(c.relname, 8), 'YYYYMMDD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'telemetry_frame'::regclass AND c.relname ~ '^telemetry_frame_\\d{8}$'"
    )
    return {row[0] for row in await cursor.fetchall()}


async def days_of_source(db: Connection, source_id: int) -> list[date]:
    """Return every UTC day from a source's first frame to its last, empty days included; none without frames."""
    cursor = await db.execute(
        "SELECT d::date FROM (SELECT min(time) AS first, max(time) AS last FROM telemetry_frame WHERE source_id = %s) AS f,"
        " generate_series(date_bin('1 day', first, 'epoch'), last, interval '1 day') AS d",
        (source_id,),
        prepare=False,
    )
    return [row[0] for row in await cursor.fetchall()]


async def starts(db: Connection, source_ids: Sequence[int], now: datetime) -> dict[int, datetime]:
    """Return the time from which retention keeps the frames of each of these sources.

    Without those whose time is after `now`: a clock that was ahead has written it, and retention will correct it.
    """
    cursor = await db.execute(
        "SELECT id, raw_from FROM telemetry_source WHERE id = ANY(%s) AND raw_from <= %s", (list(source_ids), now)
    )
    return dict(await cursor.fetchall())


async def create_partition(db: Connection, day: date) -> None:
    """Create the partition of one UTC day, unless it exists or an extension partitions the table."""
    await db.execute("SELECT create_telemetry_partition('telemetry_frame', %s)", (day,))


async def copy_batch(db: Connection, batch: FrameBatch) -> None:
    """Copy the batch's frames, except outdated ones, and its newest values into temporary tables.

    It locks no row. While a client is copying, the server applies no time limit, so a process that hangs or whose machine
    vanishes would keep rows locked, and the processes that take over its plants would wait.
    """
    await db.execute(
        "CREATE TEMPORARY TABLE IF NOT EXISTS frame_stage (source_id integer, layout_id integer, time timestamptz,"
        " vals float8[]) ON COMMIT DELETE ROWS"
    )
    await db.execute(
        "CREATE TEMPORARY TABLE IF NOT EXISTS latest_stage (source_id integer, layout_id integer, time timestamptz,"
        " vals float8[], absent text, times timestamptz[]) ON COMMIT DELETE ROWS"
    )
    frames = batch.frames
    if batch.outdated:
        frames = {key: vals for key, vals in frames.items() if key not in batch.outdated}
    rows = [pack_row(source, layout, time, vals) for (source, time, layout), vals in sorted(frames.items(), key=_key)]
    await _copy(db, b"COPY frame_stage FROM STDIN (FORMAT binary)", rows)
    latest = [pack_latest_row(*key, row) for key, row in sorted(batch.latest.items())]
    await _copy(db, b"COPY latest_stage FROM STDIN (FORMAT binary)", latest)


async def _copy(db: Connection, statement: bytes, rows: Sequence[bytes]) -> None:
    async with db.cursor().copy(statement) as copy:
        await copy.write(_COPY_HEADER)
        for start in range(0, len(rows), _ROWS_PER_CHUNK):
            await copy.write(b"".join(rows[start : start + _ROWS_PER_CHUNK]))
        await copy.write(_COPY_TRAILER)


async def write_frames(db: Connection) -> None:
    """Merge the copied frames into the table; values that the new frame does not have stay.

    Hours whose roll-ups become outdated are recorded in the same transaction.
    """
    # Nearly every frame belongs to an open hour, which is in no roll-up yet and needs no entry. Neither does one that changes
    # nothing: a gateway may repeat the last measurement of a device for weeks, and its hour would be computed again each time.
    await db.execute(
        "WITH changed AS (INSERT INTO telemetry_frame AS f SELECT * FROM frame_stage"
        " ON CONFLICT (source_id, time, layout_id) DO UPDATE SET vals = telemetry_merge(f.vals, excluded.vals)"
        " WHERE f.vals IS DISTINCT FROM excluded.vals AND f.vals IS DISTINCT FROM telemetry_merge(f.vals, excluded.vals)"
        " RETURNING source_id, time)"
        " INSERT INTO telemetry_dirty (source_id, hour) SELECT DISTINCT source_id, date_bin('1 hour', time, 'epoch')"
        " FROM changed WHERE time < (SELECT telemetry_open_from())"
    )


def _key(item: tuple[tuple[int, int, int], object]) -> tuple[int, int, int]:
    return item[0]


async def write_latest(db: Connection, batch: FrameBatch) -> None:
    """Update the newest values from the copied ones of the batch, never to older ones.

    A newer row that has every value of the old one replaces it; only other rows are merged value by value.
    """
    replacing = db.cursor(binary=True)
    await replacing.execute(
        "INSERT INTO telemetry_latest AS l (source_id, layout_id, time, vals, absent, times) SELECT * FROM latest_stage"
        " ON CONFLICT (source_id, layout_id) DO UPDATE"
        " SET time = excluded.time, vals = excluded.vals, absent = excluded.absent, times = excluded.times"
        " WHERE excluded.time >= l.time AND excluded.times IS NULL AND excluded.absent IN ('', l.absent)"
        " RETURNING source_id, layout_id"
    )
    left = batch.latest.keys() - set(await replacing.fetchall())
    if left:
        await db.execute(
            "UPDATE telemetry_latest l SET (time, vals, absent, times) = ("
            " SELECT greatest(l.time, s.time), m.vals, m.absent, m.times FROM telemetry_advance("
            " l.time, l.vals, l.times, s.time, s.vals, s.times) m)"
            " FROM latest_stage s WHERE l.source_id = ANY(%s) AND l.source_id = s.source_id AND l.layout_id = s.layout_id"
            " AND (s.time >= l.time OR l.times IS NOT NULL OR l.absent <> '')"
            " AND (s.times IS NOT NULL OR (s.time, s.vals) IS DISTINCT FROM (l.time, l.vals))",
            (sorted({source_id for source_id, _ in left}),),
        )


async def abandoned_sources(db: Connection, limit: int) -> list[int]:
    """Return up to `limit` sources whose plant was deleted: the first of each organisation, then the second of each, etc."""
    cursor = await db.execute(
        "SELECT s.id FROM telemetry_source s WHERE NOT EXISTS (SELECT FROM plant p WHERE p.id = s.plant_id)"
        " ORDER BY row_number() OVER (PARTITION BY s.organization_id ORDER BY s.id), s.id LIMIT %s",
        (limit,),
    )
    return [row[0] for row in await cursor.fetchall()]


async def nth_time(db: Connection, source_id: int, start: datetime, end: datetime, n: int) -> datetime | None:
    """Return the time of the `n`-th of a source's frames with `start` <= time < `end`; None if there are fewer."""
    return await fetch_value(
        db,
        "SELECT time FROM telemetry_frame WHERE source_id = %s AND time >= %s AND time < %s ORDER BY time OFFSET %s LIMIT 1",
        (source_id, start, end, n - 1),
        prepare=False,
    )


async def delete_frames(
    db: Connection,
    source_id: int,
    start: datetime | None = None,
    end: datetime | None = None,
) -> None:
    """Delete a source's frames with `start` <= time < `end`, or all of them without a range."""
    if start is None or end is None:
        await db.execute("DELETE FROM telemetry_frame WHERE source_id = %s", (source_id,), prepare=False)
    else:
        # Planned for these times: a generic plan would scan the partition of every day.
        await db.execute(
            "DELETE FROM telemetry_frame WHERE source_id = %s AND time >= %s AND time < %s",
            (source_id, start, end),
            prepare=False,
        )


async def hold_source(db: Connection, source_id: int) -> None:
    """Lock the source until the transaction ends. Waits for transactions that use it."""
    await db.execute("SELECT FROM telemetry_source WHERE id = %s FOR UPDATE", (source_id,))


async def delete_latest(db: Connection, source_id: int) -> None:
    """Delete a source's newest values."""
    await db.execute("DELETE FROM telemetry_latest WHERE source_id = %s", (source_id,))


async def create_source(db: Connection, organization_id: UUID, plant_id: UUID) -> int:
    """Create the source of a plant and return its id. The plant does not have to exist."""
    query = "INSERT INTO telemetry_source (organization_id, plant_id) VALUES (%s, %s) RETURNING id"
    return await fetch_count(db, query, (organization_id, plant_id))


async def delete_source(db: Connection, source_id: int) -> None:
    """Delete a source that has no telemetry left."""
    await db.execute("DELETE FROM telemetry_source WHERE id = %s", (source_id,))


async def source_owners(db: Connection, source_ids: Sequence[int]) -> list[SourceOwner]:
    """Return the owners of these sources, in any order. Sources that do not exist are left out."""
    cursor = db.cursor(row_factory=class_row(SourceOwner))
    await cursor.execute(
        "SELECT id, organization_id, plant_id, external_id FROM telemetry_source WHERE id = ANY(%s)", (source_ids,)
    )
    return await cursor.fetchall()


async def layout_columns(db: Connection, layout_ids: Sequence[int]) -> list[LayoutColumns]:
    """Return the keys and units of these layouts, in any order. Layouts that do not exist are left out."""
    cursor = db.cursor(row_factory=class_row(LayoutColumns))
    await cursor.execute(
        "SELECT id AS layout_id, metrics AS keys, units FROM telemetry_layout WHERE id = ANY(%s)", (layout_ids,)
    )
    return await cursor.fetchall()
