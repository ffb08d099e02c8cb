"""Commands as the list over all plants shows them."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from gridfleet.domains.plants.commands.models import CommandReason, CommandStatus, CommandType, PlantCommand

__all__ = ["CommandDetailed", "CommandFilter", "CommandStep", "ListedCommand"]


class CommandFilter(msgspec.Struct, frozen=True):
    """Conditions of a list of commands. None, and an empty set, select all.

    Attributes:
        issued_by: The user or API key that issued the commands.
        since: The first issue time.
        until: The end of the issue times, exclusive.
    """

    plant_id: UUID | None = None
    statuses: frozenset[CommandStatus] = frozenset()
    types: frozenset[CommandType] = frozenset()
    issued_by: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None


class ListedCommand(PlantCommand, frozen=True, rename="camel"):
    """A command to a plant or one of its sub-devices. `requested_by_name` is null for commands of the service itself."""

    type: CommandType
    plant_name: str
    requested_by_name: str | None


class CommandStep(msgspec.Struct, frozen=True, rename="camel"):
    """A state that a command reached. `late` steps came after its end and changed nothing."""

    status: CommandStatus
    at: datetime
    late: bool
    reported_at: datetime | None
    reason: CommandReason | None


class CommandDetailed(ListedCommand, frozen=True, rename="camel"):
    """A command with what the plant receives, and its steps in the order of time."""

    instruction: dict[str, Any]
    steps: list[CommandStep]
