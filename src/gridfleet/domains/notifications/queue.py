"""Queues notifications in the transaction of the change that they report."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import Channel
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection

__all__ = ["NotificationContent", "notify_members"]


class NotificationContent(NamedTuple):
    """The content of a notification. `metadata` is for apps, which use it to find the record."""

    subject: str
    body: str
    metadata: dict[str, Any]


async def notify_members(
    db: Connection, organization_id: UUID, channels: Iterable[Channel], content: NotificationContent
) -> int:
    """Queue the notification for the organisation's ORG_ADMINs and OPERATORs by these channels.

    Returns the number of deliveries.
    """
    return sum(
        [
            await store.queue_for_members(
                db,
                organization_id,
                channel,
                subject=content.subject,
                body=content.body,
                metadata=content.metadata,
                cause=current_cause(),
            )
            for channel in channels
        ]
    )
