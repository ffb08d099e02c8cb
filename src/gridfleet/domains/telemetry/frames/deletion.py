"""Delete the telemetry of deleted plants, in the background and in short transactions.

The sources of a deleted plant stay until their telemetry is deleted. They are the list of remaining work, so nothing is lost if
the job is interrupted.
"""

from datetime import UTC, datetime, time, timedelta
from typing import Final

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.models import Level
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.shards import settle

__all__ = ["erase_deleted"]

_SOURCES_AT_ONCE: Final = 100
"""How many are erased before the list is read again, so that other organisations have their turn."""
_ROWS_AT_ONCE: Final = 20_000
_MICROSECOND: Final = timedelta(microseconds=1)
"""The resolution of times in the database."""


async def erase_deleted(database: Database) -> int:
    """Delete all telemetry of deleted plants. Organisations take turns. Returns the number of sources.

    One transaction deletes some of a source's frames of a day, or of its buckets of a level: a source may have more than one
    statement can delete in its time, and the job would then never come to the next one. The job may be cancelled at any time;
    the next call continues.
    """
    erased = 0
    while True:
        async with database.transaction() as db:
            sources = await store.abandoned_sources(db, _SOURCES_AT_ONCE)
        for source_id in sources:
            await _empty(database, source_id)
            await _remove(database, source_id)
            erased += 1
        if len(sources) < _SOURCES_AT_ONCE:
            return erased


async def _empty(database: Database, source_id: int) -> None:
    async with database.transaction() as db:
        # Where an extension partitions the frames, no partition has the name of a day.
        days = sorted(await store.partition_days(db)) or await store.days_of_source(db, source_id)
    for day in days:
        start = datetime.combine(day, time(), UTC)
        await _delete_frames(database, source_id, start, start + timedelta(days=1))
    for level in Level:
        await _erase(database, source_id, level)


async def _delete_frames(database: Database, source_id: int, start: datetime, end: datetime) -> None:
    more = True
    while more:
        async with database.transaction() as db:
            last = await store.nth_time(db, source_id, start, end, _ROWS_AT_ONCE)
            more = last is not None
            until = last + _MICROSECOND if last is not None else end
            await store.delete_frames(db, source_id, start, until)
        start = until


async def _erase(database: Database, source_id: int, level: Level) -> None:
    more = True
    while more:
        async with database.transaction() as db:
            last = await rollups.nth_bucket(db, source_id, level, _ROWS_AT_ONCE)
            more = last is not None
            await rollups.erase(db, source_id, level, last)


async def _remove(database: Database, source_id: int) -> None:
    """Delete the source, and frames that were written in the meantime.

    No roll-up runs until this transaction ends. Ingest may still lock the source: it writes frames and newest values in one
    transaction, and newest values need the source. So either that transaction has committed before this one and its rows are
    visible here, or it fails.
    """
    async with database.transaction() as db:
        await rollups.hold_still(db)
        await store.hold_source(db, source_id)
        await store.delete_latest(db, source_id)
        await settle(db)
        await store.delete_frames(db, source_id)
        for level in Level:
            await rollups.erase(db, source_id, level)
        await rollups.delete_dirty(db, source_id)
        await store.delete_source(db, source_id)
