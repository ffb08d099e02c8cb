"""Deletion of sub-devices that alert rules watch."""

from uuid import UUID

from gridfleet.domains.alerts import store
from gridfleet.domains.alerts.publishing import publish_changes
from gridfleet.domains.plants.sub_devices import registry
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["delete_sub_device"]


async def delete_sub_device(db: Connection, org: OrgScope, plant_id: UUID, external_id: str) -> None:
    """Delete a sub-device as the registry does, and resolve its open alerts that only its next values could have resolved.

    Raises:
        SubDeviceNotFound: There is no such sub-device.
    """
    device = await registry.get_sub_device(db, org, plant_id, external_id)
    sources = await store.sources_of_device(db, org, device.id)
    await registry.delete_sub_device(db, org, plant_id, external_id)
    await publish_changes(db, await store.resolve_by_itself(db, await store.clearing_alerts(db, org, sources)))
    await store.delete_states_of(db, org, sources)
