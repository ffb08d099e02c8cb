"""Delete the telemetry of deleted plants, in the background and in short transactions.

The sources of a deleted plant stay until their telemetry is deleted. They are the list of remaining work, so nothing is lost if
the job is interrupted.
"""

from datetime import UTC, datetime, time, timedelta

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.models import Level
from gridfleet.kernel.db import Database

__all__ = ["erase_deleted"]

_SOURCES_AT_ONCE = 1_000


async def erase_deleted(database: Database) -> int:
    """Delete all telemetry of deleted plants. Returns the number of sources.

    One transaction deletes one source's frames of a day, or its buckets of a level. The job may be cancelled at any time; the
    next call continues.
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
        days = sorted(await store.partition_days(db))
    for day in days:
        start = datetime.combine(day, time(), UTC)
        async with database.transaction() as db:
            await store.delete_frames(db, source_id, start, start + timedelta(days=1))
    for level in Level:
        async with database.transaction() as db:
            await rollups.erase(db, source_id, level)


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
        await store.delete_frames(db, source_id)
        for level in Level:
            await rollups.erase(db, source_id, level)
        await rollups.delete_dirty(db, source_id)
        await store.delete_source(db, source_id)
