"""Commands that are checked already: partners' commands, and those that the service itself issues."""

from datetime import timedelta
from typing import Final

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, CLOCK_SECONDS, START_SECONDS
from gridfleet.domains.plants.commands.dispatch import MAX_WAITING
from gridfleet.domains.plants.commands.ending.store import withdraw_waiting
from gridfleet.domains.plants.commands.models import CommandType, NewCommand, Requester
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id

__all__ = ["relay", "relay_stop"]

_HOLD: Final = timedelta(seconds=CLAIM_SECONDS + CLOCK_SECONDS)
_REPEAT: Final = timedelta(seconds=START_SECONDS + CLOCK_SECONDS)


async def relay(db: Connection, system: SystemScope, command: NewCommand) -> bool:
    """Issue a command, to be sent once the transaction has committed.

    Returns:
        False, and the command is not issued, while too many others wait for the plant. An EMERGENCY has twice the room.
    """
    most = MAX_WAITING * (2 if command.type is CommandType.EMERGENCY else 1)
    return await store.insert_relayed(db, system, command, most)


async def relay_stop(db: Connection, system: SystemScope, command: NewCommand) -> bool:
    """Issue a new emergency stop, and withdraw what the plant has not acknowledged. Returns what `relay` does."""
    overlaps = await withdraw_waiting(db, system, command.plant_id, command.issued_at, _HOLD)
    issued = await relay(db, system, command)
    if issued and overlaps:
        # Another gateway may be about to publish one of the withdrawn commands, after this emergency. It does so within
        # START_SECONDS or not at all, so a second emergency is sent after that, even by a gateway whose clock is ahead. It has
        # an id of its own: plants obey an id once.
        again = command._replace(id=new_id(), requester=Requester("SYSTEM", None), due_at=command.issued_at + _REPEAT)
        await relay(db, system, again)
    return issued
