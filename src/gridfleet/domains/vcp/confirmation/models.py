"""What a plant has yet to confirm, and orders that held before another one."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.protocol.partner_messages import Mode

__all__ = ["Kind", "Predecessor", "Unconfirmed"]


class Kind(StrEnum):
    """What is issued again."""

    MODE = "MODE"
    SCHEDULE = "SCHEDULE"
    STEP = "STEP"


class Unconfirmed(msgspec.Struct, frozen=True, kw_only=True):
    """A mode, schedule or step that the plant has not confirmed; see the table.

    `due_at` is None while the command is open, and for what waits for the plant's next connection.
    """

    plant_id: UUID
    kind: Kind
    command_id: UUID | None
    issued_at: datetime
    due_at: datetime | None = None
    confirmed_mode: Mode | None = None


class Predecessor(NamedTuple):
    """An accepted order that the plant has not refused."""

    id: UUID
    api_key_id: UUID
    created_at: datetime
    routing_key: str
    payload: dict[str, Any]
