"""Parsing of plants' messages. Each function raises `Refusal` with the path of the first wrong member, and keeps no state."""

from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from gridfleet.domains.ingest.complaints import with_field_named
from gridfleet.domains.ingest.models import Refusal
from gridfleet.domains.plants.commands.models import Acknowledgement, CommandReason
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.kernel.db import storable
from gridfleet.protocol import envelope as wire
from gridfleet.protocol.envelope import RefusalReason

__all__ = [
    "check_external_id",
    "check_fields",
    "measurement_time",
    "parse_acknowledgement",
    "parse_envelope",
    "parse_snapshot",
    "parse_snapshots",
    "parse_status",
]

T = TypeVar("T")

MAX_AGE: Final = timedelta(days=400)
MAX_AHEAD: Final = timedelta(minutes=5)
MAX_EXTERNAL_ID: Final = 64
_TRUNCATED: Final = "Input data was truncated"

_envelope = msgspec.json.Decoder(wire.Envelope)
_snapshot = msgspec.json.Decoder(wire.Snapshot)
_snapshots = msgspec.json.Decoder(list[msgspec.Raw])
_status = msgspec.json.Decoder(wire.StatusMessage)
_ack = msgspec.json.Decoder(wire.CommandAck)


def parse_envelope(body: bytes) -> wire.Envelope:
    """Return the envelope of a signed message. Its version, signature and time are not checked."""
    return _parse(_envelope, body, "message", None)


def parse_status(body: bytes) -> wire.StatusMessage:
    """Return a status message, which has no envelope."""
    return _parse(_status, body, "message", None)


def parse_snapshots(message: wire.Envelope) -> list[msgspec.Raw]:
    """Return the unparsed snapshots of a payload that is an array."""
    snapshots = _parse(_snapshots, message.payload, "payload", message.id)
    if len(snapshots) > wire.MAX_SNAPSHOTS:
        raise Refusal(RefusalReason.MALFORMED, f"payload: has more than {wire.MAX_SNAPSHOTS} snapshots", message.id)
    return snapshots


def parse_snapshot(raw: msgspec.Raw, path: str, message_id: str) -> wire.Snapshot:
    """Return one snapshot. Its times, fields and names of devices are not checked."""
    snapshot = _parse(_snapshot, raw, path, message_id)
    if len(snapshot.devices) > wire.MAX_DEVICES:
        raise Refusal(RefusalReason.TOO_MANY_DEVICES, f"{path}.devices: has more than {wire.MAX_DEVICES} devices", message_id)
    return snapshot


def parse_acknowledgement(message: wire.Envelope, plant_id: UUID, request_id: str) -> Acknowledgement:
    """Return the plant's acknowledgement of a command."""
    ack = _parse(_ack, message.payload, "payload", message.id)
    try:
        command_id = UUID(ack.command_id)
    except ValueError:
        raise Refusal(RefusalReason.MALFORMED, "payload.commandId: must be a UUID", message.id) from None
    try:
        reported_at = wire.parse_time(ack.time)
    except ValueError as error:
        raise Refusal(RefusalReason.MALFORMED, f"payload.time: {error}", message.id) from None
    reason = None
    if ack.reason is not None:
        reason = CommandReason(storable(ack.reason.code)[:64], storable(ack.reason.message)[:500])
    return Acknowledgement(command_id, plant_id, ack.status, reported_at, reason, request_id)


def measurement_time(value: wire.Time, path: str, message_id: str, now: datetime) -> int:
    """Return the time of a measurement in microseconds since 2000."""
    try:
        moment = wire.parse_time(value)
    except ValueError as error:
        raise Refusal(RefusalReason.MALFORMED, f"{path}: {error}", message_id) from None
    if not now - MAX_AGE <= moment <= now + MAX_AHEAD:
        raise Refusal(
            RefusalReason.TIME_OUT_OF_RANGE,
            f"{path}: must be at most 400 days ago and 5 minutes ahead, and is {wire.format_time(moment)}",
            message_id,
        )
    return microseconds(moment)


def check_fields(fields: dict[str, int | float | bool | None], path: str, message_id: str) -> None:
    """Refuse too many fields of one device."""
    if len(fields) > wire.MAX_FIELDS:
        raise Refusal(RefusalReason.TOO_MANY_FIELDS, f"{path}: has more than {wire.MAX_FIELDS} fields", message_id)


def check_external_id(external_id: str, path: str, message_id: str) -> None:
    """Refuse the id of an unregistered device that cannot be stored."""
    if len(external_id) > MAX_EXTERNAL_ID or "\0" in external_id:
        raise Refusal(RefusalReason.MALFORMED, f"{path}: must have at most {MAX_EXTERNAL_ID} characters and no NUL", message_id)


def _parse(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw, path: str, message_id: str | None) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        complaint = with_field_named(str(error), raw)
        raise Refusal(RefusalReason.MALFORMED, f"{path}: {complaint}", message_id) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # msgspec says the same of a text with half of an escaped pair, such as "\ud83d".
        more = ", or a text has a surrogate without the other one" if str(error) == _TRUNCATED else ""
        raise Refusal(RefusalReason.MALFORMED, f"{path}: is not JSON: {error}{more}", message_id) from None
