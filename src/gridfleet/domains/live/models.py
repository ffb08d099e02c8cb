"""Records of the stream of a fleet."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.domains.plants.commands.models import CommandReason, CommandStatus

__all__ = ["GonePlants", "LiveCommand", "StreamReset"]


class LiveCommand(msgspec.Struct, frozen=True, rename="camel"):
    """A command as far as its state changes. Its parameters, which may be large, are in the list of commands."""

    id: UUID
    plant_id: UUID
    external_id: str | None
    action: str | None
    status: CommandStatus
    issued_at: datetime
    expires_at: datetime
    sent_at: datetime | None
    received_at: datetime | None
    finished_at: datetime | None
    reason: CommandReason | None


class GonePlants(msgspec.Struct, frozen=True, rename="camel"):
    """Plants that were deleted or have moved to another organisation."""

    plant_ids: list[UUID]


class StreamReset(msgspec.Struct, frozen=True, rename="camel"):
    """Events are missing: the client must read what it shows again. `reason` is UNKNOWN_ID, TOO_SLOW or INTERRUPTED."""

    reason: str
