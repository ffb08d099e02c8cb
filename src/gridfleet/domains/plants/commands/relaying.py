"""Commands that somebody else has weighed already: partners' orders, and what the service itself tells plants."""

from datetime import datetime
from uuid import UUID

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.dispatch import MAX_WAITING
from gridfleet.domains.plants.commands.models import CommandType, NewCommand
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["drop_waiting", "relay"]


async def relay(db: Connection, system: SystemScope, command: NewCommand) -> bool:
    """Issues a command, to be sent once the transaction has committed. False, and nothing done, while too many others wait
    for the plant; an EMERGENCY is always taken."""
    most = MAX_WAITING * (2 if command.type is CommandType.EMERGENCY else 1)
    return await store.insert_relayed(db, system, command, most)


async def drop_waiting(db: Connection, system: SystemScope, plant_id: UUID, now: datetime) -> None:
    """Ends what the plant has not acknowledged: after an emergency stop no copy of it may leave."""
    await store.end_waiting(db, system, plant_id, now)
