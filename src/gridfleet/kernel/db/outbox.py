"""SQL of the outbox."""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from gridfleet.kernel.db.pool import Connection
from gridfleet.kernel.db.queries import fetch_value

__all__ = ["CHANNEL", "Effect", "claim", "correct_due", "delete_done", "insert", "next_due", "postpone", "waiting_values"]

CHANNEL = "outbox"
"""Notification channel for new effects. The payload is the kind."""

# As in the index `outbox_turns`.
_ORGANIZATION: Final = "coalesce(payload->>'organizationId', '')"
_OF_KIND: Final = "outbox WHERE kind = %(kind)s"


class Effect(NamedTuple):
    """A queued effect. `organization` is its organisation's id or '', `attempts` the number of previous attempts."""

    id: int
    kind: str
    organization: str
    payload: dict[str, Any]
    attempts: int
    cause: dict[str, str] | None


async def insert(db: Connection, kind: str, payload: dict[str, Any], delay: timedelta, cause: dict[str, str] | None) -> None:
    """Queue an effect, due `delay` from now."""
    await db.execute(
        "INSERT INTO outbox (kind, payload, due_at, cause) VALUES (%s, %s, clock_timestamp() + %s, %s)",
        (kind, Jsonb(payload), delay, cause and Jsonb(cause)),
    )


async def claim(db: Connection, kind: str, after: str) -> Effect | None:
    """Return a due effect of the kind, locked by this transaction; None if there is none.

    Skips effects that another process has locked.

    Args:
        db: A transaction that has just begun: effects that become due later are left out.
        kind: The kind.
        after: The organisation of the previous effect. The oldest due effect of the organisation with the next id is returned.
            After the last organisation comes the first.
    """
    cursor = db.cursor(row_factory=class_row(Effect))
    await cursor.execute(
        # Two look-ups in the index for each organisation, however many effects wait.
        f"WITH RECURSIVE organizations AS (SELECT min({_ORGANIZATION}) AS id FROM {_OF_KIND}"
        f" UNION ALL SELECT (SELECT min({_ORGANIZATION}) FROM {_OF_KIND} AND {_ORGANIZATION} > o.id)"
        " FROM organizations o WHERE o.id IS NOT NULL)"
        " SELECT due.* FROM (SELECT id FROM organizations WHERE id IS NOT NULL ORDER BY id <= %(after)s, id) AS o"
        f" CROSS JOIN LATERAL (SELECT id, kind, {_ORGANIZATION} AS organization, payload, attempts, cause FROM {_OF_KIND}"
        f" AND {_ORGANIZATION} = o.id AND due_at <= now() ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) AS due LIMIT 1",
        {"kind": kind, "after": after},
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


async def waiting_values(db: Connection, kind: str, name: str, least: int) -> set[str]:
    """Return the values that a member of the payload has in at least `least` effects of the kind, due or not.

    An effect that is being carried out counts too.
    """
    cursor = await db.execute(
        f"SELECT payload->>%(name)s FROM {_OF_KIND} GROUP BY 1 HAVING count(*) >= %(least)s",
        {"kind": kind, "name": name, "least": least},
    )
    return {row[0] for row in await cursor.fetchall()}


async def delete_done(db: Connection, effect_id: int) -> None:
    """Delete an effect that was executed or given up."""
    await db.execute("DELETE FROM outbox WHERE id = %s", (effect_id,))


async def postpone(db: Connection, effect_id: int, wait: timedelta) -> None:
    """Make a failed effect due again after `wait`."""
    await db.execute(
        "UPDATE outbox SET attempts = attempts + 1, due_at = clock_timestamp() + %s WHERE id = %s", (wait, effect_id)
    )


async def correct_due(db: Connection, longest_delay: timedelta, longest_wait: timedelta) -> int:
    """Make effects due that are due later than any delay. Returns how many.

    Args:
        db: The connection of a transaction.
        longest_delay: The longest delay of the first try.
        longest_wait: The longest time between two tries.
    """
    cursor = await db.execute(
        "UPDATE outbox o SET due_at = now() FROM (SELECT id FROM outbox WHERE due_at > now() + %s::interval"
        " AND due_at > now() + CASE attempts WHEN 0 THEN %s::interval ELSE '0' END FOR UPDATE SKIP LOCKED) AS ahead"
        " WHERE o.id = ahead.id",
        (longest_wait, longest_delay),
    )
    return cursor.rowcount
