"""Commands from partners and events to partners, as JSON.

Unknown members are ignored. Missing or mistyped members raise `msgspec.ValidationError`. Power is positive when the site takes
it from the grid.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gridfleet.protocol.json_depth import MAX_DEPTH, cut_below, is_too_deep
from gridfleet.protocol.partner_routes import CommandKind

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_INTERVALS",
    "MESSAGE_TYPES",
    "AckEvent",
    "AlertEvent",
    "ConstraintChanges",
    "ConstraintsCommand",
    "DeviceCommand",
    "DeviceValues",
    "FallbackChanges",
    "FallbackCommand",
    "Heading",
    "Interval",
    "Mode",
    "ModeCommand",
    "PartnerAck",
    "RejectionReason",
    "ScheduleCancel",
    "ScheduleSet",
    "SetpointCommand",
    "StatusEvent",
    "TelemetryEvent",
    "encode_event",
    "is_readable",
    "open_command",
    "read_heading",
    "read_identity",
]

MAX_BODY_BYTES: Final = 64 * 1024
MAX_INTERVALS: Final = 672
"""One week of 15-minute intervals."""

_Moment = Annotated[datetime, Meta(tz=True)]
_Text = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]*\Z")]
_MessageId = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")]


class Mode(StrEnum):
    """Operating mode of a site."""

    AUTO = "AUTO"
    CHARGE = "CHARGE"
    DISCHARGE = "DISCHARGE"
    STANDBY = "STANDBY"
    SELF_CONSUMPTION = "SELF_CONSUMPTION"
    BACKUP = "BACKUP"
    EMERGENCY_STOP = "EMERGENCY_STOP"


class PartnerAck(StrEnum):
    """Outcome of a partner command. ACCEPTED is followed by one of the others."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    APPLIED = "APPLIED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class RejectionReason(StrEnum):
    """Reason why a partner command was rejected."""

    MALFORMED = "MALFORMED"
    SIGNATURE_MISSING = "SIGNATURE_MISSING"
    SIGNATURE_INVALID = "SIGNATURE_INVALID"
    TIMESTAMP_OUT_OF_WINDOW = "TIMESTAMP_OUT_OF_WINDOW"
    DUPLICATE = "DUPLICATE"
    EXPIRED = "EXPIRED"
    SITE_UNKNOWN = "SITE_UNKNOWN"
    SITE_NOT_ALLOWED = "SITE_NOT_ALLOWED"
    SITE_SUSPENDED = "SITE_SUSPENDED"
    ACTION_NOT_IN_TEMPLATE = "ACTION_NOT_IN_TEMPLATE"
    PARAMS_INVALID = "PARAMS_INVALID"
    CONSTRAINT_VIOLATED = "CONSTRAINT_VIOLATED"
    SCHEDULE_INVALID = "SCHEDULE_INVALID"
    DEVICE_UNKNOWN = "DEVICE_UNKNOWN"
    EMERGENCY_STOP_ACTIVE = "EMERGENCY_STOP_ACTIVE"
    PLANT_REJECTED = "PLANT_REJECTED"


class Heading(msgspec.Struct, frozen=True, rename="camel"):
    """Members that every partner command has. `message_id` is kept as written because it is part of the signed text."""

    message_id: _MessageId
    site_id: _Text
    issued_at: _Moment
    correlation_id: _Text | None = None
    expires_at: _Moment | None = None


class SetpointCommand(Heading, frozen=True, rename="camel", kw_only=True):
    """Power of the site at the grid connection in kW, positive when the site consumes.

    It holds for a duration or, without one, until the next setpoint or mode.
    """

    power_kw: float
    duration_seconds: Annotated[int, Meta(ge=1, le=7 * 86_400)] | None = None


class DeviceCommand(Heading, frozen=True, rename="camel", kw_only=True):
    """An action that a sub-device's template defines."""

    action: _Text
    params: dict[str, Any] = {}
    device_id: _Text | None = None


class ModeCommand(Heading, frozen=True, rename="camel", kw_only=True):
    """An operating mode, in force until `expires_at` or the next mode. AUTO ends any mode; nothing else ends EMERGENCY_STOP.

    `power_kw` is for CHARGE (0 or more) and DISCHARGE (0 or less) only.
    """

    mode: Mode
    power_kw: float | None = None


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """One interval of a schedule, with its power in kW, positive when the site consumes."""

    start: _Moment
    duration_seconds: int
    power_kw: float


class ScheduleSet(Heading, frozen=True, rename="camel", kw_only=True):
    """A schedule that replaces the current one."""

    schedule_id: _Text
    revision: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    intervals: list[Interval]


class ScheduleCancel(Heading, frozen=True, rename="camel", kw_only=True):
    """Cancellation of the current schedule."""

    schedule_id: _Text


class ConstraintChanges(msgspec.Struct, frozen=True, rename="camel"):
    """Changes of constraints. Absent members stay unchanged; null removes a limit.

    Powers are magnitudes in kW, states of charge in percent.
    """

    import_limit_kw: float | UnsetType | None = UNSET
    export_limit_kw: float | UnsetType | None = UNSET
    charge_max_kw: float | UnsetType | None = UNSET
    discharge_max_kw: float | UnsetType | None = UNSET
    soc_min_pct: float | UnsetType | None = UNSET
    soc_max_pct: float | UnsetType | None = UNSET


