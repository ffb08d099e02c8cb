"""The connection pool after its server went away and came back."""

import asyncio
import time

from gridfleet.kernel.db import open_database


async def test_connections_that_broke_while_idle_delay_nobody(database_url: str) -> None:
    async with open_database(database_url, name="pooled", size=8) as database:

        async def use() -> None:
            async with database.transaction() as db:
                await db.execute("SELECT pg_sleep(0.2)")

        while database.statistics()["pool_available"] < 8:
            await asyncio.gather(*(use() for _ in range(8)))
        async with open_database(database_url, name="other", size=1) as other, other.transaction() as db:
            cursor = await db.execute(
                "SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity"
                " WHERE application_name = 'pooled' AND datname = current_database()"
            )
            assert await cursor.fetchone() == (8,)

        began = time.monotonic()
        for _ in range(3):
            await use()
        await asyncio.gather(*(use() for _ in range(8)))
        assert time.monotonic() - began < 3
