"""Events as they are queued and published."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.partners.models import AmqpKey
from gridfleet.protocol.partner_keys import EventKind

__all__ = ["NewEvent", "QueuedEvent", "recipients"]


class NewEvent(NamedTuple):
    """An event to queue. `event_id` is the same whenever the same thing is told again. `api_key_id`: for this key alone;
    None: for all that may see the plant. `request_id`: that of its cause, if not the one bound when it is queued."""

    event_id: UUID
    organization_id: UUID
    plant_id: UUID | None
    api_key_id: UUID | None
    kind: EventKind
    body: bytes
    request_id: str | None = None


class QueuedEvent(NamedTuple):
    """An event that waits; `id` is its place in the queue."""

    id: int
    event_id: UUID
    organization_id: UUID
    plant_id: UUID | None
    api_key_id: UUID | None
    kind: str
    body: bytes
    cause: dict[str, str] | None = None


def recipients(event: QueuedEvent, keys: Sequence[AmqpKey]) -> list[AmqpKey]:
    """Those of the organisation's keys to whose vhosts the event goes."""
    if event.api_key_id is not None:
        return [key for key in keys if key.id == event.api_key_id]
    return [key for key in keys if key.plant_ids is None or event.plant_id in key.plant_ids]
