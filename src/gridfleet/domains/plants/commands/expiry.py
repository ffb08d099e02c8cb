"""Commands whose time has passed: EXPIRED at exactly `expiresAt`, whichever process notices it first."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.ending import store as ending
from gridfleet.domains.plants.commands.models import (
    OPEN,
    CommandLife,
    CommandReason,
    CommandStatus,
    FollowSteps,
    PlantCommand,
    Transition,
)
from gridfleet.kernel import metrics
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, after_commit

__all__ = [
    "DEVICE_DELETED",
    "EXPIRY_REASONS",
    "PLANT_DELETED",
    "PLANT_MOVED",
    "PLANT_REVOKED",
    "as_of",
    "count",
    "delete_ended",
    "delete_ended_of",
    "detach_ended",
    "end_open_commands",
    "expire",
    "expire_due",
    "list_due",
]

Command = TypeVar("Command", bound=PlantCommand)

_BATCH: Final = 1_000

PLANT_MOVED: Final = CommandReason("PLANT_MOVED", "The plant moved to another organisation.")
PLANT_REVOKED: Final = CommandReason("PLANT_REVOKED", "The plant was revoked.")
PLANT_DELETED: Final = CommandReason("PLANT_DELETED", "The plant was deleted.")
DEVICE_DELETED: Final = CommandReason("DEVICE_DELETED", "The sub-device was deleted.")

EXPIRY_REASONS: Final[Mapping[CommandStatus, CommandReason]] = {
    CommandStatus.PENDING: CommandReason("NOT_SENT", "The plant was not connected."),
    CommandStatus.SENT: CommandReason("NOT_RECEIVED", "The plant did not acknowledge the command."),
    CommandStatus.RECEIVED: CommandReason("NOT_FINISHED", "The plant received the command and did not report the outcome."),
}
"""Why a command expired that was not withdrawn, by the state that it had."""


def expire(life: CommandLife) -> tuple[CommandLife, Transition]:
    """Return the expired copy of an open command, and the transition to record. Both have `expires_at` as the end.

    Raises:
        KeyError: The command is not open and has no reason.
    """
    reason = life.reason or EXPIRY_REASONS[life.status]
    ended = replace(life, status=CommandStatus.EXPIRED, finished_at=life.expires_at, reason=reason)
    return ended, Transition(life.id, life.plant_id, CommandStatus.EXPIRED, life.expires_at, reason=reason)


def as_of(command: Command, now: datetime) -> Command:
    """Return a command in its state at `now`, even if no process has expired it yet."""
    if command.status not in OPEN or now < command.expires_at:
        return command
    return replace(
        command,
        status=CommandStatus.EXPIRED,
        finished_at=command.expires_at,
        reason=command.reason or EXPIRY_REASONS[command.status],
    )


async def expire_due(
    db: Connection, now: datetime, follow: FollowSteps | None, only: Sequence[UUID] | None = None
) -> list[Transition]:
    """End up to 1,000 commands that were withdrawn or whose expiry has passed.

    Args:
        follow: Applies the steps; None if they cannot be applied.
        only: The commands to consider; all if None.

    Returns:
        Their steps.
    """
    if only is None:
        await ending.end_withdrawn(db)
    steps = count(db, await ending.expire(db, now, EXPIRY_REASONS, only, _BATCH))
    if steps and follow is not None:
        await follow(db, steps, ())
    return steps


async def list_due(db: Connection, now: datetime) -> list[UUID]:
    """Return the commands that `expire_due` ends."""
    await ending.end_withdrawn(db)
    return await ending.list_passed(db, now, _BATCH)


async def end_open_commands(
    db: Connection, org: OrgScope, plant_id: UUID, now: datetime, reason: CommandReason, sub_device_id: UUID | None = None
) -> list[UUID]:
    """Expire every open command of a plant, or of one of its sub-devices, now.

    The caller has locked the plant or the sub-device. No further copy is sent. The gateway records the end, unless the caller
    does so with `expire_due`.

    Returns:
        The commands.
    """
    return await ending.withdraw_open(db, org, plant_id, sub_device_id, now, reason)


async def delete_ended_of(db: Connection, org: OrgScope, plant_id: UUID, limit: int) -> int:
    """Delete up to `limit` commands of a plant that have ended. Returns their number."""
    return await store.delete_finished_of(db, org, plant_id, limit)


async def detach_ended(db: Connection, org: OrgScope, sub_device_id: UUID, limit: int) -> int:
    """Detach up to `limit` commands that have ended from a sub-device. Returns their number."""
    return await store.detach_finished(db, org, sub_device_id, limit)


async def delete_ended(db: Connection, before: UUID, limit: int) -> int:
    """Delete up to `limit` commands that have ended and whose ids are below `before`. Returns their number."""
    return await store.delete_finished(db, before, limit)


def count(db: Connection, steps: list[Transition]) -> list[Transition]:
    """Count steps of commands after the commit. Returns the steps."""
    for step in steps:
        after_commit(db, metrics.COMMANDS.labels("LATE" if step.late else step.status).inc)
    return steps
