"""Records of partner commands and log entries."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.envelope import CommandType
from gridfleet.protocol.partner_messages import Heading, PartnerAck, RejectionReason

__all__ = [
    "Device",
    "Instruction",
    "LogEntry",
    "NewLogEntry",
    "PartnerMessage",
    "PendingCommand",
    "Rejection",
    "Verified",
]


class PartnerMessage(NamedTuple):
    """A partner's message as the broker delivers it. `redelivered` says that it may have been processed before."""

    routing_key: str
    body: bytes
    headers: Mapping[str, Any]
    redelivered: bool = False


class Rejection(Exception):
    """A partner command is refused. `detail` says in words what is wrong."""

    def __init__(self, reason: RejectionReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Verified(NamedTuple):
    """A verified partner command. `device` is the external id of the sub-device that the command names."""

    command: Heading
    type: CommandType
    device: str | None = None


class Device(NamedTuple):
    """A sub-device that a partner command names."""

    id: UUID
    external_id: str
    template_id: UUID | None


class Instruction(NamedTuple):
    """The content of a plant command: `content` holds its members other than ids and times."""

    content: dict[str, Any]
    expires_at: datetime
    device: Device | None = None


class NewLogEntry(msgspec.Struct, frozen=True):
    """An entry to write into the command log. Fields as in the table `vcp_command`."""

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
    """A partner command as the log shows it (spec, ESM command log entry).

    `status` is the state of the plant command, `ack_status` the status of the newest acknowledgement to the partner.
    """

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
    """A partner command that the plant has not finished."""

    id: UUID
    message_id: str
    command_type: str
    status: str
    issued_at: datetime
    expires_at: datetime
