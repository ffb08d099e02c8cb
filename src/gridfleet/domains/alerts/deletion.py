"""Deletion of sub-devices and plants, and revocation of plants, that alert rules watch."""

from collections.abc import Sequence
from uuid import UUID

from gridfleet.domains.alerts import store
from gridfleet.domains.alerts.publishing import publish_changes
from gridfleet.domains.alerts.states import store as states
from gridfleet.domains.plants import lifecycle
from gridfleet.domains.plants.commands.expiry import detach_ended
from gridfleet.domains.plants.sub_devices import registry
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, Transactions
from gridfleet.kernel.db.batches import in_batches

__all__ = ["delete_alerts_of", "delete_sub_device", "revoke_plant"]


async def delete_sub_device(database: Transactions, org: OrgScope, plant_id: UUID, external_id: str) -> None:
    """Delete a sub-device as the registry does, and resolve its open alerts that only further values could resolve.

    Commands that have ended are detached from it first, in short transactions, because messages of all plants wait for the
    transaction that deletes it.

    Raises:
        SubDeviceNotFound: There is no such sub-device.
    """
    async with database.transaction() as db:
        device = await registry.get_sub_device(db, org, plant_id, external_id)
    await in_batches(database, lambda db, limit: detach_ended(db, org, device.id, limit))
    async with database.transaction() as db:
        device = await registry.get_sub_device(db, org, plant_id, external_id)
        sources = await states.sources_of_device(db, org, device.id)
        await registry.delete_sub_device(db, org, plant_id, external_id)
        await _resolve(db, org, sources)


async def revoke_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Revoke a plant as `lifecycle` does, and resolve its open alerts that only further values could resolve.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is DECOMMISSIONED already.
    """
    await lifecycle.revoke_plant(db, org, plant_id)
    await _resolve(db, org, await states.sources_of_plant(db, org, plant_id))


async def delete_alerts_of(database: Transactions, org: OrgScope, plant_id: UUID) -> None:
    """Delete the alerts of a plant that will be deleted, in short transactions.

    Alerts whose conditions still hold are left for the plant's deletion: a metric has at most one for each rule.
    """
    await in_batches(database, lambda db, limit: store.delete_of_plant(db, org, plant_id, limit))


async def _resolve(db: Connection, org: OrgScope, sources: Sequence[int]) -> None:
    """Resolve the alerts on sources without further values whose rules have `autoResolve`."""
    await publish_changes(db, await store.resolve_by_itself(db, await states.clearing_alerts(db, org, sources)))
    await states.delete_states_of(db, org, sources)
