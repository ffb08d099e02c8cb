"""Two transactions at the same time: wait until one of them is held up by the other."""

import asyncio

from gridfleet.kernel.db import Database

_BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
)


async def until_blocked(database: Database, count: int = 1) -> None:
    """Return once `count` connections to the database wait for a lock."""
    async with asyncio.timeout(10), database.autocommit() as db:
        while True:
            row = await (await db.execute(_BLOCKED)).fetchone()
            if row is not None and row[0] >= count:
                return
            await asyncio.sleep(0.01)
