"""Commands as they are stored, and the steps of their lives."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import AckStatus, CommandType

__all__ = [
    "LONGEST_WAIT",
    "OPEN",
    "Acknowledgement",
    "CommandLife",
    "CommandReason",
    "CommandStatus",
    "CommandType",
    "DueCommand",
    "NewCommand",
    "PlantCommand",
    "Requester",
    "Transition",
]


LONGEST_WAIT: Final = timedelta(hours=24)
"""How long a command waits for its plant at most."""


class CommandStatus(StrEnum):
    """How far a command has come."""

    PENDING = "PENDING"
    SENT = "SENT"
    RECEIVED = "RECEIVED"
    APPLIED = "APPLIED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


OPEN: Final = frozenset({CommandStatus.PENDING, CommandStatus.SENT, CommandStatus.RECEIVED})
"""States that another one can follow."""


class CommandReason(msgspec.Struct, frozen=True):
    """Why a command ended as it did."""

    code: str
    message: str


class Requester(msgspec.Struct, frozen=True):
    """Who asked for a command; `id` is None for nobody in particular."""

    type: str
    id: str | None


class NewCommand(NamedTuple):
    """A command to store. `instruction` holds the members of the plant's Command beyond ids and times, as they travel. It is
    sent from `due_at` on, at once by default."""

    id: UUID
    plant_id: UUID
    sub_device_id: UUID | None
    type: CommandType
    target: str | None
    instruction: dict[str, Any]
    requester: Requester
    issued_at: datetime
    expires_at: datetime
    due_at: datetime | None = None


class PlantCommand(msgspec.Struct, frozen=True, rename="camel"):
    """A command to a sub-device as it is answered."""

    id: UUID
    plant_id: UUID
    external_id: str | None
    action: str | None
    params: dict[str, Any] | None
    status: CommandStatus
    issued_at: datetime
    expires_at: datetime
    sent_at: datetime | None
    received_at: datetime | None
    finished_at: datetime | None
    reason: CommandReason | None
    requested_by: Requester


class CommandLife(msgspec.Struct, frozen=True):
    """What the rules of a command's life look at, and what they change."""

    id: UUID
    plant_id: UUID
    status: CommandStatus
    issued_at: datetime
    expires_at: datetime
    sent_at: datetime | None = None
    received_at: datetime | None = None
    finished_at: datetime | None = None
    reason: CommandReason | None = None


class Transition(NamedTuple):
    """A step in a command's life, at the service's time; a `late` one came after the end and changed nothing.

    `reported_at` is the time that the plant gave with its word, `request_id` that of the plant's message.
    """

    command_id: UUID
    plant_id: UUID
    status: CommandStatus
    at: datetime
    late: bool = False
    reported_at: datetime | None = None
    reason: CommandReason | None = None
    request_id: str | None = None


class Acknowledgement(NamedTuple):
    """A plant's word on a command, and the request id of its message."""

    command_id: UUID
    plant_id: UUID
    status: AckStatus
    reported_at: datetime
    reason: CommandReason | None = None
    request_id: str | None = None


class DueCommand(NamedTuple):
    """A command whose turn to be sent it is. `claim` is the moment until which nobody else sends it."""

    id: UUID
    plant_id: UUID
    type: str
    target: str | None
    instruction: dict[str, Any]
    issued_at: datetime
    expires_at: datetime
    status: str
    attempts: int
    claim: datetime
    cause: dict[str, str] | None
