"""Records of what a plant has not confirmed yet, of earlier partner commands, and of the setpoint that a plant has."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.partner_messages import Mode

__all__ = ["HeldSetpoint", "Kind", "LaterSetpoint", "Predecessor", "Repetition", "Unconfirmed"]


class Kind(StrEnum):
    """What is issued again until the plant confirms it."""

    MODE = "MODE"
    SCHEDULE = "SCHEDULE"
    STEP = "STEP"
    LIMITS = "LIMITS"
    FALLBACK = "FALLBACK"


class Unconfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """A mode, schedule, schedule step, the limits or the fallback that the plant has not confirmed.

    Fields as in the table `vcp_unconfirmed`. A partner's command brings either limits or a fallback; a command of the service
    brings both.

    `due_at` is None while the command is open, and while the row waits for the plant's next connection. If the plant has
    received the command, the row is due after the plant's next connection. `stop_ended_at` is the place of the AUTO that ended
    an emergency stop, from then until the plant confirms a mode.
    """

    plant_id: UUID
    kind: Kind
    command_id: UUID | None
    issued_at: datetime
    due_at: datetime | None = None
    confirmed_mode: Mode | None = None
    stop_ended_at: datetime | None = None


class Predecessor(NamedTuple):
    """An accepted partner command that the plant has not refused."""

    id: UUID
    api_key_id: UUID
    created_at: datetime
    routing_key: str
    payload: dict[str, Any]


class HeldSetpoint(NamedTuple):
    """The setpoint that a plant has. `ends_at` is None without a duration, `schedule` unless it is a step of that schedule."""

    command_id: UUID
    issued_at: datetime
    ends_at: datetime | None
    schedule: dict[str, Any] | None


class LaterSetpoint(NamedTuple):
    """A partner's setpoint whose place is after that of a mode which its plant gets now.

    `is_sent` says that the plant may have it, and drops it when it receives the mode. `ends_at` is None without a duration,
    `expires_at` if the plant has applied it.
    """

    plant_id: UUID
    power_kw: float
    issued_at: datetime
    is_sent: bool
    ends_at: datetime | None
    expires_at: datetime | None


class Repetition(NamedTuple):
    """A setpoint that the service has issued again. `is_newest` says that no later setpoint or mode replaces it."""

    issued_at: datetime
    is_newest: bool
