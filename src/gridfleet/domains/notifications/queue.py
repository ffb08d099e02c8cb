"""Queues notifications in the transaction of the change that they report."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import Channel
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection

__all__ = ["MOST_AT_ONCE", "Notice", "NotificationContent", "notify_each", "notify_members"]

log = structlog.get_logger(__name__)

MOST_AT_ONCE: Final = 10_000
"""The most deliveries of an organisation in one transaction and channel: ingest raises alerts while all plants wait."""


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

    Of each organisation, the first notifications that have at most `MOST_AT_ONCE` deliveries together.

    Returns the number of deliveries.
    """
    count = 0
    for channel in Channel:
        if due := await _with_room(db, channel, [one for one in notices if channel in one.channels]):
            rows = [store.NoticeRow(one.organization_id, *one.content, one.cause or current_cause()) for one in due]
            count += await store.queue_for_members(db, channel, rows, MOST_AT_ONCE)
    return count


async def _with_room(db: Connection, channel: Channel, notices: Sequence[Notice]) -> list[Notice]:
    wanted: dict[UUID, list[Notice]] = {}
    for one in notices:
        wanted.setdefault(one.organization_id, []).append(one)
    found: list[Notice] = []
    for organization_id, addresses in (await store.count_addresses(db, channel, list(wanted))).items() if wanted else ():
        own = wanted[organization_id]
        most = max(1, MOST_AT_ONCE // addresses)
        found += own[:most]
        if addresses > MOST_AT_ONCE or len(own) > most:
            log.warning(
                "too many notifications",
                organization_id=str(organization_id),
                channel=channel,
                addresses=addresses,
                left_out=len(own[most:]),
            )
    return found
