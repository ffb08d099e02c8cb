"""SQL of preferences and of the delivery log as the queue of deliveries."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb
from pydantic.alias_generators import to_camel

from gridfleet.domains.notifications.models import (
    Channel,
    NotificationPreferences,
    Outgoing,
    QuietHours,
    TextOwner,
)
from gridfleet.domains.notifications.recipients.store import RECIPIENT
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import NOT_AHEAD, assignments, fetch_value

_OWNER = "FROM user_account u WHERE u.id = notification_log.user_id AND u.disabled_at IS NULL"
_WANTED = (
    "((metadata->>'organizationId' IS NULL OR EXISTS (SELECT FROM membership m WHERE m.user_id = notification_log.user_id"
    f" AND m.organization_id::text = metadata->>'organizationId' AND {RECIPIENT})) AND address IS NOT DISTINCT FROM"
    f" CASE channel WHEN 'EMAIL' THEN (SELECT u.email {_OWNER}) WHEN 'SMS' THEN (SELECT u.phone {_OWNER})"
    " ELSE (SELECT t.token FROM push_token t WHERE t.token = address AND t.user_id = notification_log.user_id"
    f" AND EXISTS (SELECT {_OWNER})) END AND coalesce((SELECT metadata->>'severity' ="
    " ANY (CASE channel WHEN 'PUSH' THEN p.push WHEN 'EMAIL' THEN p.email ELSE p.sms END)"
    " FROM notification_preference p WHERE p.user_id = notification_log.user_id), true))"
)
_QUIET_HOURS = (
    "(SELECT p.quiet_hours FROM notification_preference p WHERE p.user_id = notification_log.user_id"
    " AND p.quiet_hours->'severities' ? (metadata->>'severity'))"
)
_COMPUTED = {"is_wanted": f"{_WANTED} AS is_wanted", "quiet_hours": f"{_QUIET_HOURS} AS quiet_hours"}
_OUTGOING = ", ".join(_COMPUTED.get(name, name) for name in Outgoing.__struct_fields__)

_COLUMNS = [name for name in NotificationPreferences.__struct_fields__ if name != "phone"]


def _outgoing(**row: Any) -> Outgoing:
    row["channel"] = Channel(row["channel"])
    row["quiet_hours"] = row["quiet_hours"] and msgspec.convert(row["quiet_hours"], QuietHours)
    return Outgoing(**row)


async def load_preferences(db: Connection, user_id: UUID) -> NotificationPreferences:
    """Return a user's preferences, or those of users who have chosen nothing."""
    cursor = db.cursor(row_factory=kwargs_row(_preferences))
    columns = ", ".join(f"p.{name}" for name in _COLUMNS)
    await cursor.execute(
        f"SELECT {columns}, u.phone, p.user_id FROM user_account u LEFT JOIN notification_preference p ON p.user_id = u.id"
        " WHERE u.id = %s",
        (user_id,),
    )
    return await cursor.fetchone() or NotificationPreferences()


async def save_preferences(db: Connection, user_id: UUID, columns: Mapping[str, Any]) -> None:
    """Write some of a user's preferences. Those of a user who had none begin with the default ones."""
    first = msgspec.structs.asdict(NotificationPreferences(**columns))
    values = {name: _stored(first[name]) for name in _COLUMNS if name != "updated_at"}
    await db.execute(
        f"INSERT INTO notification_preference (user_id, {', '.join(values)})"
        f" VALUES (%(user_id)s, {', '.join(f'%({name})s' for name in values)})"
        f" ON CONFLICT (user_id) DO UPDATE SET {assignments(columns)}, updated_at = now()",
        {**values, "user_id": user_id},
    )


def _stored(value: Any) -> Any:
    if isinstance(value, QuietHours):
        return Jsonb(msgspec.to_builtins(value))
    return list(value) if isinstance(value, tuple) else value


def _preferences(user_id: UUID | None, **row: Any) -> NotificationPreferences:
    if user_id is None:
        return NotificationPreferences(phone=row["phone"])
    return msgspec.convert({to_camel(name): value for name, value in row.items()}, NotificationPreferences)


# As in the index `notification_log_turns`.
_ORGANIZATION: Final = "coalesce(metadata->>'organizationId', '')"
# As in the indexes `notification_log_texts`, `notification_log_texts_to` and `notification_log_texts_for`.
_TEXT_OWNERS: Final = {
    TextOwner.USER: "user_id = o.key::uuid",
    TextOwner.NUMBER: "address = o.key",
    TextOwner.SHARE: "address = split_part(o.key, ' ', 2) AND metadata->>'organizationId' = split_part(o.key, ' ', 1)",
    TextOwner.ORGANIZATION: "metadata->>'organizationId' = o.key",
    TextOwner.TESTS: "metadata->>'organizationId' IS NULL",
}
_WAITING: Final = "notification_log WHERE channel = %(channel)s AND due_at IS NOT NULL"


