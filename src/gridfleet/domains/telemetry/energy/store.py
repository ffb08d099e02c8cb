"""SQL of energies that are kept for each plant and hour."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, islice
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.energy.models import DirtyHour, KeptHour
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.shards import Part, by_shard, is_distributed

__all__ = ["Pick"]

KINDS: Final = 5
"""Kinds of energy in a row of a plant."""
_LOOKAHEAD: Final = timedelta(hours=24)


class Pick(NamedTuple):
    """Values to read: a position of one layout of a source, in a span. `number` is the caller's.

    Values outside `low`…`high` are returned as -1: a counter without a value.
    """

    number: int
    source_id: int
    layout_id: int
    position: int
    start: datetime
    end: datetime
    low: float = -inf
    high: float = inf


async def dirty_plants(db: Connection) -> dict[UUID, UUID | None]:
    """Return the plants with dirty hours, in random order: one of each organisation, then a second of each, and so on.

    The value of a plant is its organisation, None if the plant was deleted.
    """
    cursor = await db.execute(
        # One look-up in the index for each plant, however many of its hours are dirty.
        "WITH RECURSIVE dirty AS ((SELECT plant_id AS id FROM energy_dirty ORDER BY plant_id LIMIT 1) UNION ALL"
        " SELECT (SELECT plant_id FROM energy_dirty WHERE plant_id > d.id ORDER BY plant_id LIMIT 1) FROM dirty d"
        " WHERE d.id IS NOT NULL)"
        " SELECT d.id, p.organization_id FROM dirty d LEFT JOIN plant p USING (id)"
        " LEFT JOIN energy_account a ON a.plant_id = d.id"
        " WHERE d.id IS NOT NULL AND coalesce(a.retry_at <= now(), true)"
        " ORDER BY row_number() OVER (PARTITION BY p.organization_id ORDER BY random()), p.organization_id"
    )
    return dict(await cursor.fetchall())


async def take_dirty(db: Connection, plant_ids: Sequence[UUID], most: int) -> list[DirtyHour]:
    """Remove up to `most` dirty hours of each plant from the log, the earliest first, and return them."""
    cursor = await db.execute(
        "WITH chosen AS (SELECT d.* FROM unnest(%s::uuid[]) AS p (id) CROSS JOIN LATERAL (SELECT DISTINCT plant_id, hour"
        " FROM energy_dirty WHERE plant_id = p.id ORDER BY plant_id, hour LIMIT %s) AS d),"
        " gone AS (DELETE FROM energy_dirty d USING chosen c WHERE d.plant_id = c.plant_id AND d.hour = c.hour)"
        " SELECT plant_id, hour FROM chosen ORDER BY plant_id, hour",
        (list(plant_ids), most),
    )
    return [DirtyHour(*row) for row in await cursor.fetchall()]


async def postpone(db: Connection, plant_id: UUID) -> None:
    """Leave out a plant for half an hour after its computation failed."""
    await db.execute(
        "INSERT INTO energy_account (plant_id, organization_id, retry_at)"
        " SELECT id, organization_id, now() + interval '30 minutes' FROM plant WHERE id = %s"
        " ON CONFLICT (plant_id) DO UPDATE SET retry_at = excluded.retry_at",
        (plant_id,),
    )


async def accounts(db: Connection, plant_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, datetime]]:
    """Return for each plant that exists the organisation whose totals contain it, and the time from which frames are kept.

    Holds the plants, so that they stay in their organisations until the transaction ends.
    """
    cursor = await db.execute(
        "WITH held AS (SELECT id, organization_id FROM plant WHERE id = ANY(%(plants)s) ORDER BY id FOR KEY SHARE),"
        " opened AS (INSERT INTO energy_account (plant_id, organization_id) SELECT id, organization_id FROM held"
        " ON CONFLICT (plant_id) DO UPDATE SET retry_at = NULL WHERE energy_account.retry_at IS NOT NULL)"
        " SELECT h.id, coalesce(a.organization_id, h.organization_id), coalesce((SELECT max(s.raw_from) FROM telemetry_source s"
        " WHERE s.plant_id = h.id), 'epoch') FROM held h LEFT JOIN energy_account a ON a.plant_id = h.id",
        {"plants": list(plant_ids)},
    )
    return {row[0]: (row[1], row[2]) for row in await cursor.fetchall()}


async def kept_around(db: Connection, dirty: Sequence[DirtyHour]) -> dict[DirtyHour, KeptHour]:
    """Return what is kept of dirty hours, of the hour before each and of the day after each: what a change may affect."""
    cursor = await db.execute(
        "SELECT DISTINCT ON (e.plant_id, e.hour) e.plant_id, e.hour, e.energies, e.falls"
        " FROM unnest(%s::uuid[], %s::timestamptz[]) AS d (plant_id, hour) JOIN plant_energy e ON e.plant_id = d.plant_id"
        " AND e.hour >= d.hour - interval '1 hour' AND e.hour <= d.hour + %s ORDER BY e.plant_id, e.hour",
        ([one.plant_id for one in dirty], [one.hour for one in dirty], _LOOKAHEAD),
    )
    return {DirtyHour(row[0], row[1]): KeptHour(row[2], row[3]) for row in await cursor.fetchall()}


async def kept_from(db: Connection, starts: Mapping[UUID, datetime]) -> dict[UUID, list[tuple[datetime, list[int | None]]]]:
    """Return the closed hours of each plant that end after its start, with their energies in mWh."""
    cursor = await db.execute(
        "SELECT e.plant_id, e.hour, e.energies FROM unnest(%s::uuid[], %s::timestamptz[]) AS d (plant_id, start)"
        " JOIN plant_energy e ON e.plant_id = d.plant_id AND e.hour > d.start - interval '1 hour'"
        " AND e.hour < (SELECT sealed_before FROM telemetry_seal)",
        (list(starts), list(starts.values())),
    )
    found: dict[UUID, list[tuple[datetime, list[int | None]]]] = {}
    for plant_id, hour, energies in await cursor.fetchall():
        found.setdefault(plant_id, []).append((hour, energies))
    return found


async def falls_before(db: Connection, starts: Sequence[DirtyHour]) -> set[DirtyHour]:
    """Return those of `starts`, each a plant and an hour, before which a counter of the plant fell.

    Only hours of the same UTC day and the last hour of the day before are considered.
    """
    cursor = await db.execute(
        "SELECT s.plant_id, s.hour FROM unnest(%s::uuid[], %s::timestamptz[]) AS s (plant_id, hour)"
        " WHERE EXISTS (SELECT FROM plant_energy e WHERE e.plant_id = s.plant_id AND "
        " e.hour >= date_bin('1 day', s.hour, 'epoch') - interval '1 hour' AND e.hour < s.hour AND e.falls)",
        ([one.plant_id for one in starts], [one.hour for one in starts]),
    )
    return {DirtyHour(*row) for row in await cursor.fetchall()}


def _columns(picks: Sequence[Pick]) -> list[list[Any]]:
    return [[pick[column] for pick in picks] for column in range(len(Pick._fields))]


def _parts(db: Connection, picks: Sequence[Pick]) -> list[Part[Pick]]:
    return by_shard(db, picks, lambda pick: pick.source_id)


_PICKS: Final = (
    "WITH w AS MATERIALIZED (SELECT p.*, s.raw_from FROM unnest(%s::int[], %s::int[], %s::int[], %s::int[], %s::timestamptz[],"
    " %s::timestamptz[], %s::float8[], %s::float8[]) AS p (number, source_id, layout_id, place, start, finish, low, high)"
    " JOIN telemetry_source s ON s.id = p.source_id)"
)
"""The picks with the time from which frames of their sources are kept. Citus evaluates it at the coordinator.

