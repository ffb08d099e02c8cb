"""Log entries of partners' messages."""

import hashlib
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from gridfleet.domains.partners.models import SendingKey
from gridfleet.domains.plants.commands.models import CommandStatus
from gridfleet.domains.vcp.models import NewLogEntry, PartnerMessage
from gridfleet.domains.vcp.verification import NUL
from gridfleet.kernel.db import json_size, storable
from gridfleet.protocol.partner_messages import MAX_BODY_BYTES, Heading, PartnerAck, read_heading, read_identity
from gridfleet.protocol.partner_routes import SIGNATURE_HEADER, TIMESTAMP_HEADER

__all__ = ["LoggedMessage", "known_payload", "new_log_entry"]

_MOST_TEXT: Final = 128
_MOST_READ: Final = 16 * MAX_BODY_BYTES
"""Bytes. Of a message above the limit only its names are read. A larger one is not parsed, and its log entry names no site."""
_MOST_STORED: Final = 4 * MAX_BODY_BYTES
"""Bytes. A payload whose numbers have more digits in the database is not kept: a list may contain a hundred of them."""


class LoggedMessage:
    """What a log entry contains about its message, for every outcome."""

    def __init__(self, message: PartnerMessage, sender: SendingKey) -> None:
        size = len(message.body)
        content: dict[str, Any] = {}
        if size <= MAX_BODY_BYTES:
            content = read_heading(message.body)
        elif size <= _MOST_READ:
            content.update(read_identity(message.body))
        self.message = message
        self.sender = sender
        self.content = content
        self.keeps_payload = size <= MAX_BODY_BYTES and NUL not in message.body and json_size(content) <= _MOST_STORED
        self.message_id = _message_id(content.get("messageId"))
        self.correlation_id = _text(content.get("correlationId"))
        self.site_id = _text(content.get("siteId"))
        self.digest = _digest(message.routing_key.encode(), message.body)
        self.raw_digest = _digest(
            message.routing_key.encode(),
            message.body,
            *(_header(message.headers.get(name)) for name in (SIGNATURE_HEADER, TIMESTAMP_HEADER, "CC", "BCC")),
        )


def new_log_entry(
    logged: LoggedMessage,
    entry_id: UUID,
    plant_id: UUID | None,
    kind: str | None,
    status: CommandStatus,
    ack: PartnerAck,
    now: datetime,
    *,
    claims_id: bool,
) -> NewLogEntry:
    """Return the log entry of a message."""
    return NewLogEntry(
        id=entry_id,
        organization_id=logged.sender.key.organization_id,
        api_key_id=logged.sender.key.id,
        plant_id=plant_id,
        site_id=logged.site_id,
        message_id=logged.message_id,
        correlation_id=logged.correlation_id,
        command_type=kind,
        routing_key=storable(logged.message.routing_key),
        payload=dict(logged.content) if logged.keeps_payload else {},
        digest=logged.digest if claims_id else logged.raw_digest,
        claims_id=claims_id,
        status=status.value,
        ack_status=ack,
        acknowledged_at=now,
    )


def known_payload(logged: LoggedMessage, command: Heading) -> dict[str, Any]:
    """Return what was sent of a command, without the members that the service does not know."""
    payload: dict[str, Any] = _known(logged.content, command)
    return payload if json_size(payload) <= _MOST_STORED else {}


def _known(sent: Any, read: Any) -> Any:
    match read:
        case msgspec.Struct():
            fields = [(field.encode_name, getattr(read, field.name)) for field in msgspec.structs.fields(read)]
            return {name: _known(sent[name], value) for name, value in fields if name in sent}
        case list():
            return [_known(*both) for both in zip(sent, read, strict=True)]
        case datetime():
            return msgspec.to_builtins(read)  # as text it may have any number of digits
    return sent


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _header(value: Any) -> bytes:
    """Return a header's value as bytes to hash.

    Only the type of tables and arrays counts, because they may be nested too deeply to be encoded.
    """
    return str(value if isinstance(value, str | bytes | bytearray | int) else type(value)).encode("utf-8", "surrogatepass")


def _message_id(value: Any) -> str | None:
    """Return a UUID in lower case, so that each spelling gives the same text. None for anything else."""
    try:
        return str(UUID(value)) if isinstance(value, str) and len(value) == 36 else None
    except ValueError:
        return None


def _text(value: Any) -> str | None:
    return storable(value)[:_MOST_TEXT] if isinstance(value, str) else None
