"""What the stream of a fleet shows, read for all who watch it."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from gridfleet.domains.fleet.plants.listing import list_fleet
from gridfleet.domains.fleet.plants.models import FleetFilter, FleetPaging, FleetPlant
from gridfleet.domains.live.models import LiveCommand
from gridfleet.domains.plants.commands.listing.queries import find_commands
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["live_commands", "live_plants"]


async def live_plants(db: Connection, org: OrgScope, plant_ids: Sequence[UUID]) -> list[FleetPlant]:
    """Return those of the plants that exist and that the caller may see, as lists show them."""
    wanted = frozenset(plant_ids)
    narrowed = replace(org, plant_ids=wanted if org.plant_ids is None else wanted & org.plant_ids)
    return (await list_fleet(db, narrowed, FleetFilter(), FleetPaging(limit=len(wanted)))).data


async def live_commands(db: Connection, org: OrgScope, command_ids: Sequence[UUID]) -> list[LiveCommand]:
    """Return those of the commands that the organisation issued and whose plants the caller may see."""
    commands = await find_commands(db, org, command_ids)
    return [LiveCommand(**{name: getattr(one, name) for name in LiveCommand.__struct_fields__}) for one in commands]
