"""Deletion of plants that partners control."""

from uuid import UUID

from gridfleet.domains.plants import lifecycle
from gridfleet.domains.plants.commands.expiry import PLANT_DELETED, end_open_commands, expire_due
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["delete_plant"]


async def delete_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete a plant as `lifecycle.delete_plant` does, after the acknowledgements that its partner commands ended.

    The gateway could not acknowledge them later, because the commands are deleted with the plant.

    Raises:
        PlantNotFound: There is no such plant.
    """
    await lifecycle.require_plant(db, org, plant_id)
    now = utc_now()
    commands = await end_open_commands(db, org, plant_id, now, PLANT_DELETED)
    while await expire_due(db, now, follow_commands, commands):
        continue
    await lifecycle.delete_plant(db, org, plant_id)
