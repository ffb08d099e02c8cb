"""Commands as they are stored, and their steps."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.kernel.db import Connection
from gridfleet.protocol.envelope import AckStatus, CommandReason, CommandType

__all__ = [
    "LONGEST_WAIT",
    "OPEN",
    "Acknowledgement",
    "CommandLife",
    "CommandReason",
    "CommandStatus",
    "CommandType",
    "DueCommand",
    "FollowSteps",
    "NewPlantCommand",
    "PlantCommand",
    "Requester",
    "Transition",
]


LONGEST_WAIT: Final = timedelta(hours=24)
"""The longest time that a command waits for its plant."""


class CommandStatus(StrEnum):
    """The state of a command."""

    PENDING = "PENDING"
    SENT = "SENT"
    RECEIVED = "RECEIVED"
    APPLIED = "APPLIED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


OPEN: Final = frozenset({CommandStatus.PENDING, CommandStatus.SENT, CommandStatus.RECEIVED})
"""States that are not final."""


class Requester(msgspec.Struct, frozen=True):
    """The author of a command; `id` is None if the service itself issued it."""

    type: str
    id: str | None


class AppliedPower(NamedTuple):
    """A setpoint, mode or schedule that a plant has applied.

    `finished_at` is the time of the plant's acknowledgement; `power_kw` is that of the command, None where it has none.
    `ends_at` is the end of its duration, None without one: a partner's own setpoint lasts from its arrival at the plant, one of
    the service from its issue. Modes have the type MODE_CHANGE or EMERGENCY. `schedule` has the id and the revision of a
    schedule, or of the schedule to which a step belongs; it is None for a partner's own setpoint, and for a schedule without
    intervals.
    """

    issued_at: datetime
    finished_at: datetime
    type: str
    power_kw: float | None
    ends_at: datetime | None
    schedule: dict[str, Any] | None = None


class NewPlantCommand(NamedTuple):
    """A command to store.

    Attributes:
        instruction: The members of the plant's Command apart from ids and times, as they are sent.
        due_at: When the command is sent first; at once if None.
    """

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
    """A command to a sub-device, as the API returns it."""

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
    """The part of a command that its state depends on."""

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
    """A step of a command.

    Attributes:
        at: The service's time of the step.
        late: Whether the step came after the end and changed nothing.
        reported_at: The time that the plant gave in its acknowledgement.
        request_id: The request id of the plant's message.
    """

    command_id: UUID
    plant_id: UUID
    status: CommandStatus
    at: datetime
    late: bool = False
    reported_at: datetime | None = None
    reason: CommandReason | None = None
    request_id: str | None = None


FollowSteps = Callable[[Connection, Sequence[Transition], Collection[UUID]], Awaitable[None]]
"""Apply new steps, and connections of plants, to the records that depend on them, in the transaction that writes the steps."""


class Acknowledgement(NamedTuple):
    """A plant's acknowledgement of a command, and the request id of its message."""

    command_id: UUID
    plant_id: UUID
    status: AckStatus
    reported_at: datetime
    reason: CommandReason | None = None
    request_id: str | None = None


class DueCommand(NamedTuple):
    """A claimed command.

    Attributes:
        requester_type: The type of its author.
        claim: The time until which no other process sends it.
        again_at: When it is sent again if the plant does not acknowledge it: not later than the earlier commands of its plant.
    """

    id: UUID
    plant_id: UUID
    type: str
    target: str | None
    instruction: dict[str, Any]
    requester_type: str
    issued_at: datetime
    expires_at: datetime
    status: str
    attempts: int
    claim: datetime
    again_at: datetime
    cause: dict[str, str] | None
