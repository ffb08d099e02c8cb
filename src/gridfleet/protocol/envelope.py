"""The signed envelope and the messages inside it.

    {"v": 1, "id": "m-000001", "sentAt": 1795168800123, "sig": "3008…", "payload": {…}}

`payload` is kept as the raw bytes that were signed. Unknown members are ignored everywhere; missing or mistyped ones
raise `msgspec.ValidationError`.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec

from gridfleet.protocol import signature

__all__ = [
    "MAX_DEVICES",
    "MAX_FIELDS",
    "MAX_MESSAGE_BYTES",
    "MAX_SNAPSHOTS",
    "AckReason",
    "AckStatus",
    "Command",
    "CommandAck",
    "CommandType",
    "DeviceEntry",
    "DeviceStatus",
    "Envelope",
    "PlantStatus",
    "RefusalReason",
    "Snapshot",
    "StatusMessage",
    "Time",
    "format_time",
    "parse_time",
    "sign_message",
]

MAX_MESSAGE_BYTES: Final = 256 * 1024
MAX_DEVICES: Final = 1_000
MAX_FIELDS: Final = 2_000
MAX_SNAPSHOTS: Final = 1_000

Time = datetime | int | float
"""A moment as a plant may send it: RFC 3339, or epoch milliseconds."""

FieldValue = int | float | bool | None


class RefusalReason(StrEnum):
    """Why a plant's message was refused, as the installer reads it."""

    MALFORMED = "MALFORMED"
    TOO_LARGE = "TOO_LARGE"
    SIGNATURE_MISSING = "SIGNATURE_MISSING"
    SIGNATURE_INVALID = "SIGNATURE_INVALID"
    TIMESTAMP_OUT_OF_WINDOW = "TIMESTAMP_OUT_OF_WINDOW"
    TIME_OUT_OF_RANGE = "TIME_OUT_OF_RANGE"
    TOO_MANY_DEVICES = "TOO_MANY_DEVICES"
    TOO_MANY_FIELDS = "TOO_MANY_FIELDS"
    NOT_PROVISIONED = "NOT_PROVISIONED"
    CREDENTIAL_UNREADABLE = "CREDENTIAL_UNREADABLE"


class PlantStatus(StrEnum):
    """What a plant says of its own connection."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"


class DeviceStatus(StrEnum):
    """What a plant says of one of its sub-devices."""

    ONLINE = "ONLINE"
    DEGRADED = "DEGRADED"
    OFFLINE = "OFFLINE"


class AckStatus(StrEnum):
    """How far a plant has come with a command."""

    RECEIVED = "RECEIVED"
    APPLIED = "APPLIED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


class CommandType(StrEnum):
    """What kind of order it is. An EMERGENCY does not wait in its plant's line."""

    SITE_SETPOINT = "SITE_SETPOINT"
    DEVICE_COMMAND = "DEVICE_COMMAND"
    MODE_CHANGE = "MODE_CHANGE"
    EMERGENCY = "EMERGENCY"
    SCHEDULE = "SCHEDULE"
    CONFIG = "CONFIG"


class Envelope(msgspec.Struct, frozen=True):
    """A signed message. `sent_at` is epoch milliseconds; `sig` is empty when the sender left it out."""

    v: int
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    sent_at: int = msgspec.field(name="sentAt")
    payload: msgspec.Raw
    sig: str = ""


class DeviceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sub-device's fields; `time` defaults to the snapshot's."""

    id: str
    fields: dict[str, FieldValue]
    time: Time | None = None
    status: DeviceStatus | None = None


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plant measured at one time: its own fields and its sub-devices'."""

    time: Time
    seq: int | None = None
    fields: dict[str, FieldValue] = {}
    devices: list[DeviceEntry] = []


class StatusMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Unsigned and retained; also the Last Will."""

    status: PlantStatus
    time: Time | None = None
    reason: str | None = None
    firmware: str | None = None


class Command(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the service asks of a plant, or of the sub-device `target` below it."""

    command_id: str
    type: str
    target: str | None
    issued_at: datetime
    expires_at: datetime
    action: str | None = None
    params: dict[str, Any] | None = None
    power_kw: float | None = None
    mode: str | None = None
    schedule: dict[str, Any] | None = None


class AckReason(msgspec.Struct, frozen=True):
    """Why a command was rejected or failed."""

    code: str
    message: str


class CommandAck(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plant's word on a command."""

    command_id: str
    status: AckStatus
    time: Time
    reason: AckReason | None = None


_encoder = msgspec.json.Encoder()


def sign_message(key: bytes, address: str, message_id: str, sent_at: int, payload: bytes) -> bytes:
    """The signed envelope around a JSON `payload`, ready to publish at `address`."""
    sig = signature.sign(key, address, message_id, sent_at, payload)
    return b'{"v":1,"id":%b,"sentAt":%d,"sig":"%b","payload":%b}' % (
        _encoder.encode(message_id),
        sent_at,
        sig.encode(),
        payload,
    )


def parse_time(value: Time) -> datetime:
    """A plant's time as an aware UTC datetime; `ValueError` without a zone or outside the calendar."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time needs its zone, such as Z")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError("the time is outside the calendar") from None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError("epoch milliseconds are out of range") from None


def format_time(value: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
