"""Issue commands that are already checked: commands of partners and of the service itself."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, CLOCK_SECONDS, START_SECONDS
from gridfleet.domains.plants.commands.dispatch import MAX_WAITING, MAX_WAITING_BYTES
from gridfleet.domains.plants.commands.ending.store import withdraw_waiting
from gridfleet.domains.plants.commands.models import NewPlantCommand, Requester
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id

__all__ = ["relay", "relay_all", "relay_stop"]

_HOLD: Final = timedelta(seconds=CLAIM_SECONDS + CLOCK_SECONDS)
_REPEAT: Final = timedelta(seconds=START_SECONDS + CLOCK_SECONDS)


async def relay(db: Connection, command: NewPlantCommand) -> bool:
    """Issue a command as `relay_all` does. Returns False if too many other commands wait for the plant."""
    return bool(await relay_all(db, [command]))


async def relay_all(db: Connection, commands: Sequence[NewPlantCommand]) -> set[UUID]:
    """Issue commands of different plants, to be sent after the commit.

    Returns:
        The ids of the issued commands. A command is not issued if too many or too large ones wait for its plant. The limits of
        an EMERGENCY are twice as high.
    """
    return await store.insert_relayed(db, commands, MAX_WAITING, MAX_WAITING_BYTES)


async def relay_stop(db: Connection, command: NewPlantCommand) -> bool:
    """Issue a new emergency stop, and withdraw the commands that the plant has not acknowledged.

    Returns:
        False if too many commands wait for the plant, as `relay` does.
    """
    overlaps = await withdraw_waiting(db, command.plant_id, command.issued_at, _HOLD)
    issued = await relay(db, command)
    if issued and overlaps:
        # Another gateway may be about to publish one of the withdrawn commands after this emergency. It does so within
        # START_SECONDS or not at all. So a second emergency is sent after that time, even by a gateway whose clock is
        # ahead. It has its own id, because plants execute an id only once.
        again = command._replace(id=new_id(), requester=Requester("SYSTEM", None), due_at=command.issued_at + _REPEAT)
        await relay(db, again)
    return issued
