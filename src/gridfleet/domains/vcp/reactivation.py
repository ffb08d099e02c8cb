"""Reactivation of plants that partners control."""

from uuid import UUID

from gridfleet.domains.plants import lifecycle
from gridfleet.domains.plants.commands.acknowledgements import apply_acknowledgements
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["reactivate_plant"]


async def reactivate_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Reactivate a plant as `lifecycle.reactivate_plant` does, and issue what waits for its next connection.

    The plant may have connected while it was SUSPENDED. That message was discarded.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not SUSPENDED.
    """
    await lifecycle.reactivate_plant(db, org, plant_id)
    await apply_acknowledgements(db, (), {plant_id}, utc_now(), follow_commands)
