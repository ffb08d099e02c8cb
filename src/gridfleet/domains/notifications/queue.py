"""Queues notifications in the transaction of the change that they report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from gridfleet.domains.notifications.models import Channel, Severity
from gridfleet.domains.notifications.recipients import store
from gridfleet.domains.notifications.recipients.store import AddressKey
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection

__all__ = ["MOST_AT_ONCE", "Notification", "NotificationContent", "notify_each"]

log = structlog.get_logger(__name__)

MOST_AT_ONCE: Final = 10_000
"""The most deliveries of an organisation in one transaction and channel: ingest raises alerts while all plants wait."""


class NotificationContent(NamedTuple):
    """The content of a notification. `metadata` is for apps, which use it to find the record."""

    subject: str
    body: str
    metadata: dict[str, Any]


class Notification(NamedTuple):
    """A notification for an organisation.

    Without a `cause`, its cause is the current one. Without a `severity`, every user gets it, by each of `channels`.
    """

    organization_id: UUID
    content: NotificationContent
    cause: dict[str, str] | None
    severity: Severity | None
    channels: Sequence[Channel] = tuple(Channel)


async def notify_each(db: Connection, notifications: Sequence[Notification]) -> int:
    """Queue each notification for its organisation's ORG_ADMINs and OPERATORs, by the channels that they want for its severity.

    Of each organisation and channel, the first notifications that have at most `MOST_AT_ONCE` deliveries together.

    Returns the number of deliveries.
    """
    if not notifications:
        return 0
    count = 0
    addresses = await store.count_addresses(db, list({notification.organization_id for notification in notifications}))
    for channel in Channel:
        if due := _with_room(channel, notifications, addresses):
            rows = [
                store.NotificationRow(one.organization_id, *one.content, one.cause or current_cause(), one.severity)
                for one in due
            ]
            count += await store.queue_for_members(db, channel, rows, MOST_AT_ONCE)
    return count


def _with_room(
    channel: Channel, notifications: Sequence[Notification], addresses: Mapping[AddressKey, int]
) -> list[Notification]:
    """Return the notifications that are queued for a channel: those that have recipients and room."""
    found: list[Notification] = []
    queued: Counter[UUID] = Counter()
    left_out: Counter[UUID] = Counter()
    most: dict[UUID, int] = {}
    for notification in notifications:
        organization_id = notification.organization_id
        count = addresses.get((organization_id, channel, notification.severity), 0)
        if channel not in notification.channels or not count:
            continue
        most[organization_id] = max(count, most.get(organization_id, 0))
        # The first is queued in any case, for as many addresses as there is room for.
        if left_out[organization_id] or (queued[organization_id] and queued[organization_id] + count > MOST_AT_ONCE):
            left_out[organization_id] += 1
        else:
            queued[organization_id] += count
            found.append(notification)
    for organization_id, count in most.items():
        if count > MOST_AT_ONCE or left_out[organization_id]:
            log.warning(
                "too many notifications",
                organization_id=str(organization_id),
                channel=channel,
                addresses=count,
                left_out=left_out[organization_id],
            )
    return found