class ConstraintsCommand(Heading, frozen=True, rename="camel", kw_only=True):
    """New constraints of the site."""

    constraints: ConstraintChanges


class FallbackChanges(msgspec.Struct, frozen=True, rename="camel"):
    """Changes of the fallback. Absent members stay unchanged; null removes the value."""

    mode: Mode | UnsetType | None = UNSET
    after_seconds: int | UnsetType | None = UNSET


class FallbackCommand(Heading, frozen=True, rename="camel", kw_only=True):
    """The site's fallback when its partner is silent for too long."""

    fallback: FallbackChanges


MESSAGE_TYPES: Final[dict[CommandKind, type[Heading]]] = {
    CommandKind.SETPOINT: SetpointCommand,
    CommandKind.DEVICE: DeviceCommand,
    CommandKind.MODE: ModeCommand,
    CommandKind.SCHEDULE_SET: ScheduleSet,
    CommandKind.SCHEDULE_CANCEL: ScheduleCancel,
    CommandKind.CONSTRAINTS: ConstraintsCommand,
    CommandKind.FALLBACK: FallbackCommand,
}


class AckEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Outcome of a partner command. Members that could not be read from a malformed message are null."""

    message_id: str | None
    correlation_id: str | None
    site_id: str | None
    command_type: str | None
    status: str
    ack_status: PartnerAck
    time: datetime
    rejection_reason: RejectionReason | UnsetType = UNSET


class StatusEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Change of a plant's connectivity. `time` is written by `format_time`."""

    site_id: UUID
    status: str
    time: str
    reason: str | UnsetType = UNSET


class AlertEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An alert that was raised or changed its status. `time` is written by `format_time`."""

    alert_id: UUID
    site_id: UUID
    type: str
    severity: str
    status: str
    message: str
    time: str


class DeviceValues(msgspec.Struct, frozen=True):
    """The decoded values of a sub-device. `time` is absent if it is the event's time."""

    id: str
    values: dict[str, float]
    time: datetime | UnsetType = UNSET


class TelemetryEvent(msgspec.Struct, frozen=True, rename="camel"):
    """Decoded measurements in one snapshot of a plant: its own values and those of its sub-devices."""

    site_id: UUID
    time: datetime
    values: dict[str, float]
    devices: list[DeviceValues]


def encode_event(event: AckEvent | AlertEvent | StatusEvent | TelemetryEvent) -> bytes:
    """Return the body of an event, as JSON in UTF-8."""
    if isinstance(event, AlertEvent):
        # These spaces are in every release. Programs of partners may depend on the bytes.
        return json.dumps(msgspec.to_builtins(event), ensure_ascii=False, separators=(", ", " : ")).encode()
    return _encoder.encode(event)


def open_command(kind: CommandKind, body: bytes) -> Heading:
    """Decode a partner command.

    Raises:
        msgspec.DecodeError: The body is not such a command. Includes its subclass `ValidationError`.
    """
    if is_too_deep(body):
        raise msgspec.DecodeError(f"the message is nested deeper than {MAX_DEPTH} levels")
    try:
        return _decoders[kind].decode(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None


def read_heading(body: bytes) -> dict[str, Any]:
    """Return the members of a body that can be read, to identify the command in a refusal.

    A member that cannot be read, such as a number out of range, is omitted. If the body is not JSON, only the members that
    identify the command are extracted.
    """
    text = cut_below(body)
    try:
        content = msgspec.json.decode(text)
        return content if isinstance(content, dict) else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return dict(_readable_members(text))


def is_readable(body: bytes) -> bool:
    """Return whether every member of a body can be read, so that `read_heading` returns all of it."""
    try:
        msgspec.json.decode(cut_below(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def read_identity(body: bytes) -> dict[str, str]:
    """Return the texts that identify a command, as `read_heading` does, without decoding anything else.

    For a body of 1 MiB this takes a few milliseconds. Decoding all of its values may take a second.
    """
    members = _members(body)
    found: dict[str, str] = {}
    for name in _IDENTIFYING & members.keys():
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            found[name] = msgspec.json.decode(members[name], type=str)
    return found


def _readable_members(text: bytes) -> Iterator[tuple[str, Any]]:
    for name, value in _members(text).items():
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield name, msgspec.json.decode(value)


def _members(text: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {match[1].decode(): msgspec.Raw(match[2]) for match in _NAMES.finditer(text)}


_IDENTIFYING: Final = frozenset({"messageId", "correlationId", "siteId", "mode"})
_NAMES: Final = re.compile(rb'"(messageId|correlationId|siteId)"\s*:\s*("(?:[^"\\]|\\.)*+")')

_encoder: Final = msgspec.json.Encoder()
_decoders: Final = {kind: msgspec.json.Decoder(record) for kind, record in MESSAGE_TYPES.items()}
