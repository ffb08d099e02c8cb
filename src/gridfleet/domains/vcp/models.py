"""Orders, sites and log entries."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Heading, Mode, PartnerAck, RejectionReason

__all__ = [
    "Constraints",
    "Device",
    "Fallback",
    "Inbound",
    "Instruction",
    "LogEntry",
    "ModeOverride",
    "NewEntry",
    "PendingCommand",
    "Rejection",
    "Schedule",
    "ScheduleInterval",
    "Site",
    "SiteConfiguration",
    "Verified",
]


class Inbound(NamedTuple):
    """A partner's message as the broker hands it over. `redelivered`: it may have been taken before."""

    routing_key: str
    body: bytes
    headers: Mapping[str, Any]
    redelivered: bool = False


class Rejection(Exception):
    """An order is refused; `detail` says in words what is wrong."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Verified(NamedTuple):
    """An order that is known to be the partner's own. `device`: the external id that an order to a sub-device names."""

    order: Heading
    type: CommandType
    device: str | None = None


class Constraints(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of a site, null where there is none: powers as magnitudes in kW, states of charge in percent."""

    import_limit_kw: float | None = None
    export_limit_kw: float | None = None
    charge_max_kw: float | None = None
    discharge_max_kw: float | None = None
    soc_min_pct: float | None = None
    soc_max_pct: float | None = None


class Fallback(msgspec.Struct, frozen=True, rename="camel"):
    """The mode that a site falls into once its partner was silent for so long; it needs both."""

    mode: Mode | None = None
    after_seconds: int | None = None


class ModeOverride(msgspec.Struct, frozen=True, rename="camel"):
    """A mode that a partner has set. `set_by` is the API key's id; an EMERGENCY_STOP has no end."""

    mode: Mode
    set_by: str
    set_at: datetime
    expires_at: datetime | None


class ScheduleInterval(msgspec.Struct, frozen=True, rename="camel"):
    """One step of a schedule."""

    start: datetime
    duration_seconds: int
    power_kw: float

    @property
    def end(self) -> datetime:
        """When it is over."""
        return self.start + timedelta(seconds=self.duration_seconds)


class Schedule(msgspec.Struct, frozen=True, rename="camel"):
    """The schedule that holds."""

    schedule_id: str
    revision: int
    intervals: list[ScheduleInterval]


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What partners have set at a site. `schedule_id` and `schedule_revision` are the last ones set, though they may hold no
    longer; `schedule_ends_at` is None unless one holds. The `…_command_id`s are the orders that made override, schedule (or its
    cancellation) and the setpoint with a duration. `silent_from` is when the partner last ordered something, or when the last
    override or schedule ended."""

    plant_id: UUID
    lifecycle_status: str
    silent_from: datetime
    constraints: Constraints = Constraints()
    fallback: Fallback = Fallback()
    fallback_since: datetime | None = None
    override: ModeOverride | None = None
    override_command_id: UUID | None = None
    override_power_kw: float | None = None
    setpoint_ends_at: datetime | None = None
    setpoint_command_id: UUID | None = None
    schedule_id: str | None = None
    schedule_revision: int | None = None
    schedule_ends_at: datetime | None = None
    schedule_command_id: UUID | None = None

    def mode(self, now: datetime) -> Mode:
        """How it runs: as the partner said, else as the fallback says, else by itself."""
        if self.override is not None and (self.override.expires_at is None or now < self.override.expires_at):
            return self.override.mode
        if self.fallback_since is not None and self.fallback.mode is not None:
            return self.fallback.mode
        return Mode.AUTO


class Device(NamedTuple):
    """A sub-device that an order names."""

    id: UUID
    external_id: str
    template_id: UUID | None


class Instruction(NamedTuple):
    """What the plant is told: `content` are the members of its command beyond ids and times."""

    content: dict[str, Any]
    expires_at: datetime
    device: Device | None = None


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to write into the log; see the table."""

    id: UUID
    organization_id: UUID
    api_key_id: UUID
    plant_id: UUID | None
    site_id: str | None
    message_id: str | None
    correlation_id: str | None
    command_type: str | None
    routing_key: str
    payload: dict[str, Any]
    digest: bytes
    claims_id: bool
    status: str
    ack_status: PartnerAck
    acknowledged_at: datetime
    rejection_reason: RejectionReason | None = None
    detail: str | None = None
    issued_at: datetime | None = None
    expires_at: datetime | None = None


class LogEntry(msgspec.Struct, frozen=True, rename="camel"):
    """An order as the log shows it (spec, ESM command log entry). `status` is the life of the command, `ack_status` the last
    word to the partner."""

    id: UUID
    organization_id: UUID
    site_id: str | None
    message_id: str | None
    correlation_id: str | None
    command_type: str | None
    routing_key: str
    payload: dict[str, Any]
    status: str
    ack_status: str
    rejection_reason: str | None
    executed_at: datetime | None
    created_at: datetime


class PendingCommand(msgspec.Struct, frozen=True, rename="camel"):
    """An order that the plant has not finished."""

    id: UUID
    message_id: str
    command_type: str
    status: str
    issued_at: datetime
    expires_at: datetime


class SiteConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """A site as partners read it (spec, VCP site configuration)."""

    site_id: UUID
    operating_mode: Mode
    constraints: Constraints
    fallback: Fallback
    mode_override: ModeOverride | None
    active_schedule: Schedule | None
    pending_commands: list[PendingCommand]
