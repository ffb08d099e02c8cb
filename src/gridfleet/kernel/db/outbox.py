"""SQL of the outbox."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.kernel.db.pool import Connection

__all__ = ["CHANNEL", "Effect", "claim", "insert", "next_due", "postpone", "strike_off"]

CHANNEL = "outbox"
"""The database notifies here, with the kind as payload, when effects were queued."""


class Effect(NamedTuple):
    """One queued effect; `attempts` were made before."""

    id: int
    kind: str
    payload: dict[str, Any]
    attempts: int
    created_at: datetime
    cause: dict[str, str] | None


async def insert(
    db: Connection, kind: str, key: str | None, payload: dict[str, Any], delay: timedelta, cause: dict[str, str] | None
) -> None:
    """Queues an effect, due `delay` from now."""
    await db.execute(
        "INSERT INTO outbox (kind, key, payload, due_at, cause) VALUES (%s, %s, %s, clock_timestamp() + %s, %s)",
        (kind, key, Jsonb(payload), delay, cause and Jsonb(cause)),
    )


async def claim(db: Connection, kind: str) -> Effect | None:
    """The oldest due effect of the kind that nobody works on and that waits for none before it with the same key; held by
    this transaction."""
    cursor = db.cursor(row_factory=class_row(Effect))
    await cursor.execute(
        "SELECT id, kind, payload, attempts, created_at, cause FROM outbox o WHERE kind = %s AND due_at <= clock_timestamp()"
        " AND (key IS NULL OR NOT EXISTS (SELECT FROM outbox e WHERE e.kind = o.kind AND e.key = o.key AND e.id < o.id))"
        " ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED",
        (kind,),
    )
    return await cursor.fetchone()


async def next_due(db: Connection, kind: str) -> float | None:
    """Seconds until an effect of the kind is due; None when there is none."""
    cursor = await db.execute(
        "SELECT extract(epoch FROM min(due_at) - clock_timestamp())::float8 FROM outbox"
        " WHERE kind = %s AND due_at > clock_timestamp()",
        (kind,),
    )
    row = await cursor.fetchone()
    return row[0] if row else None


async def strike_off(db: Connection, effect_id: int) -> None:
    """Removes an effect that was carried out, or given up."""
    await db.execute("DELETE FROM outbox WHERE id = %s", (effect_id,))


async def postpone(db: Connection, effect_id: int, wait: timedelta) -> None:
    """The effect failed; it is due again after `wait`."""
    await db.execute(
        "UPDATE outbox SET attempts = attempts + 1, due_at = clock_timestamp() + %s WHERE id = %s", (wait, effect_id)
    )
