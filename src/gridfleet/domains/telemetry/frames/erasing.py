"""Erasing the telemetry of deleted plants, in the background and in pieces that hold nobody up.

A deleted plant leaves its sources behind; they are the list of what is still to be erased, so nothing is forgotten when the
work is cut short.
"""

from datetime import UTC, datetime, time, timedelta

from gridfleet.domains.telemetry.frames import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Database

__all__ = ["erase_deleted"]

_SYSTEM = SystemScope("the telemetry of deleted plants belongs to nobody")
_SOURCES_AT_ONCE = 1_000


async def erase_deleted(database: Database) -> int:
    """Erases everything of plants that are gone, one source and day a transaction; answers how many sources.

    May be cancelled at any moment: the next call goes on.
    """
    erased = 0
    while True:
        async with database.transaction() as db:
            sources = await store.abandoned_sources(db, _SYSTEM, _SOURCES_AT_ONCE)
            days = sorted(await store.partition_days(db, _SYSTEM))
        for source_id in sources:
            for day in days:
                start = datetime.combine(day, time(), UTC)
                async with database.transaction() as db:
                    await store.delete_frames(db, _SYSTEM, source_id, start, start + timedelta(days=1))
            async with database.transaction() as db:
                await store.delete_source(db, _SYSTEM, source_id)
            erased += 1
        if len(sources) < _SOURCES_AT_ONCE:
            return erased
