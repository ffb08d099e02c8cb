"""What partners send and what they are told, byte for byte.

Members that are unknown are ignored; missing or mistyped ones raise `msgspec.ValidationError`. Power is positive when it is
taken from the grid.
"""

import contextlib
import re
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gridfleet.protocol.json_depth import MAX_DEPTH, cut_below, is_too_deep
from gridfleet.protocol.partner_keys import Order

__all__ = [
    "MAX_BODY_BYTES",
    "MAX_INTERVALS",
    "MESSAGE_TYPES",
    "AckEvent",
    "AlertEvent",
    "ConstraintChanges",
    "ConstraintsOrder",
    "DeviceOrder",
    "DeviceValues",
    "FallbackChanges",
    "FallbackOrder",
    "Heading",
    "Interval",
    "Mode",
    "ModeOrder",
    "PartnerAck",
    "RejectionReason",
    "ScheduleCancel",
    "ScheduleSet",
    "SetpointOrder",
    "StatusEvent",
    "TelemetryEvent",
    "open_order",
    "read_heading",
]

MAX_BODY_BYTES: Final = 64 * 1024
MAX_INTERVALS: Final = 672
"""A week in quarters of an hour."""

_Moment = Annotated[datetime, Meta(tz=True)]
_Text = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f]*$")]
_MessageId = Annotated[str, Meta(pattern="^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]


class Mode(StrEnum):
    """How a site runs."""

    AUTO = "AUTO"
    CHARGE = "CHARGE"
    DISCHARGE = "DISCHARGE"
    STANDBY = "STANDBY"
    SELF_CONSUMPTION = "SELF_CONSUMPTION"
    BACKUP = "BACKUP"
    EMERGENCY_STOP = "EMERGENCY_STOP"


class PartnerAck(StrEnum):
    """The last word on an order. ACCEPTED is followed by one of the others."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    APPLIED = "APPLIED"
    FAILED = "FAILED"
    EXPIRED = "EXPIRED"


class RejectionReason(StrEnum):
    """Why an order was refused."""

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
    """What every order carries. `message_id` stays as it was written: it is part of what is signed."""

    message_id: _MessageId
    site_id: _Text
    issued_at: _Moment
    correlation_id: _Text | None = None
    expires_at: _Moment | None = None


class SetpointOrder(Heading, frozen=True, rename="camel", kw_only=True):
    """The power that the site shall have at the grid, for a time or until the next order."""

    power_kw: float
    duration_seconds: Annotated[int, Meta(ge=1, le=7 * 86_400)] | None = None


class DeviceOrder(Heading, frozen=True, rename="camel", kw_only=True):
    """An action of a sub-device's template."""

    action: _Text
    params: dict[str, Any] = {}
    device_id: _Text | None = None


class ModeOrder(Heading, frozen=True, rename="camel", kw_only=True):
    """Another mode until `expires_at`."""

    mode: Mode
    power_kw: float | None = None


class Interval(msgspec.Struct, frozen=True, rename="camel"):
    """One step of a schedule."""

    start: _Moment
    duration_seconds: int
    power_kw: float


class ScheduleSet(Heading, frozen=True, rename="camel", kw_only=True):
    """A schedule that replaces the one before."""

    schedule_id: _Text
    revision: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    intervals: list[Interval]


class ScheduleCancel(Heading, frozen=True, rename="camel", kw_only=True):
    """No schedule any more."""

    schedule_id: _Text


class ConstraintChanges(msgspec.Struct, frozen=True, rename="camel"):
    """Absent members stay, null clears. Powers are magnitudes in kW, states of charge percent."""

    import_limit_kw: float | UnsetType | None = UNSET
    export_limit_kw: float | UnsetType | None = UNSET
    charge_max_kw: float | UnsetType | None = UNSET
    discharge_max_kw: float | UnsetType | None = UNSET
    soc_min_pct: float | UnsetType | None = UNSET
    soc_max_pct: float | UnsetType | None = UNSET


class ConstraintsOrder(Heading, frozen=True, rename="camel", kw_only=True):
    """New limits of the site."""

    constraints: ConstraintChanges


class FallbackChanges(msgspec.Struct, frozen=True, rename="camel"):
    """Absent members stay, null clears."""

    mode: Mode | UnsetType | None = UNSET
    after_seconds: int | UnsetType | None = UNSET


class FallbackOrder(Heading, frozen=True, rename="camel", kw_only=True):
    """What the site does when the partner falls silent."""

    fallback: FallbackChanges


MESSAGE_TYPES: Final[dict[Order, type[Heading]]] = {
    Order.SETPOINT: SetpointOrder,
    Order.DEVICE: DeviceOrder,
    Order.MODE: ModeOrder,
    Order.SCHEDULE_SET: ScheduleSet,
    Order.SCHEDULE_CANCEL: ScheduleCancel,
    Order.CONSTRAINTS: ConstraintsOrder,
    Order.FALLBACK: FallbackOrder,
}


class AckEvent(msgspec.Struct, frozen=True, rename="camel"):
    """What became of an order. Members that a malformed message did not show are null."""

    message_id: str | None
    correlation_id: str | None
    site_id: str | None
    command_type: str | None
    status: str
    ack_status: PartnerAck
    time: datetime
    rejection_reason: RejectionReason | UnsetType = UNSET


class StatusEvent(msgspec.Struct, frozen=True, rename="camel"):
    """A plant's connectivity changed."""

    site_id: UUID
    status: str
    time: datetime
    reason: str | UnsetType = UNSET


class AlertEvent(msgspec.Struct, frozen=True, rename="camel"):
    """An alert was raised."""

    alert_id: UUID
    site_id: UUID
    type: str
    severity: str
    status: str
    message: str
    time: datetime


class DeviceValues(msgspec.Struct, frozen=True):
    """A sub-device's decoded values."""

    id: str
    values: dict[str, float]


class TelemetryEvent(msgspec.Struct, frozen=True, rename="camel"):
    """What a plant measured at one time, decoded: its own values and its sub-devices'."""

    site_id: UUID
    time: datetime
    values: dict[str, float]
    devices: list[DeviceValues]


def open_order(order: Order, body: bytes) -> Heading:
    """The order in a body; raises `msgspec.DecodeError` (or `ValidationError`, which is one) for anything else."""
    if is_too_deep(body):
        raise msgspec.DecodeError(f"the message is nested deeper than {MAX_DEPTH} levels")
    try:
        return _decoders[order].decode(body)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from None


def read_heading(body: bytes) -> dict[str, Any]:
    """Return the members of a body that can be read, to name the command in a refusal.

    A member that cannot be read, such as a number out of range, is left out. Of a body that is not JSON, only the members
    that name the command are found.
    """
    text = cut_below(body)
    try:
        content = msgspec.json.decode(text)
        return content if isinstance(content, dict) else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return dict(_readable_members(text))


def _readable_members(text: bytes) -> Iterator[tuple[str, Any]]:
    try:
        members = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        members = {match[1].decode(): msgspec.Raw(match[2]) for match in _NAMES.finditer(text)}
    for name, value in members.items():
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield name, msgspec.json.decode(value)


_NAMES: Final = re.compile(rb'"(messageId|correlationId|siteId)"\s*:\s*("(?:[^"\\]|\\.)*+")')

_decoders: Final = {order: msgspec.json.Decoder(kind) for order, kind in MESSAGE_TYPES.items()}