async def claim(db: Connection, channel: Channel, most: int, lease: timedelta, after: str) -> list[Outgoing]:
    """Claim up to `most` due deliveries and count the try.

    Organisations take turns: of each, the delivery that waits longest, then the second, until there are `most`. The turns begin
    with the organisation that follows `after`, the id of one as text or "". Claimed deliveries are due again after `lease`.
    """
    cursor = db.cursor(row_factory=kwargs_row(_outgoing))
    await cursor.execute(
        # One look-up in the index for each organisation, however many deliveries wait.
        f"WITH RECURSIVE organizations AS (SELECT min({_ORGANIZATION}) AS id FROM {_WAITING}"
        f" UNION ALL SELECT (SELECT min({_ORGANIZATION}) FROM {_WAITING} AND {_ORGANIZATION} > o.id)"
        " FROM organizations o WHERE o.id IS NOT NULL),"
        " due AS (SELECT d.id FROM organizations o CROSS JOIN LATERAL (SELECT n.id, n.due_at,"
        " row_number() OVER (ORDER BY n.due_at) AS turn FROM (SELECT id, due_at"
        f" FROM {_WAITING} AND {_ORGANIZATION} = o.id AND due_at <= now() ORDER BY due_at LIMIT %(most)s) AS n) AS d"
        # By age, an organisation with few deliveries would wait for the older ones of `most` others.
        " ORDER BY d.turn, d.turn = 1 AND o.id <= %(after)s, CASE d.turn WHEN 1 THEN o.id END, d.due_at LIMIT %(most)s)"
        " UPDATE notification_log SET attempts = attempts + 1, due_at = clock_timestamp() + %(lease)s WHERE id IN ("
        " SELECT id FROM notification_log WHERE id IN (SELECT id FROM due) AND due_at <= now() FOR UPDATE SKIP LOCKED)"
        f" RETURNING {_OUTGOING}",
        {"channel": channel, "most": most, "lease": lease, "after": after},
    )
    return await cursor.fetchall()


async def count_texts(db: Connection, owner: TextOwner, keys: Collection[str], period: timedelta, most: int) -> dict[str, int]:
    """Return the number of text messages sent to or for each of `keys` within `period`, at most `most`."""
    cursor = await db.execute(
        "SELECT o.key, (SELECT count(*) FROM (SELECT FROM notification_log"
        f" WHERE {_TEXT_OWNERS[owner]} AND channel = 'SMS' AND sent_at > now() - %s AND sent_at {NOT_AHEAD} LIMIT %s) AS texts)"
        " FROM unnest(%s::text[]) AS o (key)",
        (period, most, list(keys)),
    )
    return dict(await cursor.fetchall())


async def next_due(db: Connection, channel: Channel) -> float | None:
    """Return the seconds until a delivery by the channel is due, not below 0; None if there is none."""
    return await _seconds_until(
        db, "SELECT min(due_at) AS due_at FROM notification_log WHERE due_at IS NOT NULL AND channel = %s", (channel,)
    )


async def next_receipt_due(db: Connection) -> float | None:
    """Return the seconds until a receipt is due, not below 0; None if there is none."""
    return await _seconds_until(
        db, "SELECT min(receipt_due_at) AS due_at FROM notification_log WHERE receipt_due_at IS NOT NULL", ()
    )


async def _seconds_until(db: Connection, moment: str, values: Sequence[Channel]) -> float | None:
    # `greatest(0, NULL)` is 0: without the condition, an empty queue would always be due at once.
    return await fetch_value(
        db,
        "SELECT greatest(0, extract(epoch FROM due_at - clock_timestamp()))::float8"
        f" FROM ({moment}) AS first WHERE due_at IS NOT NULL",
        values,
    )


async def mark_sent(db: Connection, delivery_id: UUID, ticket: str | None, receipt_after: timedelta | None) -> None:
    """Mark a delivery as sent. A push message gets its ticket, and its receipt is due after `receipt_after`."""
    await db.execute(
        "UPDATE notification_log SET status = 'SENT', due_at = NULL, error = NULL, sent_at = now(), ticket = %s,"
        " receipt_due_at = clock_timestamp() + %s WHERE id = %s AND status = 'PENDING'",
        (ticket, receipt_after, delivery_id),
    )


async def mark_failed(db: Connection, delivery_id: UUID, attempts: int, error: str) -> bool:
    """Mark a delivery as failed. Returns False if it was finished or claimed again since its try number `attempts`."""
    cursor = await db.execute(
        "UPDATE notification_log SET status = 'FAILED', due_at = NULL, error = %s"
        " WHERE id = %s AND status = 'PENDING' AND attempts = %s",
        (error, delivery_id, attempts),
    )
    return cursor.rowcount > 0


async def mark_undelivered(db: Connection, delivery_id: UUID, error: str) -> None:
    """Mark a sent push message as failed, because the push service could not deliver it."""
    await db.execute(
        "UPDATE notification_log SET status = 'FAILED', receipt_due_at = NULL, error = %s WHERE id = %s AND status = 'SENT'",
        (error, delivery_id),
    )


