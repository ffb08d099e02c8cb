"""Refused messages and unregistered devices."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import RefusalReason

__all__ = [
    "PlantRefusedMessage",
    "PlantUnregisteredDevice",
    "RefusedFilter",
    "RefusedMessage",
    "UnregisteredDevice",
    "UnregisteredSeen",
]


class RefusedMessage(msgspec.Struct, frozen=True, rename="camel"):
    """A message of a plant that was not stored, and the reason. `bytes` is the length of the message."""

    id: UUID
    received_at: datetime
    topic: str
    reason: RefusalReason
    detail: str
    message_id: str | None
    bytes: int


class UnregisteredSeen(NamedTuple):
    """An unregistered device in messages of its plant: how often it occurred, and the names of fields in its newest entry."""

    plant_id: UUID
    external_id: str
    seen_at: datetime
    times: int
    fields: list[str]


class UnregisteredDevice(msgspec.Struct, frozen=True, rename="camel"):
    """A device in a plant's snapshots that no sub-device of the plant matches.

    `fields` has the names of the first 50 fields of its newest entry with fields that a template can declare.
    """

    external_id: str
    first_seen_at: datetime
    last_seen_at: datetime
    count: int
    fields: list[str]


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
