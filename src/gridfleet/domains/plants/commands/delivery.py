"""The queue of commands to send: claim commands for a short time, sign them, and record the results of publishing.

A command is due at once, again while no queue at the broker takes it, again when its plant reconnects, and every two minutes
until the plant acknowledges it: a copy at the broker must not grow older than a plant accepts. Copies carry the same commandId,
and plants execute an id once. Commands to one plant are sent in the order in which they were issued. A plant that reconnects
executes the first copy that the broker still has of each command. So a copy does not outlive the copies before it of earlier
commands, and a command is not sent while earlier ones are being sent again, because those may have been lost.
"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.expiry import count
from gridfleet.domains.plants.commands.models import CommandType, DueCommand, FollowSteps, Transition
from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.domains.plants.credentials.signing_keys import load_signing_keys
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.isolation import is_poison, note_set_aside
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol import envelope as wire
from gridfleet.protocol.topics import Channel, topic

__all__ = ["CLAIM_SECONDS", "CLOCK_SECONDS", "START_SECONDS", "SignedCommand", "claim_due", "record_published", "retry_wait"]

CLAIM_SECONDS: Final = 5
"""How long a claimed command is reserved for one sender. If the sender fails, the command waits for this time."""

START_SECONDS: Final = 1
"""How long after its claim a command may be published. After that it may have been withdrawn, and must be claimed again."""

CLOCK_SECONDS: Final = 2
"""The largest difference between the clocks of two gateways that `gridfleet doctor` accepts without a warning."""

_REPEAT: Final = timedelta(minutes=2)
_OVERLAP: Final = timedelta(minutes=3)
"""How long a copy stays at the broker after the next one. A command's next copy is due with that of the earlier commands of its
plant or before, so it expires with theirs or before.
"""
_FIRST_WAIT: Final = timedelta(seconds=1)
_LONGEST_WAIT: Final = timedelta(seconds=15)
_PATIENCE: Final = timedelta(seconds=1)
"""How long a plant that has just connected may take to acknowledge the commands that its session held."""
_MOST_PLANTS: Final = 100
_MOST_COMMANDS: Final = 1_000
"""How many plants that have connected, and about how many of their commands, a claim makes due."""


class SignedCommand(NamedTuple):
    """A command that is ready to be published.

    Attributes:
        topic: The command topic of the plant.
        message: The signed message.
        life: How long the message is valid.
        deadline: The time of the process's monotonic clock after which it must not be published.
    """

    command: DueCommand
    topic: str
    message: bytes
    life: timedelta
    deadline: float

    @property
    def is_late(self) -> bool:
        """Whether the deadline for publishing has passed."""
        return time.monotonic() > self.deadline


async def claim_due(db: Connection, keyring: Keyring, now: datetime, limit: int) -> list[SignedCommand]:
    """Claim up to `limit` commands that are due, signed with the newest keys of their plants. Commit before sending.

    Commands of plants that have connected are made due first, some at a time.
    """
    began = time.monotonic()
    await sending.wake(db, now, now, now + _PATIENCE, _MOST_PLANTS, _MOST_COMMANDS)
    hold = timedelta(seconds=CLAIM_SECONDS)
    plant_ids = await sending.plants_to_claim(db, now, hold, limit)
    if not plant_ids:
        return []
    # The claim begins here: the look-up of plants may take longer than a command may wait for its publication. The claim ends
    # after the deadline, because an emergency stop is sent a second time only if it finds a claim that has not ended.
    claimed = time.monotonic()
    hold += timedelta(seconds=claimed - began)
    deadline = claimed + START_SECONDS
    due = await sending.claim(db, now, plant_ids, hold, _REPEAT, limit)
    # A plant whose secret cannot be decrypted must not delay the others.
    keys = await load_signing_keys(db, keyring, {command.plant_id for command in due}) if due else {}
    return [
        signed
        for command in due
        if (key := keys.get(command.plant_id)) is not None
        and (signed := _sign_or_leave(key.current, command, now, deadline)) is not None
    ]


async def record_published(
    db: Connection, now: datetime, published: Sequence[tuple[DueCommand, bool]], follow: FollowSteps | None
) -> list[Transition]:
    """Record the results of publishing claimed commands. Commands that no queue took are due again after `retry_wait`.

    Args:
        now: The time of the steps.
        published: (command, whether a queue of the plant took it).
        follow: Applies the new steps; None if the caller does it.

    Returns:
        The steps of the commands that became SENT.
    """
    taken = [command for command, delivered in published if delivered]
    waiting = [command for command, delivered in published if not delivered]
    if taken and waiting:
        # Both statements below in one order, as acknowledgements lock commands.
        await store.lock_many(db, {command.id for command, _ in published})
    if waiting:
        await sending.postpone(db, [(command, now + retry_wait(command.attempts)) for command in waiting])
    steps = count(db, await sending.mark_sent(db, now, taken)) if taken else []
    if steps and follow is not None:
        await follow(db, steps, ())
    return steps


def retry_wait(attempts: int) -> timedelta:
    """Return how long a command that no queue took waits after `attempts` attempts, including this one."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * (1 << min(attempts - 1, 10)))


def _sign_or_leave(key: bytes, command: DueCommand, now: datetime, deadline: float) -> SignedCommand | None:
    """Return None for a command that cannot be encoded; it stays in the queue until it expires."""
    try:
        return _sign(key, command, now, deadline)
    except Exception as error:
        if not is_poison(error):
            raise
        note_set_aside(Consumer.COMMANDS, error, command_id=str(command.id), plant_id=str(command.plant_id))
        return None


def _sign(key: bytes, command: DueCommand, now: datetime, deadline: float) -> SignedCommand:
    address = topic(str(command.plant_id), Channel.COMMANDS)
    message = wire.sign_message(key, address, str(new_id()), int(now.timestamp() * 1000), _payload(command, now))
    life = min(command.again_at + _OVERLAP, command.expires_at) - now
    return SignedCommand(command, address, message, life, deadline)


def _payload(command: DueCommand, now: datetime) -> bytes:
    content: dict[str, Any] = {
        "commandId": str(command.id),
        "type": command.type,
        "target": command.target,
        **_instruction(command, now),
        "issuedAt": wire.format_time(command.issued_at),
        "expiresAt": wire.format_time(command.expires_at),
    }
    return msgspec.json.encode(content)


def _instruction(command: DueCommand, now: datetime) -> dict[str, Any]:
    """Return the command's members.

    The duration of a setpoint of the service, such as a schedule's step, is what is left of it: plants count from its arrival.
    """
    duration = (command.instruction.get("params") or {}).get("durationSeconds")
    if command.type != CommandType.SITE_SETPOINT or command.requester_type != "SYSTEM" or duration is None:
        return command.instruction
    passed = max(0, round((now - command.issued_at).total_seconds()))
    return {**command.instruction, "params": {"durationSeconds": max(1, duration - passed)}}
