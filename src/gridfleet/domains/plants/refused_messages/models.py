"""Refused messages and unregistered devices."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import RefusalReason

__all__ = ["RefusedMessage", "UnregisteredDevice"]


class RefusedMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a plant that was not stored, and the reason. `bytes` is the length of the message."""

    id: UUID
    received_at: datetime
    topic: str
    reason: RefusalReason
    detail: str
    message_id: str | None
    bytes: int


class UnregisteredDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device in a plant's snapshots that no sub-device of the plant matches."""

    external_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    count: int
