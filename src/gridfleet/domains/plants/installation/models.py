"""Refused messages and sightings."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import RefusalReason

__all__ = ["RefusedMessage", "Sighting"]


class RefusedMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a plant that was not stored, and why. `bytes` is the message's length."""

    id: UUID
    received_at: datetime
    topic: str
    reason: RefusalReason
    detail: str
    message_id: str | None
    bytes: int


class Sighting(msgspec.Struct, frozen=True, rename="camel"):
    """A device that a plant speaks of and nobody has registered."""

    external_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    count: int
