"""The signed envelope and the messages inside it.

    {"v": 1, "id": "m-000001", "sentAt": 1795168800123, "sig": "3008…", "payload": {…}}

`payload` is kept as the raw bytes that were signed. Unknown members are ignored in every message. Missing or mistyped members
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
    "AckStatus",
    "Command",
    "CommandAck",
    "CommandReason",
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
"""A time as a plant may send it: RFC 3339, or epoch milliseconds."""

FieldValue = int | float | bool | None


class RefusalReason(StrEnum):
    """Reason why a message of a plant was refused, as the installer sees it."""

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
    """Connection status that a plant reports."""

    ONLINE = "ONLINE"
    OFFLINE = "OFFLINE"


class DeviceStatus(StrEnum):
    """Status of a sub-device that its plant reports."""

    ONLINE = "ONLINE"
    DEGRADED = "DEGRADED"
    OFFLINE = "OFFLINE"


class AckStatus(StrEnum):
    """Status of a plant command in the plant's acknowledgement."""

    RECEIVED = "RECEIVED"
    APPLIED = "APPLIED"
    REJECTED = "REJECTED"
    FAILED = "FAILED"


class CommandType(StrEnum):
    """Type of a command. An EMERGENCY command does not wait in its plant's queue."""

    SITE_SETPOINT = "SITE_SETPOINT"
    DEVICE_COMMAND = "DEVICE_COMMAND"
    MODE_CHANGE = "MODE_CHANGE"
    EMERGENCY = "EMERGENCY"
    SCHEDULE = "SCHEDULE"
    CONFIG = "CONFIG"


class Envelope(msgspec.Struct, frozen=True):
    """A signed message. `sent_at` is in epoch milliseconds; `sig` is empty if the sender omitted it."""

    v: int
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    sent_at: int = msgspec.field(name="sentAt")
    payload: msgspec.Raw
    sig: str = ""


class DeviceEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of one sub-device. `time` defaults to the snapshot's time."""

    id: str
    fields: dict[str, FieldValue]
    time: Time | None = None
    status: DeviceStatus | None = None


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Measurements of a plant at one time: its own fields and those of its sub-devices."""

    time: Time
    seq: int | None = None
    fields: dict[str, FieldValue] = {}
    devices: list[DeviceEntry] = []


class StatusMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The plant's connection status: an unsigned, retained message, and the Last Will."""

    status: PlantStatus
    time: Time | None = None
    reason: str | None = None
    firmware: str | None = None


class Command(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plant command, addressed to the plant or to its sub-device `target`."""

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


class CommandReason(msgspec.Struct, frozen=True):
    """Why a command ended in its state."""

    code: str
    message: str


class CommandAck(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A plant's acknowledgement of a command."""

    command_id: str
    status: AckStatus
    time: Time
    reason: CommandReason | None = None


_encoder = msgspec.json.Encoder()


def sign_message(key: bytes, address: str, message_id: str, sent_at: int, payload: bytes) -> bytes:
    """Return the signed envelope around a JSON `payload`, ready to publish.

    Args:
        key: The 32-byte signing key.
        address: The MQTT topic or AMQP routing key to publish to.
        message_id: The envelope's `id`.
        sent_at: Epoch milliseconds.
        payload: JSON text, signed and sent byte for byte.
    """
    sig = signature.sign(key, address, message_id, sent_at, payload)
    return b'{"v":1,"id":%b,"sentAt":%d,"sig":"%b","payload":%b}' % (
        _encoder.encode(message_id),
        sent_at,
        sig.encode(),
        payload,
    )


def parse_time(value: Time) -> datetime:
    """Return a plant's time as an aware UTC datetime.

    Raises:
        ValueError: The time has no zone or is outside the calendar.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time must have a zone, such as Z")
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise ValueError("the year must be 1 to 9999 in UTC") from None
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        raise ValueError("epoch milliseconds are out of range") from None


def format_time(value: datetime) -> str:
    """Format a time as RFC 3339 in UTC, with milliseconds and `Z`."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
