"""The sandbox's plants, as SuperAdmins manage them."""

from collections.abc import Mapping
from uuid import UUID

from psycopg.errors import ForeignKeyViolation
from pydantic.alias_generators import to_camel

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.sandbox_esm import store
from gridfleet.domains.sandbox_esm.errors import SandboxPlantNotFound
from gridfleet.domains.sandbox_esm.models import NewSandboxPlant, SandboxPlant, SandboxPlantChanges
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id

__all__ = ["change_plant", "create_plant", "delete_plant", "get_plant", "list_plants"]


async def create_plant(db: Connection, actor: Actor, new: NewSandboxPlant) -> SandboxPlant:
    """Create a plant, which is ready at once. Raises ValidationFailed for an unknown client or an external id in use."""
    try:
        plant = await store.insert_plant(db, new_id(), new)
    except ForeignKeyViolation:
        raise ValidationFailed(details=["clientId: is not a client of the sandbox"]) from None
    if plant is None:
        raise ValidationFailed(details=["externalPlantId: the client already has a plant with this id"])
    await _record(db, Event.SANDBOX_PLANT_CREATED, actor, plant, {"name": plant.name})
    return plant


async def list_plants(db: Connection) -> list[SandboxPlant]:
    """Return the plants of all clients, newest first."""
    return await store.all_plants(db)


async def get_plant(db: Connection, plant_id: UUID) -> SandboxPlant:
    """Return one plant. Raises SandboxPlantNotFound."""
    plant = await store.find_plant(db, plant_id)
    if plant is None:
        raise SandboxPlantNotFound
    return plant


async def change_plant(db: Connection, actor: Actor, plant_id: UUID, changes: SandboxPlantChanges) -> SandboxPlant:
    """Change a plant and return it. An empty change returns it as it is. Raises SandboxPlantNotFound."""
    if not (columns := given(changes)):
        return await get_plant(db, plant_id)
    plant = await store.update_plant(db, plant_id, columns)
    if plant is None:
        raise SandboxPlantNotFound
    await _record(db, Event.SANDBOX_PLANT_CHANGED, actor, plant, {"changed": sorted(map(to_camel, columns))})
    return plant


async def delete_plant(db: Connection, actor: Actor, plant_id: UUID) -> None:
    """Delete a plant. Raises SandboxPlantNotFound."""
    plant = await get_plant(db, plant_id)
    if not await store.delete_plant(db, plant_id):
        raise SandboxPlantNotFound
    await _record(db, Event.SANDBOX_PLANT_DELETED, actor, plant, {"name": plant.name})


async def _record(db: Connection, event: Event, actor: Actor, plant: SandboxPlant, details: Mapping[str, object]) -> None:
    named = {"clientId": plant.client_id, "externalPlantId": plant.external_plant_id}
    await record(db, event, actor, Subject(SubjectType.SANDBOX_PLANT, plant.id), details={**named, **details})
