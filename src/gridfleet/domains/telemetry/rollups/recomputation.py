"""The job that keeps roll-ups up to date. Several processes may call it; only one works at a time."""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import attrgetter
from time import monotonic
from typing import Final
from uuid import UUID

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.telemetry.clocks import is_clock_behind
from gridfleet.domains.telemetry.rollups import store
from gridfleet.domains.telemetry.rollups.models import Level, SetAsideHour, Stale
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements
from gridfleet.kernel.isolation import SECONDS_OF_SEVERAL, is_poison, note_set_aside, reason_of, took_too_long

__all__ = ["close_hour", "correct_watermark", "ensure_partitions_ahead", "roll_up", "set_aside_hours"]

GRACE: Final = timedelta(minutes=5)
"""How long an hour stays open after its end; frames that come later are logged in the dirty log."""
_HOURS_A_TRANSACTION: Final = 200
_HOURS_A_TURN: Final = 48
"""Hours of one source in a turn. It is larger if the sources of the turn would not fill a transaction."""
_DAY: Final = timedelta(days=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def roll_up(database: Database, *, seconds: float = 60.0) -> int:
    """Recompute dirty hours and close hours that are over, until nothing is left or `seconds` have passed.

    Organisations take turns: of each, the hours of one source, then those of the second, etc. A source with more hours than fit
    in a turn waits for its next turn until all others have had one.

    A transaction that fails is tried again with half as many hours, and one that takes too long with the first hour alone. An
    hour that fails by itself is set aside, and the rest of its source waits until all other sources were processed, so that a
    source whose every hour fails cannot delay them. After an hour that took too long, the other sources of its organisation
    wait too.

    Returns:
        The number of recomputed hours; 0 if another process is working.

    Raises:
        Exception: The database is not available.
    """
    until = monotonic() + seconds
    done = 0
    limit = _HOURS_A_TRANSACTION
    owners = await _dirty_sources(database)
    turns = list(owners)
    again: list[int] = []
    slow: list[int] = []
    postponed = False
    was_slow = False
    while monotonic() < until:
        if not turns:
            if not again:
                again, slow = slow, []
            turns, again = again, []
            if postponed:
                limit, postponed = 1, False
            if not turns:
                # What became dirty in the meantime waits for the next call, unless an hour is due.
                if not await close_hour(database):
                    return done
                owners = await _dirty_sources(database)
                turns = list(owners)
                continue
        some = turns[:limit]
        most = max(_HOURS_A_TURN, limit // len(some))
        stale: list[Stale] = []
        is_short = was_slow and limit > 1
        try:
            with limit_statements(SECONDS_OF_SEVERAL if is_short else None):
                async with database.transaction() as db:
                    if not await store.lock(db):
                        return done
                    stale = await store.take_dirty(db, some, most, limit)
                    await _recompute(db, stale)
        except Exception as error:
            if not stale or not is_poison(error, is_retried=True):
                raise
            is_slow = took_too_long(error)
            was_slow |= is_slow
            # There may be only one hour although the limit allows more.
            if len(stale) > 1 or (is_slow and is_short):
                # Halving could take too long again and again until the time ends, and would start anew in the next call.
                limit = 1 if is_slow else len(stale) // 2
                continue
            limit = 1
            await _set_aside(database, stale[0], error)
            source_id = stale[0].source_id
            turns = turns[some.index(source_id) + 1 :]
            if is_slow:
                owner = owners.get(source_id)
                slow += [source_id, *(other for other in turns if owners.get(other) == owner)]
                turns = [other for other in turns if owners.get(other) != owner]
            else:
                again.append(source_id)
            postponed = True
            continue
        done += len(stale)
        hours = Counter(one.source_id for one in stale)
        unfinished = {source_id for source_id, count in hours.items() if count == most}
        if len(stale) == limit:
            some = some[: some.index(stale[-1].source_id) + 1]
            unfinished.add(some[-1])
        turns = turns[len(some) :]
        again += [source_id for source_id in some if source_id in unfinished]
        limit = min(2 * limit, _HOURS_A_TRANSACTION)
    # Even if more hours are dirty: otherwise one organisation's late values could keep all hours open.
    await close_hour(database)
    return done


async def _dirty_sources(database: Database) -> dict[int, UUID | None]:
    async with database.transaction() as db:
        return await store.dirty_sources(db)


async def _set_aside(database: Database, stale: Stale, error: Exception) -> None:
    note_set_aside(Consumer.ROLL_UPS, error, source_id=stale.source_id, hour=stale.hour.isoformat())
    async with database.transaction() as db:
        # Under the lock, because an hour that another process has recomputed in the meantime is no longer in the log.
        if await store.lock(db):
            await store.set_aside(db, stale, reason_of(error))


async def set_aside_hours(db: Connection, limit: int) -> list[SetAsideHour]:
    """Return up to `limit` hours whose roll-up failed, the earliest failure first."""
    return await store.set_aside_hours(db, limit)


async def close_hour(database: Database, grace: timedelta = GRACE) -> bool:
    """Close the next hour if it is over. Returns whether it was closed."""
    async with database.transaction() as db:
        if not await store.lock(db) or not await store.is_hour_over(db, grace):
            return False
        await store.wait_for_writers(db)
        await store.advance_watermark(db)
        return True


async def correct_watermark(database: Database) -> None:
    """Reopen hours in the future, which a clock that was ahead has closed: each value in them would count as late.

    If the clock is behind now, they stay closed: otherwise all hours since then would be rolled up again.
    """
    async with database.transaction() as db:
        if await store.lock(db) and await store.is_watermark_ahead(db) and not await is_clock_behind(db):
            await store.wait_for_writers(db)
            await store.open_hours_ahead(db)


async def _recompute(db: Connection, stale: list[Stale]) -> None:
    found = await store.layouts_to_recompute(db, stale)
    # A plant may send values of a year. Partitions of their minutes would stay empty, and all readers wait for each drop.
    of_minutes = {one.hour.date() for one in found if one.keeps_minutes}
    await _ensure_partitions(db, of_minutes, {one.hour.date() for one in found if one.keeps_quarters})
    for metrics, group in groupby(found, key=attrgetter("metrics")):
        members = [(one.source_id, one.layout_id, one.hour) for one in group]
        await store.recompute_hours(db, members, metrics)
        days = sorted({(source, layout, hour - (hour - _EPOCH) % _DAY) for source, layout, hour in members})
        await store.recompute_days(db, days, metrics)
    await store.note_energy(db, stale)


async def ensure_partitions_ahead(database: Database, days: int) -> None:
    """Create the partitions of today and the next `days` days."""
    today = utc_now().date()
    async with database.transaction() as db:
        ahead = {today + timedelta(days=number) for number in range(days + 1)}
        await _ensure_partitions(db, ahead, ahead)


async def _ensure_partitions(db: Connection, of_minutes: Iterable[date], of_quarters: Iterable[date]) -> None:
    """Create the missing partitions of these days: those of minutes, and those of quarters."""
    for day in sorted(set(of_minutes) - await store.partition_starts(db, Level.MINUTE)):
        await store.create_partition(db, Level.MINUTE, day)
    months = {day.replace(day=1) for day in of_quarters}
    for month in sorted(months - await store.partition_starts(db, Level.QUARTER)):
        await store.create_partition(db, Level.QUARTER, month)
