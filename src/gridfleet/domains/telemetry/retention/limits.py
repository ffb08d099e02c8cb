"""Retention: delete data older than the limits of its organisation, by whole partitions where all organisations allow it.

Frames are deleted only after they are in the roll-ups, except those of an hour whose roll-up has failed for too long. Data
that an organisation keeps for a shorter time than others is deleted by the ids of its own sources, so that no other rows are
touched.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from psycopg.errors import LockNotAvailable

from gridfleet.domains.telemetry.clocks import is_clock_behind
from gridfleet.domains.telemetry.retention import store
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.models import Days, Kept
from gridfleet.kernel.clock import days_before
from gridfleet.kernel.db import Connection, Database

__all__ = ["Days", "apply_retention", "apply_retention_between_roll_ups", "set_retention"]

log = structlog.get_logger(__name__)

_RAW: Final = Kept("telemetry_frame", "time", "raw_from", monthly=False)
_MINUTES: Final = Kept("telemetry_minute", "bucket", "minutes_from", monthly=False)
_QUARTERS: Final = Kept("telemetry_quarter", "bucket", "quarters_from", monthly=True)
_HOLD_DAYS: Final = 30
"""How much longer frames are kept for an hour whose roll-up fails: long enough for a release that fixes the defect. Meanwhile
no partition with frames of these days is dropped, whichever organisation they belong to.
"""
_SOURCES_A_TRANSACTION: Final = 20
_ROWS_OF_A_SOURCE: Final = 2_000
"""The most rows of a source that a transaction deletes."""
TRIES: Final = 10
PAUSE_SECONDS: Final = 20.0
"""Between two tries while roll-ups are being computed."""
_MICROSECOND: Final = timedelta(microseconds=1)
"""The resolution of times in the database."""


async def apply_retention(database: Database, deployment: Days, now: datetime) -> bool:
    """Delete data that is too old at `now`. Returns False without any change if roll-ups are being computed."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    async with database.transaction() as db:
        if not await rollups.lock(db):
            return False
        # With a clock that is behind, starts would move to before deleted frames, and roll-ups would be computed without them.
        if not await is_clock_behind(db, now):
            for kept in (_RAW, _MINUTES, _QUARTERS):
                await store.correct_starts(db, kept, now)
        for organization_id, days in await store.limits(db, deployment):
            await _move_starts(db, organization_id, days, today)
        for source_id, hour in await store.give_up_hours(db):
            log.warning("hour without a roll-up given up", source_id=source_id, hour=hour.isoformat())
    for kept, days_kept in ((_RAW, deployment.raw), (_MINUTES, deployment.minute), (_QUARTERS, deployment.quarter)):
        await _remove(database, kept, days_before(today, days_kept))
    return True


async def apply_retention_between_roll_ups(database: Database, deployment: Days, now: datetime) -> None:
    """Delete data that is too old at `now`. While roll-ups are being computed, try again for a few minutes."""
    for _ in range(TRIES - 1):
        if await apply_retention(database, deployment, now):
            return
        await asyncio.sleep(PAUSE_SECONDS)
    if not await apply_retention(database, deployment, now):
        log.warning("retention not applied: roll-ups are being computed")


async def set_retention(
    db: Connection, slug: str, *, raw_days: int | None, minute_days: int | None, quarter_days: int | None
) -> None:
    """Set an organisation's retention in days; None uses the deployment's.

    Raises:
        LookupError: No organisation has the slug.
    """
    if not await store.set_limits(db, slug, raw_days, minute_days, quarter_days):
        raise LookupError(f"no organisation has the slug {slug}")


async def _move_starts(db: Connection, organization_id: UUID, days: Days, today: datetime) -> None:
    rolled_up = await store.rolled_up_before(db, organization_id)
    raw_limit = days_before(today, days.raw)
    raw_start = min(raw_limit, rolled_up.replace(hour=0))
    await store.move_start_of_frames(db, organization_id, raw_start, days_before(raw_limit, _HOLD_DAYS))
    await store.move_start(db, _MINUTES, organization_id, days_before(today, days.minute))
    await store.move_start(db, _QUARTERS, organization_id, days_before(today, days.quarter))


async def _remove(database: Database, kept: Kept, without_sources: datetime) -> None:
    async with database.transaction() as db:
        partitions = await store.partitions(db, kept)
        start = await store.earliest_start(db, kept) or without_sources
    try:
        await _drop(database, kept, partitions, start)
    except LockNotAvailable:
        # The next run tries again. Not this one for the next partition: ingest waits behind each try, for up to 5 s.
        log.warning("partitions not dropped: their table is in use", table=kept.table)
    async with database.transaction() as db:
        later = await store.sources_that_start_later(db, kept, start)
    by_start: dict[datetime, list[int]] = {}
    for source_id, own_start in later:
        by_start.setdefault(own_start, []).append(source_id)
    for own_start, sources in by_start.items():
        await _delete(database, kept, sources, own_start)


async def _drop(database: Database, kept: Kept, partitions: Sequence[tuple[str, date]], start: datetime) -> None:
    """Drop the partitions that end at `start` or before. Raises LockNotAvailable if a transaction reads the table for long."""
    for name in [name for name, first in partitions if _end(kept, first) <= start]:
        async with database.transaction() as db:
            await store.drop_partition(db, name)
        log.info("partition dropped", table=name)
    if not partitions:  # none yet, or TimescaleDB partitions the table
        async with database.transaction() as db:
            dropped = await store.drop_chunks(db, kept, start)
        if dropped:
            log.info("chunks dropped", table=kept.table, chunks=dropped)


async def _delete(database: Database, kept: Kept, sources: Sequence[int], start: datetime) -> None:
    """Delete in steps that each touch a part of one partition.

    A shorter retention may have to delete years of data, and a plant may have sent millions of frames in a day. One long
    statement would hit the statement timeout each time, and the data after it would never be deleted.
    """
    for first in range(0, len(sources), _SOURCES_A_TRANSACTION):
        some = sources[first : first + _SOURCES_A_TRANSACTION]
        while True:
            async with database.transaction() as db:
                oldest = await store.oldest_before(db, kept, some, start)
                if oldest is None:
                    break
                day = oldest.astimezone(UTC).date()
                end = min(start, _end(kept, day.replace(day=1) if kept.monthly else day))
                last = await store.nth_time(db, kept, some, oldest, end, _ROWS_OF_A_SOURCE)
                await store.delete_between(db, kept, some, oldest, end if last is None else last + _MICROSECOND)


def _end(kept: Kept, first: date) -> datetime:
    end = (first + timedelta(days=32)).replace(day=1) if kept.monthly else first + timedelta(days=1)
    return datetime(end.year, end.month, end.day, tzinfo=UTC)
