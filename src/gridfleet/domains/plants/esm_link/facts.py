"""Linked plants, and the data that their ESM has about them."""

from collections.abc import Collection
from uuid import UUID

from gridfleet.domains.plants.esm_link import store
from gridfleet.domains.plants.esm_link.models import EsmFacts
from gridfleet.kernel.db import Connection

__all__ = ["linked_plants", "write_facts"]


async def linked_plants(db: Connection, organization_id: UUID, plant_ids: Collection[UUID] | None) -> dict[str, UUID]:
    """Return the organisation's linked plants by their ids at the ESM; only those in `plant_ids`, if given."""
    return await store.linked(db, organization_id, plant_ids)


async def write_facts(db: Connection, organization_id: UUID, plant_id: UUID, external_id: str, facts: EsmFacts) -> None:
    """Update one plant, if it still has this link.

    Use one transaction per plant: another transaction that writes several plants in a different order must not wait for this
    one.
    """
    await store.write(db, organization_id, plant_id, external_id, facts)