async def postpone(db: Connection, delivery_id: UUID, attempts: int, error: str, wait: timedelta) -> bool:
    """Make a delivery due again after `wait`. Returns False if it was finished or claimed again since try `attempts`."""
    cursor = await db.execute(
        "UPDATE notification_log SET error = %s, due_at = clock_timestamp() + %s"
        " WHERE id = %s AND status = 'PENDING' AND attempts = %s",
        (error, wait, delivery_id, attempts),
    )
    return cursor.rowcount > 0


async def delay_until(db: Connection, delivery: Outgoing, until: datetime) -> None:
    """Make a claimed delivery due at `until` without counting the try, unless it was finished or claimed again.

    It is due a second from now at the earliest: if the database's clock is ahead of the caller's, `until` has passed, and the
    delivery would be claimed again without a pause until the caller's clock reaches it.

    Does nothing if the user's quiet hours were changed meanwhile: the delivery is due when its lease ends. A change that comes
    later waits for this transaction, and then finds the delivery.
    """
    await db.execute(
        "WITH preferred AS MATERIALIZED (SELECT user_id, quiet_hours FROM notification_preference"
        " WHERE user_id = (SELECT user_id FROM notification_log WHERE id = %(id)s) FOR SHARE)"
        " UPDATE notification_log n SET attempts = attempts - 1,"
        " due_at = greatest(%(until)s, clock_timestamp() + interval '1 s') FROM preferred p"
        " WHERE n.id = %(id)s AND n.status = 'PENDING' AND n.attempts = %(attempts)s"
        " AND p.user_id = n.user_id AND p.quiet_hours = %(quiet_hours)s",
        {
            "id": delivery.id,
            "until": until,
            "attempts": delivery.attempts,
            "quiet_hours": _stored(delivery.quiet_hours),
        },
    )


async def end_delays(db: Connection, user_id: UUID) -> None:
    """Make the user's newest 1,000 deliveries due that wait for the end of quiet hours, of the newest 10,000 of all.

    Those that wait for another try are unchanged. The caller holds the preferences, for which the worker of all users waits.
    """
    await db.execute(
        "UPDATE notification_log SET due_at = now() WHERE id IN (SELECT id FROM (SELECT id, status, due_at"
        " FROM notification_log WHERE user_id = %s ORDER BY created_at DESC, id DESC LIMIT 10000) AS newest"
        " WHERE status = 'PENDING' AND due_at > now() + interval '10 minutes' LIMIT 1000)",
        (user_id,),
    )


async def correct_due(db: Connection, longest_wait: timedelta, longest_quiet: timedelta) -> int:
    """Make deliveries due that are due later than any. Returns how many.

    Args:
        db: The connection of a transaction.
        longest_wait: The longest time between two tries.
        longest_quiet: The longest time until quiet hours end, for users who have quiet hours for the delivery.
    """
    cursor = await db.execute(
        "UPDATE notification_log SET due_at = now() WHERE id IN (SELECT id FROM notification_log"
        " WHERE due_at > now() + %s::interval AND (due_at > now() + %s::interval"
        f" OR {_QUIET_HOURS} IS NULL) FOR NO KEY UPDATE SKIP LOCKED)",
        (longest_wait, longest_quiet),
    )
    return cursor.rowcount


async def correct_receipts_due(db: Connection, longest_wait: timedelta) -> int:
    """Make receipts due that are due later than `longest_wait` from now. Returns how many."""
    cursor = await db.execute(
        "UPDATE notification_log SET receipt_due_at = now() WHERE id IN (SELECT id FROM notification_log"
        " WHERE receipt_due_at > now() + %s FOR NO KEY UPDATE SKIP LOCKED)",
        (longest_wait,),
    )
    return cursor.rowcount


async def claim_receipts(db: Connection, most: int, lease: timedelta) -> list[tuple[UUID, str, str]]:
    """Claim due receipts as (delivery id, ticket, token). They are due again after `lease`, until a day has passed."""
    cursor = await db.execute(
        "UPDATE notification_log SET receipt_due_at ="
        " CASE WHEN created_at > now() - interval '1 day' THEN clock_timestamp() + %s END WHERE id IN ("
        " SELECT id FROM notification_log WHERE receipt_due_at <= clock_timestamp()"
        " ORDER BY receipt_due_at LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id, ticket, address",
        (lease, most),
    )
    return await cursor.fetchall()


async def mark_delivered(db: Connection, delivery_id: UUID) -> None:
    """Mark a push message as delivered by the push service."""
    await db.execute("UPDATE notification_log SET receipt_due_at = NULL WHERE id = %s", (delivery_id,))


async def trim(db: Connection, older_than: timedelta, limit: int) -> int:
    """Delete at most `limit` finished deliveries older than `older_than`, without those that are locked. Returns how many."""
    cursor = await db.execute(
        "DELETE FROM notification_log WHERE id = ANY (ARRAY(SELECT id FROM notification_log"
        " WHERE due_at IS NULL AND created_at < now() - %s ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED))",
        (older_than, limit),
    )
    return cursor.rowcount
