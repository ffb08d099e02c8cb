"""Records of queued and published events."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.partners.models import AmqpKey
from gridfleet.protocol.partner_keys import EventKind

__all__ = ["NewEvent", "QueuedEvent", "recipients"]


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


def recipients(event: QueuedEvent, keys: Sequence[AmqpKey]) -> list[AmqpKey]:
    """Return those of the organisation's keys to whose vhosts the event is published."""
    if event.api_key_id is not None:
        return [key for key in keys if key.id == event.api_key_id]
    return [key for key in keys if key.plant_ids is None or event.plant_id in key.plant_ids]
