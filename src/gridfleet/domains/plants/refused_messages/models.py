"""Refused messages and unregistered devices."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import RefusalReason

__all__ = ["PlantRefusedMessage", "PlantUnregisteredDevice", "RefusedFilter", "RefusedMessage", "UnregisteredDevice"]


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


class PlantRefusedMessage(RefusedMessage, frozen=True, rename="camel"):
    """A refused message in a list of several plants."""

    plant_id: UUID
    plant_name: str


class PlantUnregisteredDevice(UnregisteredDevice, frozen=True, rename="camel"):
    """An unregistered device in a list of several plants."""

    plant_id: UUID
    plant_name: str


class RefusedFilter(msgspec.Struct, frozen=True):
    """Conditions of a list of refused messages or unregistered devices. None, and an empty set, select all.

    Attributes:
        since: The first time of receipt, or at which a device was first seen.
        until: The end of these times, exclusive.
    """

    plant_id: UUID | None = None
    reasons: frozenset[RefusalReason] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
