"""What other processes changed, as the database tells it."""

from collections.abc import Callable, Sequence

from psycopg import AsyncConnection, sql

__all__ = ["listen"]


async def listen(
    url: str, channels: Sequence[str], on_listening: Callable[[], None], on_notice: Callable[[str, str], None]
) -> None:
    """Calls `on_notice(channel, payload)` for each notification until the connection is lost, which raises.

    `on_listening` is called once notices can no longer be missed: what was cached before then may be stale.
    """
    async with await AsyncConnection.connect(
        url, autocommit=True, connect_timeout=5, application_name="gridfleet-listen"
    ) as connection:
        for channel in channels:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        on_listening()
        async for notice in connection.notifies():
            on_notice(notice.channel, notice.payload)
    raise ConnectionError("the database closed the connection that listens")
