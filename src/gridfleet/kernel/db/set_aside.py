"""SQL for items that are set aside and have no record of their own among the refusals that operators read."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.kernel.db.pool import Connection

__all__ = ["SetAside", "insert", "newest", "trim"]


class SetAside(NamedTuple):
    """One item. `content` is the item itself or identifies it."""

    at: datetime
    consumer: str
    reason: str
    content: dict[str, Any]
    cause: dict[str, str] | None


async def insert(db: Connection, consumer: str, reason: str, content: dict[str, Any], cause: dict[str, str] | None) -> None:
    """Store one item."""
    await db.execute(
        "INSERT INTO set_aside (consumer, reason, content, cause) VALUES (%s, %s, %s, %s)",
        (consumer, reason, Jsonb(content), cause and Jsonb(cause)),
    )


async def newest(db: Connection, limit: int) -> list[SetAside]:
    """Return the newest items, newest first."""
    cursor = db.cursor(row_factory=class_row(SetAside))
    await cursor.execute("SELECT at, consumer, reason, content, cause FROM set_aside ORDER BY id DESC LIMIT %s", (limit,))
    return await cursor.fetchall()


async def trim(db: Connection, older_than: timedelta) -> None:
    """Delete items older than `older_than`."""
    await db.execute("DELETE FROM set_aside WHERE at < now() - %s", (older_than,))
