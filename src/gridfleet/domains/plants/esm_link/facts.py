"""Linked plants, and what their ESM tells of them."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.esm_link import store
from gridfleet.domains.plants.esm_link.models import EsmFacts
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["linked_plants", "write_facts"]

_SYSTEM: Final = SystemScope("an organisation's ESM tells of the plants that are linked to it")


async def linked_plants(db: Connection, organization_id: UUID, plant_ids: Collection[UUID] | None) -> dict[str, UUID]:
    """The organisation's linked plants by their ids at the ESM; only those of `plant_ids`, if given."""
    return await store.linked(db, _SYSTEM, organization_id, plant_ids)


async def write_facts(db: Connection, organization_id: UUID, plant_id: UUID, external_id: str, facts: EsmFacts) -> None:
    """Brings one plant up to date, if it is still linked so. One plant a transaction: whoever writes several at once in
    another order must never wait for this."""
    await store.write(db, _SYSTEM, organization_id, plant_id, external_id, facts)
