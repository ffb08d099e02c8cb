"""Builder of notifications without an alert."""

from collections.abc import Sequence
from uuid import UUID

from gridfleet.domains.notifications.models import Channel
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.kernel.db import Connection

__all__ = ["notify_members"]


async def notify_members(
    db: Connection, organization_id: UUID, channels: Sequence[Channel], content: NotificationContent
) -> int:
    """Queue one notification without a severity, as `notify_each` does."""
    return await notify_each(db, [Notification(organization_id, content, None, None, channels)])
