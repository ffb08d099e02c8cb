"""Telemetry events: a plant's decoded values, recent ones only."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import UNSET
from msgspec.structs import replace

from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import event_id
from gridfleet.kernel.clock import whole_milliseconds
from gridfleet.protocol.partner_messages import DeviceValues, TelemetryEvent, encode_event
from gridfleet.protocol.partner_routes import EventKind

__all__ = ["MAX_AGE", "telemetry_events"]

MAX_AGE: Final = timedelta(minutes=15)
"""Older values are not published. They are read over REST."""
_MOST_BYTES: Final = 512 * 1024
"""The broker closes the channel of a message above 1 MiB. The values of one device never have as many bytes as this."""


def telemetry_events(
    organization_id: UUID,
    plant_id: UUID,
    message_id: str,
    time: datetime,
    values: dict[tuple[str | None, datetime], dict[str, float]],
) -> list[NewEvent]:
    """Return the event about one snapshot, or several if one would be too large for the broker.

    Args:
        message_id: Id that is unique within the plant's snapshots.
        time: Time of the snapshot.
        values: Values by metric for each external id, None for the plant itself, and time.

    Returns:
        The events. The same message gives the same event ids.
    """
    own = values.get((None, time), {})
    devices = [
        DeviceValues(external_id, found, UNSET if at == time else whole_milliseconds(at))
        for (external_id, at), found in values.items()
        if external_id is not None
    ]
    bodies = _bodies(TelemetryEvent(plant_id, whole_milliseconds(time), own, devices))
    facts = (plant_id, "telemetry", message_id, time.isoformat())
    return [
        NewEvent(event_id(*facts, *([part] if part else [])), organization_id, plant_id, None, EventKind.TELEMETRY, body)
        for part, body in enumerate(bodies)
    ]


def _bodies(event: TelemetryEvent) -> Iterator[bytes]:
    """Yield the event's body, or those of parts that are not too large, in the order of its devices."""
    body = encode_event(event)
    devices = event.devices
    if len(body) <= _MOST_BYTES or len(devices) + bool(event.values) < 2:
        yield body
        return
    middle = 0 if event.values else len(devices) // 2
    yield from _bodies(replace(event, devices=devices[:middle]))
    yield from _bodies(replace(event, values={}, devices=devices[middle:]))