It must not be a subquery in FROM: Citus 13.2 gives all of its columns the type of the first one.
"""
_VALUE: Final = "CASE WHEN f.value BETWEEN w.low AND w.high THEN f.value ELSE -1 END"


async def readings(db: Connection, picks: Sequence[Pick]) -> list[tuple[int, bytes, bytes]]:
    """Return (number of the pick, times, values) of each pick with readings: the last of each second, not of deleted days.

    Times are microseconds since 2000-01-01 UTC, values doubles, both big-endian and by time.
    """
    found: list[tuple[int, bytes, bytes]] = []
    for part in _parts(db, picks):
        cursor = db.cursor(binary=True)
        await cursor.execute(
            # Each pick is aggregated by itself: a GROUP BY over all of them may sort, which changes the order of the readings.
            f"{_PICKS} SELECT w.number, r.times, r.vals FROM w CROSS JOIN LATERAL"
            " (SELECT string_agg(timestamptz_send(f.time), ''::bytea) AS times,"
            f" string_agg(float8send({_VALUE}), ''::bytea) AS vals"
            " FROM (SELECT time, value FROM (SELECT time, value, lead(time) OVER (ORDER BY time) AS next"
            " FROM (SELECT time, vals[w.place + 1] AS value FROM telemetry_frame WHERE source_id = w.source_id"
            " AND time >= greatest(w.start, w.raw_from) AND time < w.finish AND layout_id = w.layout_id"
            f" AND time >= %s::timestamptz AND time < %s::timestamptz{part.condition}) AS every"
            " WHERE value IS NOT NULL) AS valued"
            " WHERE next IS NULL OR date_trunc('second', next) > date_trunc('second', time) ORDER BY time) AS f) AS r"
            " WHERE r.times IS NOT NULL",
            (*_columns(part.items), *_span(part.items)),
            prepare=False,
        )
        found += await cursor.fetchall()
    return found


def _span(picks: Sequence[Pick]) -> tuple[datetime, datetime]:
    return min(pick.start for pick in picks), max(pick.end for pick in picks)


async def last_readings(db: Connection, picks: Sequence[Pick], *, positive: bool = False) -> list[tuple[int, datetime, float]]:
    """Return (number of the pick, time, value) of the last two readings of each pick with readings.

    With `positive`, these are the last positive ones within the pick's limits.

    The frames of a pick's first hours may be deleted. Their last readings come from the roll-ups, one of each hour with the
    start of the hour as its time. Frames of deleted days that arrived later are in no roll-up and do not count. If the frames
    of the hour after a pick are deleted too, its last reading is included: the caller has found none there.
    """
    of_frame, of_hour = (
        f"{value} > 0 AND {value} BETWEEN w.low AND w.high" if positive else f"{value} IS NOT NULL"
        for value in ("vals[w.place + 1]", "lasts[w.place + 1]")
    )
    frames = (
        "(SELECT time, vals[w.place + 1] AS value FROM telemetry_frame"
        " WHERE source_id = w.source_id AND time >= greatest(w.start, w.raw_from) AND time < w.finish"
        " AND layout_id = w.layout_id AND time >= %s::timestamptz AND time < %s::timestamptz{0}"
        f" AND {of_frame} ORDER BY time DESC LIMIT 2)"
    )
    hours = (
        "(SELECT bucket AS time, lasts[w.place + 1] AS value FROM telemetry_hour"
        " WHERE source_id = w.source_id AND bucket >= w.start AND bucket < least(w.finish + interval '1 hour', w.raw_from)"
        f" AND layout_id = w.layout_id AND {of_hour} ORDER BY bucket DESC LIMIT 2)"
    )
    if not is_distributed(db):
        return await _last(db, picks, f"({frames.format('')} UNION ALL {hours} ORDER BY time DESC LIMIT 2)", _span(picks))
    # Hours are not distributed.
    found = await _last(db, picks, hours, ())
    for part in _parts(db, picks):
        found += await _last(db, part.items, frames.format(part.condition), _span(part.items))
    return [
        row for _, rows in groupby(sorted(found, key=itemgetter(0, 1), reverse=True), itemgetter(0)) for row in islice(rows, 2)
    ]


async def _last(
    db: Connection, picks: Sequence[Pick], readings: str, span: tuple[datetime, ...]
) -> list[tuple[int, datetime, float]]:
    cursor = await db.execute(
        f"{_PICKS} SELECT w.number, f.time, {_VALUE} FROM w CROSS JOIN LATERAL {readings} AS f",
        (*_columns(picks), *span),
        prepare=False,
    )
    return await cursor.fetchall()


async def had_values_before(db: Connection, moments: Sequence[tuple[int, int, datetime]]) -> list[int]:
    """Return the numbers of those (number, source, time) whose source had values in an hour that began before the time."""
    cursor = await db.execute(
        "SELECT w.number FROM unnest(%s::int[], %s::int[], %s::timestamptz[]) AS w (number, source_id, time)"
        " WHERE EXISTS (SELECT FROM telemetry_hour h WHERE h.source_id = w.source_id AND h.bucket < w.time)"
        " OR EXISTS (SELECT FROM telemetry_dirty y WHERE y.source_id = w.source_id AND y.hour < w.time)",
        [list(column) for column in zip(*moments, strict=True)],
    )
    return [number for (number,) in await cursor.fetchall()]


async def former_levels(db: Connection, counters: Sequence[tuple[int, int, str]]) -> list[tuple[int, str, float]]:
    """Return (number, unit, last positive reading) of the former counters of each (number, source, key).

    They have the same key, and their sub-device, which was deleted, had the same external id.
    """
    cursor = await db.execute(
        "SELECT w.number, l.units[k.place], v.level FROM unnest(%s::int[], %s::int[], %s::text[]) AS w (number, source_id, key)"
        " JOIN telemetry_source s ON s.id = w.source_id"
        " JOIN telemetry_source f ON f.plant_id = s.plant_id AND f.external_id = s.external_id AND f.id < s.id"
        " JOIN telemetry_latest t ON t.source_id = f.id JOIN telemetry_layout l ON l.id = t.layout_id"
        " CROSS JOIN LATERAL (SELECT array_position(l.metrics, w.key) AS place) AS k CROSS JOIN LATERAL"
        " (SELECT greatest(t.vals[k.place], (SELECT h.lasts[k.place] FROM telemetry_hour h WHERE h.source_id = f.id"
        " AND h.layout_id = l.id AND h.lasts[k.place] > 0 ORDER BY h.bucket DESC LIMIT 1)) AS level) AS v"
        " WHERE v.level > 0",
        [list(column) for column in zip(*counters, strict=True)],
    )
    return await cursor.fetchall()


async def next_readings(db: Connection, picks: Sequence[Pick], *, positive: bool = False) -> list[tuple[int, datetime, float]]:
    """Return (number of the pick, time, value) of the first reading of each pick with readings, without deleted days.

    With `positive`, these are the first positive ones within the pick's limits.
    """
    value = "vals[w.place + 1]"
    wanted = f"{value} > 0 AND {value} BETWEEN w.low AND w.high" if positive else f"{value} IS NOT NULL"
    found: list[tuple[int, datetime, float]] = []
    for part in _parts(db, picks):
        cursor = await db.execute(
            f"{_PICKS} SELECT w.number, f.time, {_VALUE} FROM w CROSS JOIN LATERAL"
            " (SELECT time, vals[w.place + 1] AS value FROM telemetry_frame"
            " WHERE source_id = w.source_id AND time >= greatest(w.start, w.raw_from) AND time < w.finish"
            f" AND layout_id = w.layout_id AND time >= %s::timestamptz AND time < %s::timestamptz{part.condition}"
            f" AND {wanted} ORDER BY time LIMIT 1) AS f",
            (*_columns(part.items), *_span(part.items)),
            prepare=False,
        )
        found += await cursor.fetchall()
    return found


async def log_dirty(db: Connection, hours: Collection[DirtyHour]) -> None:
    """Log these hours as dirty, so that their energy is computed again."""
    await db.execute(
        "INSERT INTO energy_dirty (plant_id, hour) SELECT * FROM unnest(%s::uuid[], %s::timestamptz[])",
        ([one.plant_id for one in hours], [one.hour for one in hours]),
    )


def array(energies: Iterable[int | None]) -> str:
    """Return energies in mWh as the text of a PostgreSQL array, `{1,NULL,3}`. None becomes NULL."""
    return "{" + ",".join("NULL" if value is None else str(value) for value in energies) + "}"


async def write(db: Connection, hours: Mapping[DirtyHour, KeptHour]) -> None:
    """Write energies of plants' hours."""
    await db.execute(
        "INSERT INTO plant_energy (plant_id, hour, energies, falls) SELECT plant_id, hour, energies::bigint[], falls"
        " FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[], %s::boolean[]) AS n (plant_id, hour, energies, falls)"
        " ON CONFLICT (plant_id, hour) DO UPDATE SET energies = excluded.energies, falls = excluded.falls",
        (
            [one.plant_id for one in hours],
            [one.hour for one in hours],
            [array(kept.energies) for kept in hours.values()],
            [kept.falls for kept in hours.values()],
        ),
    )


