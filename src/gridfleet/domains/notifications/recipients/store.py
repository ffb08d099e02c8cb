"""SQL of the recipients of notifications: which users get them, and their addresses by channel."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from psycopg.rows import kwargs_row
from psycopg.types.json import Jsonb

from gridfleet.domains.notifications.listing.store import LOG, log_record
from gridfleet.domains.notifications.models import Channel, NotificationLog, NotificationPreferences, Severity
from gridfleet.kernel.db import Connection

RECIPIENT: Final = "m.role IN ('ORG_ADMIN', 'OPERATOR')"
"""Condition of a membership `m`: its user gets the organisation's notifications."""
_SEVERITIES: Final = {channel: f"{channel.lower()}_severities" for channel in Channel}
"""The column of `members` with the severities that a user wants by a channel."""


def _wanted_severities(preference: str) -> str:
    """Return the columns of a row of preferences that may be absent, with the default ones for it."""
    default = NotificationPreferences()
    return ", ".join(
        f"coalesce({preference}.{channel.lower()}, '{{{','.join(getattr(default, channel.lower()))}}}') AS {name}"
        for channel, name in _SEVERITIES.items()
    )


_MEMBERS = (
    "WITH members AS (SELECT m.organization_id, u.id AS user_id, u.email, u.phone,"
    f" {_wanted_severities('p')} FROM membership m JOIN user_account u ON u.id = m.user_id"
    " LEFT JOIN notification_preference p ON p.user_id = u.id"
    f" WHERE m.organization_id = ANY(%b::uuid[]) AND u.disabled_at IS NULL AND {RECIPIENT})"
)

_ADDRESSES: Final = {
    Channel.PUSH: "SELECT members.*, token AS address FROM members JOIN push_token USING (user_id)",
    Channel.EMAIL: "SELECT members.*, email AS address FROM members",
    Channel.SMS: "SELECT members.*, phone AS address FROM members WHERE phone IS NOT NULL",
}


class NotificationRow(NamedTuple):
    """A notification for an organisation, as it is stored, for at most `most` addresses."""

    organization_id: UUID
    subject: str
    body: str
    metadata: dict[str, Any]
    cause: dict[str, str] | None
    severity: Severity | None
    most: int


AddressKey = tuple[UUID, Channel, Severity | None]
"""An organisation, a channel, and a severity. None stands for all addresses, regardless of the severities users chose."""


async def count_addresses(db: Connection, organization_ids: Sequence[UUID]) -> dict[AddressKey, int]:
    """Return the number of addresses of each organisation's ORG_ADMINs and OPERATORs, by channel and severity.

    The severity None counts all addresses of a channel. Combinations without addresses are left out.
    """
    cursor = await db.execute(
        f"{_MEMBERS}, addresses AS ("
        + " UNION ALL ".join(
            f"SELECT organization_id, '{channel}' AS channel, {_SEVERITIES[channel]} AS severities FROM ({addresses}) AS a"
            for channel, addresses in _ADDRESSES.items()
        )
        + ") SELECT organization_id, channel, severities, count(*) FROM addresses GROUP BY 1, 2, 3",
        (organization_ids,),
    )
    found: Counter[AddressKey] = Counter()
    for organization_id, channel, severities, number in await cursor.fetchall():
        for severity in (None, *map(Severity, severities)):
            found[organization_id, Channel(channel), severity] += number
    return found


async def queue_for_members(db: Connection, channel: Channel, notifications: Sequence[NotificationRow]) -> int:
    """Insert PENDING deliveries of each notification for this channel.

    The recipients are the addresses of its organisation's ORG_ADMINs and OPERATORs who chose its severity for the channel.

    Returns how many were inserted.
    """
    cursor = await db.execute(
        f"{_MEMBERS},"
        " notification AS (SELECT * FROM unnest(%b::uuid[], %b::text[], %b::text[], %b::jsonb[], %b::jsonb[], %b::text[],"
        " %b::bigint[]) WITH ORDINALITY AS n (organization_id, subject, body, metadata, cause, severity, most, position)),"
        " numbered AS (SELECT n.position, a.user_id, a.address,"
        " row_number() OVER (PARTITION BY n.position ORDER BY a.user_id) AS number"
        f" FROM notification n JOIN ({_ADDRESSES[channel]}) AS a USING (organization_id)"
        f" WHERE n.severity IS NULL OR n.severity = ANY ({_SEVERITIES[channel]}))"
        " INSERT INTO notification_log (id, user_id, channel, address, subject, body, metadata, cause)"
        " SELECT gen_random_uuid(), a.user_id, %b::text, a.address, n.subject, n.body, n.metadata, n.cause"
        " FROM notification n JOIN numbered AS a USING (position) WHERE a.number <= n.most ORDER BY position",
        (
            list({notification.organization_id for notification in notifications}),
            [notification.organization_id for notification in notifications],
            [notification.subject for notification in notifications],
            [notification.body for notification in notifications],
            [Jsonb(notification.metadata) for notification in notifications],
            [notification.cause and Jsonb(notification.cause) for notification in notifications],
            [notification.severity for notification in notifications],
            [notification.most for notification in notifications],
            channel,
        ),
    )
    return cursor.rowcount


async def queue_for_user(
    db: Connection,
    user_id: UUID,
    channel: Channel,
    subject: str,
    body: str,
    metadata: dict[str, Any],
    cause: dict[str, str] | None,
) -> list[NotificationLog]:
    """Insert a PENDING delivery for each address that a user has for a channel, and return them."""
    cursor = db.cursor(row_factory=kwargs_row(log_record))
    await cursor.execute(
        "WITH members AS (SELECT id AS user_id, email, phone FROM user_account WHERE id = %s)"
        " INSERT INTO notification_log (id, user_id, channel, address, subject, body, metadata, cause)"
        f" SELECT gen_random_uuid(), user_id, %s, address, %s, %s, %s, %s FROM ({_ADDRESSES[channel]}) AS a RETURNING {LOG}",
        (user_id, channel, subject, body, Jsonb(metadata), cause and Jsonb(cause)),
    )
    return await cursor.fetchall()
