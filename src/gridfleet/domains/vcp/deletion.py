"""Deletion of plants that partners control."""

from uuid import UUID

from gridfleet.domains.alerts.deletion import delete_alerts_of
from gridfleet.domains.plants import lifecycle
from gridfleet.domains.plants.commands.expiry import PLANT_DELETED, delete_ended_of, end_open_commands, expire_due
from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.trading.plans import delete_answered_of
from gridfleet.domains.vcp import store
from gridfleet.domains.vcp.acknowledgements import follow_commands
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Transactions
from gridfleet.kernel.db.batches import in_batches

__all__ = ["delete_plant"]


async def delete_plant(database: Transactions, org: OrgScope, plant_id: UUID) -> None:
    """Acknowledge the plant's open partner commands as ended, and delete the plant as `lifecycle.delete_plant` does.

    Alerts, plans and ended commands are deleted first, in short transactions. The transaction that deletes the plant locks it,
    and the messages of all plants would wait for that lock while years of commands are deleted.

    Raises:
        PlantNotFound: There is no such plant.
    """
    async with database.transaction() as db:
        await get_plant(db, org, plant_id)
    await in_batches(database, lambda db, limit: store.delete_log_entries_of(db, org, plant_id, limit))
    await in_batches(database, lambda db, limit: delete_ended_of(db, org, plant_id, limit))
    await in_batches(database, lambda db, limit: delete_answered_of(db, org, plant_id, limit))
    await delete_alerts_of(database, org, plant_id)
    async with database.transaction() as db:
        await _delete(db, org, plant_id)


async def _delete(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete the plant with what is left, and acknowledge its open commands.

    The gateway could not acknowledge them later, because the commands are deleted with the plant.
    """
    await lifecycle.require_plant(db, org, plant_id)
    now = utc_now()
    commands = await end_open_commands(db, org, plant_id, now, PLANT_DELETED)
    while await expire_due(db, now, follow_commands, commands):
        continue
    await lifecycle.delete_plant(db, org, plant_id)
