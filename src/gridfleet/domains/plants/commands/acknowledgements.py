"""Acknowledgements of commands. Duplicates are ignored; an acknowledgement that comes too late is only recorded."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.expiry import count, expire
from gridfleet.domains.plants.commands.models import (
    OPEN,
    Acknowledgement,
    CommandLife,
    CommandReason,
    CommandStatus,
    FollowSteps,
    Transition,
)
from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.kernel.db import Connection

__all__ = ["apply_acknowledgement", "apply_acknowledgements"]

_WAY: Final = (CommandStatus.PENDING, CommandStatus.SENT, CommandStatus.RECEIVED)
"""States that every command passes, whichever acknowledgement comes first: a plant that answers has received the command, and a
command that was received was sent.
"""


def apply_acknowledgement(life: CommandLife, ack: Acknowledgement, now: datetime) -> tuple[CommandLife, list[Transition]]:
    """Return the command after an acknowledgement, and the steps to it. Some of the steps may have been recorded before."""
    steps: list[Transition] = []
    if life.status in OPEN and life.expires_at <= now:
        life, step = expire(life)
        steps.append(step)
    reported = CommandStatus(ack.status)
    if life.status not in OPEN:
        steps.append(Transition(life.id, life.plant_id, reported, now, True, ack.reported_at, ack.reason))
        return _late(life, reported), steps
    ends = reported not in OPEN
    for status in (*_WAY[_WAY.index(life.status) + 1 :], *((reported,) if ends else ())):
        at = max(now, life.received_at or life.sent_at or life.issued_at)
        last = status is reported
        reason = ack.reason if last else None
        steps.append(Transition(life.id, life.plant_id, status, at, False, ack.reported_at if last else None, reason))
        life = _after(life, status, at, reason)
    return life, steps


def _after(life: CommandLife, status: CommandStatus, at: datetime, reason: CommandReason | None) -> CommandLife:
    match status:
        case CommandStatus.SENT:
            return replace(life, status=status, sent_at=at)
        case CommandStatus.RECEIVED:
            return replace(life, status=status, received_at=at)
    return replace(life, status=status, finished_at=at, reason=reason)


def _late(life: CommandLife, reported: CommandStatus) -> CommandLife:
    """Return an EXPIRED command with a reason that names a late result; any other command is returned unchanged."""
    if life.status is not CommandStatus.EXPIRED or reported in OPEN:
        return life
    message = f"The plant acknowledged with {reported} after the command had expired."
    return replace(life, reason=CommandReason(f"{reported}_LATE", message))


async def apply_acknowledgements(
    db: Connection,
    acknowledgements: Sequence[Acknowledgement],
    connected: Collection[UUID],
    now: datetime,
    follow: FollowSteps | None,
) -> list[Transition]:
    """Apply acknowledgements in their order, and let the senders send again what plants in `connected` have not acknowledged.

    Acknowledgements of a command that belongs to another plant, or does not exist, are ignored.

    Args:
        connected: Plants that have just connected.
        follow: Applies the new steps; None if the caller does it.

    Returns:
        The steps that are new. A second call with the same acknowledgements changes nothing.
    """
    # One statement takes all locks: batches that lock the same commands in several statements could deadlock.
    held = await store.lock_many(db, {ack.command_id for ack in acknowledgements}) if acknowledgements else []
    lives = {life.id: life for life in held}
    changed: dict[UUID, CommandLife] = {}
    steps: list[Transition] = []
    for ack in acknowledgements:
        life = lives.get(ack.command_id)
        if life is not None and life.plant_id == ack.plant_id:
            lives[life.id], new = apply_acknowledgement(life, ack, now)
            steps += (step._replace(request_id=ack.request_id) for step in new)
            if lives[life.id] != life:
                changed[life.id] = lives[life.id]
    if changed:
        await store.save_lives(db, list(changed.values()))
    if connected:
        # A thousand commands may wait for each of them: the senders make them due, in small transactions.
        await sending.note_connected(db, connected, now)
    recorded = count(db, await store.record(db, steps)) if steps else []
    if follow is not None:
        await follow(db, recorded, connected)
    return recorded
