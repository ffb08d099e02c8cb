"""Check that a message is a valid command of the partner whose vhost it came from. No database access.

Checks run in this order: the headers can be decoded; no CC or BCC; a known routing key that begins with the partner's own
slug; a scope for it; size and depth; the messageId; for signed commands the signature and its time; then the members. A
refusal before the signature is proved does not claim the messageId.
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from gridfleet.domains.partners.models import SendingKey
from gridfleet.domains.vcp.models import PartnerMessage, Rejection, Verified
from gridfleet.kernel.broker.decoding import UNDECODABLE
from gridfleet.protocol import signature
from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.json_depth import MAX_DEPTH, is_too_deep
from gridfleet.protocol.partner_messages import (
    MAX_BODY_BYTES,
    DeviceCommand,
    Mode,
    ModeCommand,
    RejectionReason,
    ScheduleSet,
    open_command,
)
from gridfleet.protocol.partner_routes import SIGNATURE_HEADER, TIMESTAMP_HEADER, CommandKind, InboundKey, parse_inbound

__all__ = ["NUL", "command_type", "prove", "read"]

NUL: Final = rb"\u0000"
"""The only JSON notation of the character U+0000, which the database's JSON type cannot store."""

_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_COPIES: Final = frozenset({"cc", "bcc"})


def prove(message: PartnerMessage, sender: SendingKey, message_id: Any, now: datetime, window_seconds: int) -> InboundKey:
    """Check the headers, the scope and the signature of a message. Returns its parsed routing key.

    Args:
        message_id: The value of the body's `messageId`, unchecked.
        window_seconds: Maximum difference between the signature's time and `now`.

    Raises:
        Rejection: A check failed.
    """
    if UNDECODABLE in message.headers:
        why = str(message.headers[UNDECODABLE])[:100]
        raise Rejection(RejectionReason.MALFORMED, f"the headers cannot be decoded: {why}")
    if copies := sorted(name for name in message.headers if name.lower() in _COPIES):
        raise Rejection(RejectionReason.MALFORMED, f"the header {copies[0]} is not allowed")
    key = parse_inbound(sender.key.slug, message.routing_key)
    if key is None:
        raise Rejection(RejectionReason.MALFORMED, "the routing key is not a command of this organisation")
    if key.kind.scope not in sender.key.scopes:
        raise Rejection(RejectionReason.MALFORMED, f"the API key lacks the scope {key.kind.scope}")
    if len(message.body) > MAX_BODY_BYTES:
        raise Rejection(RejectionReason.MALFORMED, f"the body has {len(message.body)} bytes; the limit is {MAX_BODY_BYTES}")
    if not _is_text(message.body):
        raise Rejection(RejectionReason.MALFORMED, "the message must be UTF-8")
    if NUL in message.body:
        raise Rejection(RejectionReason.MALFORMED, "the character U+0000 is not allowed")
    if is_too_deep(message.body):
        raise Rejection(RejectionReason.MALFORMED, f"the message is nested deeper than {MAX_DEPTH} levels")
    if key.kind.signed:
        _check_signature(message, sender.signing_key, message_id, now, window_seconds)
    return key


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_signature(message: PartnerMessage, key: bytes | None, message_id: Any, now: datetime, window_seconds: int) -> None:
    sent = _text(message.headers.get(SIGNATURE_HEADER))
    stamp = _text(message.headers.get(TIMESTAMP_HEADER))
    if not sent or not stamp:
        raise Rejection(
            RejectionReason.SIGNATURE_MISSING, f"the headers {SIGNATURE_HEADER} and {TIMESTAMP_HEADER} are required"
        )
    if not stamp.isascii() or not stamp.isdecimal() or len(stamp) > 16:
        raise Rejection(RejectionReason.SIGNATURE_INVALID, f"{TIMESTAMP_HEADER}: must be epoch milliseconds")
    if not isinstance(message_id, str) or not message_id.isascii():
        raise Rejection(RejectionReason.MALFORMED, "messageId: must be a UUID")
    sent_at = int(stamp)
    if key is None or not signature.verify(key, sent, message.routing_key, message_id, sent_at, message.body):
        raise Rejection(RejectionReason.SIGNATURE_INVALID, "the signature does not match the message and the signing key")
    off = sent_at - int(now.timestamp() * 1000)
    if abs(off) > window_seconds * 1000:
        raise Rejection(
            RejectionReason.TIMESTAMP_OUT_OF_WINDOW,
            f"{TIMESTAMP_HEADER}: is {abs(off) // 1000} s {'ahead of' if off > 0 else 'behind'} the service's clock",
        )


def _text(value: Any) -> str | None:
    """Return a header as text; it may be text, bytes or a whole number. None for other types."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("ascii", "replace")
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # some clients write every number as a double
    return None


def read(message: PartnerMessage, key: InboundKey) -> Verified:
    """Return the command in a proved message. Raises Rejection."""
    try:
        command = open_command(key.kind, message.body)
    except msgspec.DecodeError as error:
        raise Rejection(RejectionReason.MALFORMED, str(error)[:500]) from None
    times = [("issuedAt", command.issued_at), ("expiresAt", command.expires_at)]
    if isinstance(command, ScheduleSet):
        times += [("intervals.start", one.start) for one in command.intervals]
    for name, time in times:
        if time is not None and not _EARLIEST <= time <= _LATEST:
            raise Rejection(RejectionReason.MALFORMED, f"{name}: must be between 2000-01-01 and 2200-01-01")
    device = None
    if isinstance(command, DeviceCommand):
        device = key.device or command.device_id
        if device is None or (command.device_id is not None and command.device_id != device):
            raise Rejection(RejectionReason.MALFORMED, "deviceId: must name one sub-device, the same as the routing key")
    if isinstance(command, ModeCommand) and command.expires_at is None and command.mode not in (Mode.AUTO, Mode.EMERGENCY_STOP):
        raise Rejection(RejectionReason.MALFORMED, f"expiresAt: is required for the mode {command.mode}")
    kind = key.kind.command_type
    if isinstance(command, ModeCommand) and command.mode is Mode.EMERGENCY_STOP:
        kind = CommandType.EMERGENCY
    return Verified(command, kind, device)


def command_type(key: InboundKey | None, content: dict[str, Any]) -> str | None:
    """Return the command type that a refused message would have had, or None if the routing key is unknown."""
    if key is None:
        return None
    if key.kind is CommandKind.MODE and content.get("mode") == Mode.EMERGENCY_STOP:
        return CommandType.EMERGENCY.value
    return key.kind.command_type.value
