"""SQL of push tokens and of the delivery log, which is also the queue."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import class_row, kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.notifications.models import Channel, NotificationLog, NotificationStatus, Outgoing, PushToken
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import fetch_count, fetch_value
from gridfleet.kernel.pagination import Paging

_TOKEN = ", ".join(PushToken.__struct_fields__)
_LOG = ", ".join(NotificationLog.__struct_fields__)
_RECIPIENT = "m.role IN ('ORG_ADMIN', 'OPERATOR')"
_MEMBERS = (
    "WITH members AS (SELECT m.organization_id, u.id AS user_id, u.email, u.phone FROM membership m"
    " JOIN user_account u ON u.id = m.user_id WHERE m.organization_id = ANY(%b::uuid[]) AND u.disabled_at IS NULL"
    f" AND {_RECIPIENT})"
)
_OWNER = "FROM user_account u WHERE u.id = notification_log.user_id AND u.disabled_at IS NULL"
_WANTED = (
    "((metadata->>'organizationId' IS NULL OR EXISTS (SELECT FROM membership m WHERE m.user_id = notification_log.user_id"
    f" AND m.organization_id::text = metadata->>'organizationId' AND {_RECIPIENT})) AND address IS NOT DISTINCT FROM"
    f" CASE channel WHEN 'EMAIL' THEN (SELECT u.email {_OWNER}) WHEN 'SMS' THEN (SELECT u.phone {_OWNER})"
    " ELSE (SELECT t.token FROM push_token t WHERE t.token = address AND t.user_id = notification_log.user_id"
    f" AND EXISTS (SELECT {_OWNER})) END)"
)
_OUTGOING = ", ".join(f"{_WANTED} AS {name}" if name == "is_wanted" else name for name in Outgoing.__struct_fields__)

_ADDRESSES: Final = {
    Channel.PUSH: "SELECT organization_id, user_id, token AS address FROM members JOIN push_token USING (user_id)",
    Channel.EMAIL: "SELECT organization_id, user_id, email AS address FROM members",
    Channel.SMS: "SELECT organization_id, user_id, phone AS address FROM members WHERE phone IS NOT NULL",
}


class NoticeRow(NamedTuple):
    """A notification for an organisation, as it is stored."""

    organization_id: UUID
    subject: str
    body: str
    metadata: dict[str, Any]
    cause: dict[str, str] | None


def _log(**row: Any) -> NotificationLog:
    row["channel"] = Channel(row["channel"])
    row["status"] = NotificationStatus(row["status"])
    return NotificationLog(**row)


def _outgoing(**row: Any) -> Outgoing:
    row["channel"] = Channel(row["channel"])
    return Outgoing(**row)


async def register_token(db: Connection, token_id: UUID, user_id: UUID, token: str, platform: str | None) -> PushToken:
    """Register the token for this user, also if another user had it before, and return it."""
    cursor = db.cursor(row_factory=class_row(PushToken))
    await cursor.execute(
        "INSERT INTO push_token (id, user_id, token, platform) VALUES (%s, %s, %s, %s)"
        " ON CONFLICT (token) DO UPDATE SET user_id = excluded.user_id, platform = excluded.platform"
        f" RETURNING {_TOKEN}",
        (token_id, user_id, token, platform),
    )
    registered = await cursor.fetchone()
    assert registered is not None
    return registered


async def keep_newest_tokens(db: Connection, user_id: UUID, beside: UUID, most: int) -> None:
    """Delete a user's tokens except the token with the id `beside` and the `most` newest others."""
    await db.execute(
        "DELETE FROM push_token WHERE id IN"
        " (SELECT id FROM push_token WHERE user_id = %s AND id <> %s ORDER BY created_at DESC, id DESC OFFSET %s)",
        (user_id, beside, most),
    )


async def owner_of_token(db: Connection, token: str) -> UUID | None:
    """Return the user that has the token, or None."""
    return await fetch_value(db, "SELECT user_id FROM push_token WHERE token = %s", (token,))


async def delete_token(db: Connection, user_id: UUID, token: str) -> bool:
    """Delete a user's token. Returns False if they do not have it."""
    cursor = await db.execute("DELETE FROM push_token WHERE token = %s AND user_id = %s", (token, user_id))
    return cursor.rowcount == 1


