"""Database notifications: changes that other processes have published."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from psycopg import sql

from gridfleet.kernel.db.pool import (
    LET_THE_SERVER_NOTICE,
    NOTICE_A_DEAD_MACHINE,
    Connection,
    TidyConnection,
    cancellation_first,
)
from gridfleet.kernel.db.queries import fetch_count

__all__ = ["HEARTBEAT_SECONDS", "count_listeners", "listen", "notify", "notify_all", "received_during"]

HEARTBEAT_SECONDS: Final = 1.0
"""Interval of the checks whether an idle connection is alive."""

_ANSWER_SECONDS: Final = 5.0


async def listen(
    url: str,
    channels: Sequence[str],
    on_listening: Callable[[], None],
    on_notification: Callable[[str, str], None],
    on_heartbeat: Callable[[], None] = lambda: None,
    name: str = "gridfleet-listen",
) -> None:
    """Call `on_notification(channel, payload)` for each notification until the connection is lost, which raises.

    Args:
        url: The database.
        channels: The channels to listen on.
        on_listening: Called when no notification can be missed any more. Entries cached before this time may be stale.
        on_notification: Called for each notification.
        on_heartbeat: Called about every HEARTBEAT_SECONDS while the database responds. Without it, a dead connection could not
            be distinguished from an idle one.
        name: Name of the connection in `pg_stat_activity`.
    """
    with cancellation_first():
        async with await TidyConnection.connect(
            url,
            autocommit=True,
            connect_timeout=5,
            application_name=name,
            options=LET_THE_SERVER_NOTICE,
            **NOTICE_A_DEAD_MACHINE,
        ) as connection:
            for channel in channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            on_listening()
            while True:
                async for notification in connection.notifies(timeout=HEARTBEAT_SECONDS):
                    on_notification(notification.channel, notification.payload)
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await connection.execute("SELECT 1")
                on_heartbeat()


async def notify(db: Connection, channel: str, payload: str) -> None:
    """Publish a notification on the channel when the transaction is committed."""
    await db.execute("SELECT pg_notify(%s, %s)", (channel, payload))


async def notify_all(db: Connection, channel: str, payloads: Sequence[str]) -> None:
    """Publish several notifications on the channel in one statement."""
    await db.execute("SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS p (payload)", (channel, list(payloads)))


async def count_listeners(db: Connection, name: str) -> int:
    """Return the number of the database's connections with that name."""
    return await fetch_count(
        db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()", (name,)
    )


async def received_during(
    url: str, channel: str, work: Callable[[], Awaitable[None]], wanted: set[str], seconds: float
) -> set[str]:
    """Return the payloads that arrive on the channel during `work`, or within `seconds` afterwards.

    Returns early when all `wanted` ones have arrived.
    """
    received: set[str] = set()
    async with await TidyConnection.connect(url, autocommit=True, connect_timeout=5) as connection:
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        await work()
        async for notification in connection.notifies(timeout=seconds):
            received.add(notification.payload)
            if wanted <= received:
                break
    return received
