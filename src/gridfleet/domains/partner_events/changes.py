"""Events about statuses and alerts, queued in the transaction of the change."""

from collections.abc import Sequence

from msgspec import UNSET

from gridfleet.domains.partner_events.models import AlertChange, NewEvent, StatusChange
from gridfleet.domains.partner_events.queue import event_id, queue_events
from gridfleet.kernel.db import Connection
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.partner_messages import AlertEvent, StatusEvent, encode_event
from gridfleet.protocol.partner_routes import EventKind

__all__ = ["publish_alert_changes", "publish_status_changes"]


async def publish_status_changes(db: Connection, changes: Sequence[StatusChange]) -> None:
    """Queue an event about each change, in one statement. The caller leaves out changes that no partner receives."""
    await queue_events(db, [_status_event(change) for change in changes])


async def publish_alert_changes(db: Connection, changes: Sequence[AlertChange]) -> None:
    """Queue an event about each change, in one statement. The caller leaves out changes that no partner receives."""
    await queue_events(db, [_alert_event(change) for change in changes])


def _status_event(change: StatusChange) -> NewEvent:
    reason = UNSET if change.reason is None else change.reason
    body = encode_event(StatusEvent(change.plant_id, change.status, format_time(change.at), reason))
    identity = event_id(change.plant_id, "status", change.status, change.at.isoformat())
    return NewEvent(identity, change.organization_id, change.plant_id, None, EventKind.STATUS, body, change.request_id)


def _alert_event(change: AlertChange) -> NewEvent:
    body = encode_event(
        AlertEvent(
            change.alert_id,
            change.plant_id,
            change.type,
            change.severity,
            change.status,
            change.message,
            format_time(change.at),
        )
    )
    # An alert has each status once.
    identity = event_id(change.alert_id, change.status)
    return NewEvent(identity, change.organization_id, change.plant_id, None, EventKind.ALERT, body, change.request_id)
