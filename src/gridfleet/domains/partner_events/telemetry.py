"""Telemetry events: a plant's decoded values, recent ones only."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import UNSET

from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import event_id
from gridfleet.protocol.partner_messages import DeviceValues, TelemetryEvent, encode_event
from gridfleet.protocol.partner_routes import EventKind

__all__ = ["MAX_AGE", "telemetry_event"]

MAX_AGE: Final = timedelta(minutes=15)
"""Older values are not published. They are read over REST."""


def telemetry_event(
    organization_id: UUID,
    plant_id: UUID,
    message_id: str,
    time: datetime,
    values: dict[tuple[str | None, datetime], dict[str, float]],
) -> NewEvent:
    """Return the event about one snapshot.

    Args:
        message_id: Id that is unique within the plant's snapshots.
        time: Time of the snapshot.
        values: Values by metric for each external id, None for the plant itself, and time.

    Returns:
        The event. The same message gives the same event id.
    """
    own = values.get((None, time), {})
    devices = [
        DeviceValues(external_id, found, UNSET if at == time else _whole_milliseconds(at))
        for (external_id, at), found in values.items()
        if external_id is not None
    ]
    body = encode_event(TelemetryEvent(plant_id, _whole_milliseconds(time), own, devices))
    identity = event_id(plant_id, "telemetry", message_id, time.isoformat())
    return NewEvent(identity, organization_id, plant_id, None, EventKind.TELEMETRY, body)


def _whole_milliseconds(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)
