"""The job that keeps roll-ups up to date. Several processes may call it: each source is recomputed by one of them at a time."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from itertools import groupby
from operator import attrgetter
from time import monotonic
from typing import Final, cast
from uuid import UUID

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.telemetry.clocks import is_clock_behind
from gridfleet.domains.telemetry.rollups import store
from gridfleet.domains.telemetry.rollups.models import Level, SetAsideHour, Stale
from gridfleet.domains.telemetry.rollups.shards import store as shards
from gridfleet.kernel.clock import round_down, utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements
from gridfleet.kernel.db.shards import is_distributed, settle
from gridfleet.kernel.isolation import SECONDS_OF_SEVERAL, is_poison, note_set_aside, reason_of, took_too_long

__all__ = [
    "close_hour",
    "correct_watermark",
    "ensure_partitions",
    "ensure_partitions_ahead",
    "recompute",
    "roll_up",
    "set_aside_hours",
]

GRACE: Final = timedelta(minutes=5)
"""How long an hour stays open after its end; frames that come later are logged in the dirty log."""
_HOURS_A_TRANSACTION: Final = 200
_HOURS_A_TURN: Final = 48
"""Hours of one source in a turn. It is larger if the sources of the turn would not fill a transaction."""
_DAY: Final = timedelta(days=1)


async def roll_up(database: Database, *, seconds: float = 60.0, connections: int = 1) -> int:
    """Recompute dirty hours and close hours that are over, until nothing is left or `seconds` have passed.

    Organisations take turns: of each, the hours of one source, then those of the second, etc. A source with more hours than fit
    in a turn waits for its next turn until all others have had one.

    Args:
        database: The database.
        seconds: After this time, no further transaction begins.
        connections: Number of transactions at the same time. Each has the sources of its own slots.

    Returns:
        The number of recomputed hours; 0 if another process is working.

    Raises:
        Exception: The database is not available.
    """
    until = monotonic() + seconds
    done = 0
    while True:
        owners = await _dirty_sources(database)
        parts = [
            {source_id: owner for source_id, owner in owners.items() if store.slot(source_id) % connections == number}
            for number in range(connections)
        ]
        found = await asyncio.gather(*(_roll_up(database, part, until) for part in parts), return_exceptions=True)
        # The others have ended their work: each of their transactions is complete.
        for error in found:
            if isinstance(error, BaseException):
                raise error
        done += sum(cast("list[int]", found))
        is_over = monotonic() >= until
        # Even if more hours are dirty: otherwise one organisation's late values could keep all hours open. What became dirty in
        # the meantime waits for the next call, unless an hour was closed.
        if not await close_hour(database) or is_over:
            return done


async def _roll_up(database: Database, owners: Mapping[int, UUID | None], until: float) -> int:
    """Recompute the dirty hours of these sources until none is left or the monotonic time `until` has passed.

    A transaction that fails is tried again with half as many hours, and one that takes too long with the first hour alone. An
    hour that fails by itself is set aside, and the rest of its source waits until all other sources were processed, so that a
    source whose every hour fails cannot delay them. After an hour that took too long, the other sources of its organisation
    wait too.

    Args:
        database: The database.
        owners: The organisation of each source, in the order of their turns.
        until: Monotonic time in seconds.

    Returns:
        The number of recomputed hours.
    """
    done = 0
    limit = _HOURS_A_TRANSACTION
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
                return done
        some = turns[:limit]
        most = max(_HOURS_A_TURN, limit // len(some))
        stale: list[Stale] = []
        is_short = was_slow and limit > 1
        try:
            with limit_statements(SECONDS_OF_SEVERAL if is_short else None):
                async with database.transaction() as db:
                    if not await store.lock(db, is_shared=True):
                        return done
                    stale = await store.take_dirty(db, some, most, limit)
                    await settle(db)
                    await recompute(db, stale)
        except _LacksPartitions as lacking:
            async with database.transaction() as db:
                await ensure_partitions(db, lacking.of_minutes, lacking.of_quarters)
            continue
        except Exception as error:
            if not stale or not is_poison(error, is_retried=True):
                raise
            is_slow = took_too_long(error)
            was_slow |= is_slow
            # There may be only one hour although the limit allows more.
            if len(stale) > 1 or (is_slow and is_short):
                # Halving could take too long repeatedly until the time ends, and would begin again in the next call.
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
    return done


async def _dirty_sources(database: Database) -> dict[int, UUID | None]:
    async with database.transaction() as db:
        return await store.dirty_sources(db)


async def _set_aside(database: Database, stale: Stale, error: Exception) -> None:
    note_set_aside(Consumer.ROLL_UPS, error, source_id=stale.source_id, hour=stale.hour.isoformat())
    async with database.transaction() as db:
        # Under the locks, because an hour that another process has recomputed in the meantime is no longer in the log.
        if await store.lock(db, is_shared=True) and await store.hold_slot(db, stale.source_id):
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


class _LacksPartitions(Exception):
    """Partitions of these days are missing."""

    def __init__(self, of_minutes: set[date], of_quarters: set[date]) -> None:
        super().__init__()
        self.of_minutes = of_minutes
        self.of_quarters = of_quarters


async def recompute(db: Connection, stale: list[Stale]) -> None:
    """Write the roll-ups of these hours.

    Raises:
        _LacksPartitions: Partitions are missing. They are made in a transaction of their own: until it ends, those of other
            sources wait that need new ones too.
    """
    if not stale:
        return
    found = await store.layouts_to_recompute(db, stale)
    # A plant may send values of a year. Partitions of their minutes would stay empty, and all readers wait for each drop.
    of_minutes = {one.hour.date() for one in found if one.keeps_minutes}
    of_quarters = {one.hour.date() for one in found if one.keeps_quarters}
    if await _missing(db, Level.MINUTE, of_minutes) or await _missing(db, Level.QUARTER, of_quarters):
        raise _LacksPartitions(of_minutes, of_quarters)
    for metrics, group in groupby(found, key=attrgetter("metrics")):
        members = list(group)
        recompute_hours = shards.recompute_hours if is_distributed(db) else store.recompute_hours
        await recompute_hours(db, members, metrics)
        days = sorted({(one.source_id, one.layout_id, round_down(one.hour, _DAY)) for one in members})
        await store.recompute_days(db, days, metrics)
    await store.note_energy(db, stale)


async def ensure_partitions_ahead(database: Database, days: int) -> None:
    """Create the partitions of today and the next `days` days."""
    today = utc_now().date()
    async with database.transaction() as db:
        ahead = {today + timedelta(days=number) for number in range(days + 1)}
        await ensure_partitions(db, ahead, ahead)


async def ensure_partitions(db: Connection, of_minutes: Iterable[date], of_quarters: Iterable[date]) -> None:
    """Create the missing partitions of these days: those of minutes, and those of quarters."""
    for level, days in ((Level.MINUTE, of_minutes), (Level.QUARTER, of_quarters)):
        for first in await _missing(db, level, days):
            await store.create_partition(db, level, first)


async def _missing(db: Connection, level: Level, days: Iterable[date]) -> list[date]:
    """Return the first days of the level's missing partitions of these days."""
    return await store.missing_partitions(db, level, {day.replace(day=1) if level is Level.QUARTER else day for day in days})