async def drop_tokens(db: Connection, tokens: Sequence[str]) -> None:
    """Delete tokens that the push service reports as unregistered."""
    await db.execute("DELETE FROM push_token WHERE token = ANY(%s)", (list(tokens),))


async def count_addresses(db: Connection, channel: Channel, organization_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of addresses of each organisation's ORG_ADMINs and OPERATORs, of those that have one."""
    cursor = await db.execute(
        f"{_MEMBERS} SELECT organization_id, count(*) FROM ({_ADDRESSES[channel]}) AS a GROUP BY 1",
        (organization_ids,),
    )
    return dict(await cursor.fetchall())


async def queue_for_members(db: Connection, channel: Channel, notices: Sequence[NoticeRow], most: int) -> int:
    """Insert PENDING deliveries of each notice for each address of its organisation's ORG_ADMINs and OPERATORs, at most `most`
    addresses.

    Returns how many were inserted.
    """
    cursor = await db.execute(
        f"{_MEMBERS},"
        " notice AS (SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::jsonb[], %b::jsonb[])"
        " WITH ORDINALITY AS n (organization_id, subject, body, metadata, cause, position)),"
        " numbered AS (SELECT *, row_number() OVER (PARTITION BY organization_id ORDER BY user_id) AS number"
        f" FROM ({_ADDRESSES[channel]}) AS a)"
        " INSERT INTO notification_log (id, user_id, channel, address, subject, body, metadata, cause)"
        " SELECT gen_random_uuid(), a.user_id, %b::text, a.address, n.subject, n.body, n.metadata, n.cause"
        " FROM notice n JOIN numbered AS a USING (organization_id) WHERE a.number <= %b::bigint ORDER BY n.position",
        (
            list({notice.organization_id for notice in notices}),
            [notice.organization_id for notice in notices],
            [notice.subject for notice in notices],
            [notice.body for notice in notices],
            [Jsonb(notice.metadata) for notice in notices],
            [notice.cause and Jsonb(notice.cause) for notice in notices],
            channel,
            most,
        ),
    )
    return cursor.rowcount


async def page(db: Connection, paging: Paging) -> list[NotificationLog]:
    """Return one page of all deliveries, newest first."""
    cursor = db.cursor(row_factory=kwargs_row(_log))
    await cursor.execute(
        f"SELECT {_LOG} FROM notification_log ORDER BY created_at DESC, id DESC LIMIT %s OFFSET %s",
        (paging.limit, paging.offset),
    )
    return await cursor.fetchall()


async def count(db: Connection) -> int:
    """Return the number of deliveries in the log."""
    return await fetch_count(db, "SELECT count(*) FROM notification_log")


# As in the index `notification_log_turns`.
_ORGANIZATION: Final = "coalesce(metadata->>'organizationId', '')"
_WAITING: Final = "notification_log WHERE channel = %(channel)s AND due_at IS NOT NULL"


async def claim(db: Connection, channel: Channel, most: int, lease: timedelta) -> list[Outgoing]:
    """Claim up to `most` due deliveries and count the try.

    Organisations take turns: of each, the delivery that waits longest, then the second, until there are `most`. Claimed
    deliveries are due again after `lease`.
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
        " ORDER BY d.turn, d.due_at LIMIT %(most)s)"
        " UPDATE notification_log SET attempts = attempts + 1, due_at = clock_timestamp() + %(lease)s WHERE id IN ("
        " SELECT id FROM notification_log WHERE id IN (SELECT id FROM due) AND due_at <= now() FOR UPDATE SKIP LOCKED)"
        f" RETURNING {_OUTGOING}",
        {"channel": channel, "most": most, "lease": lease},
    )
    return await cursor.fetchall()


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


async def trim(db: Connection, older_than: timedelta) -> int:
    """Delete finished deliveries older than `older_than`. Returns how many."""
    cursor = await db.execute("DELETE FROM notification_log WHERE due_at IS NULL AND created_at < now() - %s", (older_than,))
    return cursor.rowcount
