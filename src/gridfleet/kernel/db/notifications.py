"""What other processes changed, as the database tells it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from psycopg import sql

from gridfleet.kernel.db.pool import NOTICE_A_DEAD_MACHINE, Connection, TidyConnection

__all__ = ["HEARTBEAT_SECONDS", "count_listeners", "heard_during", "listen", "notify"]

HEARTBEAT_SECONDS: Final = 1.0
"""How often a quiet connection is asked whether it still lives."""

_ANSWER_SECONDS: Final = 5.0


async def listen(
    url: str,
    channels: Sequence[str],
    on_listening: Callable[[], None],
    on_notice: Callable[[str, str], None],
    on_heartbeat: Callable[[], None] = lambda: None,
    name: str = "gridfleet-listen",
) -> None:
    """Calls `on_notice(channel, payload)` for each notification until the connection is lost, which raises.

    `on_listening` is called once notices can no longer be missed: what was cached before then may be stale.
    `on_heartbeat` is called about every HEARTBEAT_SECONDS as long as the database answers: a connection that silently
    died would look just like one that has nothing to tell. `name` shows in `pg_stat_activity`.
    """
    async with await TidyConnection.connect(
        url, autocommit=True, connect_timeout=5, application_name=name, **NOTICE_A_DEAD_MACHINE
    ) as connection:
        for channel in channels:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        on_listening()
        while True:
            async for notice in connection.notifies(timeout=HEARTBEAT_SECONDS):
                on_notice(notice.channel, notice.payload)
            async with asyncio.timeout(_ANSWER_SECONDS):
                await connection.execute("SELECT 1")
            on_heartbeat()


async def notify(db: Connection, channel: str, payload: str) -> None:
    """Tells those who listen on the channel, once the transaction is committed."""
    await db.execute("SELECT pg_notify(%s, %s)", (channel, payload))


async def count_listeners(db: Connection, name: str) -> int:
    """How many connections of that name the database has."""
    cursor = await db.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()", (name,)
    )
    row = await cursor.fetchone()
    return int(row[0]) if row else 0


async def heard_during(
    url: str, channel: str, work: Callable[[], Awaitable[None]], wanted: set[str], seconds: float
) -> set[str]:
    """Return the payloads that came on the channel while the work was done, or within some seconds afterwards.

    Returns early once all wanted ones have come.
    """
    heard: set[str] = set()
    async with await TidyConnection.connect(url, autocommit=True, connect_timeout=5) as connection:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        await work()
        async for notice in connection.notifies(timeout=seconds):
            heard.add(notice.payload)
            if wanted <= heard:
                break
    return heard
