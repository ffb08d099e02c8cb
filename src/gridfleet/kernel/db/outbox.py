"""SQL of the outbox."""

from datetime import timedelta
from typing import Any, NamedTuple

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.kernel.db.pool import Connection
from gridfleet.kernel.db.queries import fetch_value

__all__ = ["CHANNEL", "Effect", "claim", "delete_done", "insert", "next_due", "postpone"]

CHANNEL = "outbox"
"""Notification channel for new effects. The payload is the kind."""


class Effect(NamedTuple):
    """A queued effect. `attempts` is the number of previous attempts."""

    id: int
    kind: str
    payload: dict[str, Any]
    attempts: int
    cause: dict[str, str] | None


async def insert(
    db: Connection, kind: str, key: str | None, payload: dict[str, Any], delay: timedelta, cause: dict[str, str] | None
) -> None:
    """Queue an effect, due `delay` from now."""
    await db.execute(
        "INSERT INTO outbox (kind, key, payload, due_at, cause) VALUES (%s, %s, %s, clock_timestamp() + %s, %s)",
        (kind, key, Jsonb(payload), delay, cause and Jsonb(cause)),
    )


async def claim(db: Connection, kind: str) -> Effect | None:
    """Return the oldest due effect of the kind, locked by this transaction; None if there is none.

    Skips effects that another process has locked, and those behind an earlier effect with the same key.
    """
    cursor = db.cursor(row_factory=class_row(Effect))
    await cursor.execute(
        "SELECT id, kind, payload, attempts, cause FROM outbox o WHERE kind = %s AND due_at <= clock_timestamp()"
        " AND (key IS NULL OR NOT EXISTS (SELECT FROM outbox e WHERE e.kind = o.kind AND e.key = o.key AND e.id < o.id))"
        " ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED",
        (kind,),
    )
    return await cursor.fetchone()


async def next_due(db: Connection, kind: str) -> float | None:
    """Return the seconds until an effect of the kind is due; None if there is no effect."""
    return await fetch_value(
        db,
        "SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM outbox"
        " WHERE kind = %s AND due_at > clock_timestamp()",
        (kind,),
    )


async def delete_done(db: Connection, effect_id: int) -> None:
    """Delete an effect that was executed or given up."""
    await db.execute("DELETE FROM outbox WHERE id = %s", (effect_id,))


async def postpone(db: Connection, effect_id: int, wait: timedelta) -> None:
    """Make a failed effect due again after `wait`."""
    await db.execute(
        "UPDATE outbox SET attempts = attempts + 1, due_at = clock_timestamp() + %s WHERE id = %s", (wait, effect_id)
    )
