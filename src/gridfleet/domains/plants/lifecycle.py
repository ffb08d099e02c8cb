"""A plant's lifecycle after provisioning: suspend, reactivate, revoke, delete.

    PENDING ──provision──▶ ACTIVE ⇄ SUSPENDED        any but DECOMMISSIONED ──revoke──▶ DECOMMISSIONED

The row is locked first, so that concurrent changes run one after the other.
"""

from typing import Final
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.partner_events.changes import publish_status_changes
from gridfleet.domains.plants import store
from gridfleet.domains.plants.commands.expiry import PLANT_DELETED, PLANT_REVOKED, end_open_commands
from gridfleet.domains.plants.connections import queue_closing, queue_purge
from gridfleet.domains.plants.credentials import store as credentials
from gridfleet.domains.plants.errors import PlantNotFound, PlantStateForbids
from gridfleet.domains.plants.models import Lifecycle, Plant
from gridfleet.domains.plants.presence import store as presence
from gridfleet.domains.plants.sub_devices import store as sub_devices
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.jobs import defer

__all__ = ["ERASE_TELEMETRY", "delete_plant", "reactivate_plant", "require_plant", "revoke_plant", "suspend_plant"]


ERASE_TELEMETRY: Final = "telemetry.erase_deleted"
"""The job that deletes the telemetry of deleted plants."""


async def require_plant(db: Connection, org: OrgScope, plant_id: UUID) -> Plant:
    """Return the plant, locked until the transaction ends.

    Raises:
        PlantNotFound: There is no such plant.
    """
    plant = await store.lock(db, org, plant_id)
    if plant is None:
        raise PlantNotFound
    return plant


async def suspend_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Suspend a plant, ACTIVE → SUSPENDED: the plant stays connected, and what it sends is discarded.

    Commands that wait at the broker until it connects are deleted after the commit. They are sent again when it is reactivated.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not ACTIVE.
    """
    plant = await require_plant(db, org, plant_id)
    if plant.lifecycle_status is not Lifecycle.ACTIVE:
        raise PlantStateForbids(f"Only an ACTIVE plant can be suspended; this one is {plant.lifecycle_status}.")
    await store.set_lifecycle(db, org, plant_id, Lifecycle.SUSPENDED)
    await queue_purge(db, plant)
    await record_in(db, org, Event.PLANT_SUSPENDED, Subject.plant(plant_id))


async def reactivate_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Reactivate a plant with the same credentials, SUSPENDED → ACTIVE.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is not SUSPENDED.
    """
    plant = await require_plant(db, org, plant_id)
    if plant.lifecycle_status is not Lifecycle.SUSPENDED:
        raise PlantStateForbids(f"Only a SUSPENDED plant can be reactivated; this one is {plant.lifecycle_status}.")
    await store.set_lifecycle(db, org, plant_id, Lifecycle.ACTIVE)
    await record_in(db, org, Event.PLANT_REACTIVATED, Subject.plant(plant_id))


async def revoke_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Make a plant DECOMMISSIONED permanently: credentials are deleted, open commands end, connections close after the commit.

    Raises:
        PlantNotFound: There is no such plant.
        PlantStateForbids: The plant is DECOMMISSIONED already.
    """
    plant = await require_plant(db, org, plant_id)
    if plant.lifecycle_status is Lifecycle.DECOMMISSIONED:
        raise PlantStateForbids("The plant is DECOMMISSIONED already.")
    serials = await credentials.certificate_serials(db, org, plant_id)
    await publish_status_changes(db, await presence.decommission(db, org, plant_id))
    await credentials.delete(db, org, plant_id)
    await sub_devices.clear_status_of(db, org, plant_id)
    await end_open_commands(db, org, plant_id, utc_now(), PLANT_REVOKED)
    await record_in(db, org, Event.PLANT_REVOKED, Subject.plant(plant_id))
    if plant.lifecycle_status is not Lifecycle.PENDING:
        await queue_closing(db, org.organization_id, plant_id, serials)


async def delete_plant(db: Connection, org: OrgScope, plant_id: UUID) -> None:
    """Delete the plant and the rows that belong to it.

    A job deletes its telemetry later. Connections are closed after the commit.

    Raises:
        PlantNotFound: There is no such plant.
    """
    plant = await require_plant(db, org, plant_id)
    serials = await credentials.certificate_serials(db, org, plant_id)
    # The deletion locks the plant's rows in any order, but acknowledgements lock open commands in the order of their
    # ids: ending the commands first prevents a deadlock.
    await end_open_commands(db, org, plant_id, utc_now(), PLANT_DELETED)
    await store.delete(db, org, plant_id)
    details = {"name": plant.name, "serialNumber": plant.serial_number}
    await record_in(db, org, Event.PLANT_DELETED, Subject.plant(plant_id), details)
    await defer(db, ERASE_TELEMETRY, {"timestamp": 0}, lock=ERASE_TELEMETRY, unless_waiting=True)
    if plant.lifecycle_status not in (Lifecycle.PENDING, Lifecycle.DECOMMISSIONED):
        await queue_closing(db, org.organization_id, plant_id, serials)