async def delete_of(db: Connection, plant_id: UUID) -> None:
    """Delete the energies of a plant, its dirty hours and its account."""
    for table in ("plant_energy", "energy_dirty", "energy_account"):
        await db.execute(f"DELETE FROM {table} WHERE plant_id = %s", (plant_id,))


async def past_to_read(db: Connection, limit: int) -> list[DirtyHour]:
    """Return plants whose energies before an upgrade are not computed yet, each with the hour from which they are missing."""
    cursor = await db.execute(
        "SELECT a.plant_id, greatest(least(a.missing_from, a.recompute_from), (SELECT max(s.raw_from) FROM telemetry_source s"
        " WHERE s.plant_id = a.plant_id)) FROM energy_account a"
        " WHERE (a.missing_from IS NOT NULL OR a.recompute_from IS NOT NULL)"
        " AND coalesce(a.retry_at <= now(), true) ORDER BY least(a.missing_from, a.recompute_from) LIMIT %s",
        (limit,),
    )
    return [DirtyHour(*row) for row in await cursor.fetchall()]


async def advance_past(db: Connection, plant_id: UUID, hour: datetime | None) -> None:
    """Record that the energies of a plant before `hour` are computed; None if none is missing.

    `missing_from` is also what the job of the previous release reads. It finds the hours from there on that are not computed
    yet, but none that is to be computed again.
    """
    await db.execute(
        "UPDATE energy_account SET recompute_from = %(hour)s::timestamptz, missing_from = CASE WHEN missing_from IS NOT NULL"
        " AND %(hour)s::timestamptz IS NOT NULL THEN greatest(missing_from, %(hour)s::timestamptz) END"
        " WHERE plant_id = %(plant)s",
        {"plant": plant_id, "hour": hour},
    )


async def watermark(db: Connection) -> datetime:
    """Return the time from which hours are open."""
    cursor = await db.execute("SELECT sealed_before FROM telemetry_seal")
    [row] = await cursor.fetchall()
    found: datetime = row[0]
    return found


async def unfinished_hours(db: Connection, org: OrgScope, plant_id: UUID, start: datetime) -> set[datetime]:
    """Return the hours of a plant from `start` on whose energy has to be computed again."""
    cursor = await db.execute(
        "SELECT d.hour FROM telemetry_source s JOIN telemetry_dirty d ON d.source_id = s.id"
        " WHERE s.plant_id = %(plant)s AND s.organization_id = %(org)s AND d.hour >= %(start)s::timestamptz"
        " UNION SELECT d.hour FROM energy_dirty d JOIN plant p ON p.id = d.plant_id"
        " WHERE d.plant_id = %(plant)s AND p.organization_id = %(org)s AND d.hour >= %(start)s::timestamptz",
        {"plant": plant_id, "org": org.organization_id, "start": start},
    )
    return {row[0] for row in await cursor.fetchall()}
