"""Queues notifications in the transaction of the change that they report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog

from gridfleet.domains.notifications.models import LESS_SEVERE, Channel, Severity
from gridfleet.domains.notifications.recipients import store
from gridfleet.domains.notifications.recipients.store import AddressKey
from gridfleet.kernel.cause import current_cause
from gridfleet.kernel.db import Connection
from gridfleet.kernel.hourly import HourlyAmounts

__all__ = ["MOST_AN_HOUR", "MOST_AT_ONCE", "Notification", "NotificationContent", "notify_each"]

log = structlog.get_logger(__name__)

MOST_AT_ONCE: Final = 10_000
"""The most deliveries of an organisation in one transaction and channel: ingest raises alerts while all plants wait."""

MOST_AN_HOUR: Final[Mapping[Channel, int]] = {Channel.PUSH: 20_000, Channel.EMAIL: 2_000, Channel.SMS: 2_000}
"""The most deliveries of an organisation in an hour, in each process: the log, the mail relay and their disk serve all.

INFO and WARNING have half of it, so that they do not use up the hour of the more severe, and of what is sent only once.
Transactions at the same time may exceed it, each once by what it queues.
"""

_Recipients = tuple[UUID, Channel]

_queued_in_hour: Final = HourlyAmounts[_Recipients]()


class NotificationContent(NamedTuple):
    """The content of a notification. `metadata` is for apps, which use it to find the record."""

    subject: str
    body: str
    metadata: dict[str, Any]


class Notification(NamedTuple):
    """A notification for an organisation.

    Without a `cause`, its cause is the current one. Without a `severity`, every user gets it, by each of `channels`.
    `is_sent_once` says that nothing reports the same later, so it may use the whole hour regardless of its severity.
    """

    organization_id: UUID
    content: NotificationContent
    cause: dict[str, str] | None
    severity: Severity | None
    channels: Sequence[Channel] = tuple(Channel)
    is_sent_once: bool = False


async def notify_each(db: Connection, notifications: Sequence[Notification]) -> int:
    """Queue each notification for its organisation's ORG_ADMINs and OPERATORs, by the channels that they want for its severity.

    Of each organisation and channel, the first notifications that have at most `MOST_AT_ONCE` deliveries together, and
    `MOST_AN_HOUR` with those of earlier transactions.

    Returns the number of deliveries.
    """
    if not notifications:
        return 0
    count = 0
    addresses = await store.count_addresses(db, list({notification.organization_id for notification in notifications}))
    for channel in Channel:
        if due := _with_room(db, channel, notifications, addresses):
            rows = [
                store.NotificationRow(one.organization_id, *one.content, one.cause or current_cause(), one.severity, most)
                for one, most in due
            ]
            count += await store.queue_for_members(db, channel, rows)
    return count


def _with_room(
    db: Connection, channel: Channel, notifications: Sequence[Notification], addresses: Mapping[AddressKey, int]
) -> list[tuple[Notification, int]]:
    """Return the notifications that are queued for a channel, those that have recipients and room, with their most addresses.

    Their deliveries are counted in the hour if the transaction commits.
    """
    found: list[tuple[Notification, int]] = []
    queued: Counter[UUID] = Counter()
    left_out: Counter[UUID] = Counter()
    most: dict[UUID, int] = {}
    cut: set[UUID] = set()
    for notification in notifications:
        organization_id = notification.organization_id
        count = addresses.get((organization_id, channel, notification.severity), 0)
        if channel not in notification.channels or not count:
            continue
        most[organization_id] = max(count, most.get(organization_id, 0))
        room = _room(notification, channel) - queued[organization_id]
        if left_out[organization_id] or room <= 0 or (queued[organization_id] and count > room):
            left_out[organization_id] += 1
            continue
        if count > room:  # the first is queued for as many addresses as there is room for
            cut.add(organization_id)
        found.append((notification, room if count > room else MOST_AT_ONCE))
        queued[organization_id] += min(count, room)
    for organization_id, count in queued.items():
        if count:
            _queued_in_hour.add_after_commit(db, (organization_id, channel), count)
    for organization_id, count in most.items():
        if organization_id in cut or left_out[organization_id]:
            log.warning(
                "too many notifications",
                organization_id=str(organization_id),
                channel=channel,
                addresses=count,
                left_out=left_out[organization_id],
            )
    return found


def _room(notification: Notification, channel: Channel) -> int:
    """Return how many deliveries the notification's organisation may queue in a transaction that begins now."""
    has_half = notification.severity in LESS_SEVERE and not notification.is_sent_once
    queued = _queued_in_hour.of((notification.organization_id, channel))
    return min(MOST_AT_ONCE, MOST_AN_HOUR[channel] // (2 if has_half else 1) - queued)
