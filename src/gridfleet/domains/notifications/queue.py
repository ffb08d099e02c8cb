"""Queues notifications in the transaction of the change that they report."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import Channel
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection

__all__ = ["Notice", "NotificationContent", "notify_each", "notify_members"]


class NotificationContent(NamedTuple):
    """The content of a notification. `metadata` is for apps, which use it to find the record."""

    subject: str
    body: str
    metadata: dict[str, Any]


class Notice(NamedTuple):
    """A notification for an organisation. Without a `cause`, its cause is the current one."""

    organization_id: UUID
    channels: Sequence[Channel]
    content: NotificationContent
    cause: dict[str, str] | None


async def notify_members(
    db: Connection, organization_id: UUID, channels: Sequence[Channel], content: NotificationContent
) -> int:
    """Queue one notification, as `notify_each` does."""
    return await notify_each(db, [Notice(organization_id, channels, content, None)])


async def notify_each(db: Connection, notices: Sequence[Notice]) -> int:
    """Queue each notification for its organisation's ORG_ADMINs and OPERATORs, by its channels.

    Returns the number of deliveries.
    """
    count = 0
    for channel in Channel:
        due = [
            store.NoticeRow(one.organization_id, *one.content, one.cause or current_cause())
            for one in notices
            if channel in one.channels
        ]
        if due:
            count += await store.queue_for_members(db, channel, due)
    return count
