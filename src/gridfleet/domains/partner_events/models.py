"""Records of events, and of the changes that cause them."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from gridfleet.protocol.partner_routes import EventKind

__all__ = ["AlertChange", "NewEvent", "QueuedEvent", "Room", "StatusChange", "Walk"]


class StatusChange(NamedTuple):
    """A change of a plant's status. `reason` is the plant's own, `silent` or `decommissioned`."""

    plant_id: UUID
    organization_id: UUID
    status: str
    at: datetime
    reason: str | None = None
    request_id: str | None = None


class AlertChange(NamedTuple):
    """An alert that was raised or changed its status."""

    alert_id: UUID
    organization_id: UUID
    plant_id: UUID
    type: str
    severity: str
    status: str
    message: str
    at: datetime
    request_id: str | None = None


class NewEvent(NamedTuple):
    """An event to queue.

    `event_id` is the same for each repetition of one event. `api_key_id` limits the event to one key; None sends it to all keys
    that may see the plant. `request_id` is that of the event's cause; None takes the one that is bound when the event is
    queued.
    """

    event_id: UUID
    organization_id: UUID
    plant_id: UUID | None
    api_key_id: UUID | None
    kind: EventKind
    body: bytes
    request_id: str | None = None


class QueuedEvent(NamedTuple):
    """An event that waits for the broker. `id` is its position in the queue."""

    id: int
    event_id: UUID
    organization_id: UUID
    plant_id: UUID | None
    api_key_id: UUID | None
    kind: str
    body: bytes
    cause: dict[str, str] | None = None


class Room(NamedTuple):
    """How many events of an organisation can be published now, and how many bytes: those of a body count `copies` times.

    A read begins at the id `start`.
    """

    events: int
    size: int
    copies: int
    start: int = 0

    def without(self, event: QueuedEvent) -> "Room":
        """Return the room that is left while the event is being published."""
        return self._replace(events=self.events - 1, size=self.size - len(event.body) * self.copies)


class Walk(NamedTuple):
    """A walk through the waiting telemetry events of an organisation, the newest first.

    Attributes:
        oldest: Id of the last event that was read.
        size: Bytes on disk of all that were read.
        dropped: Number of events that the last step deleted.
    """

    oldest: int
    size: int
    dropped: int
