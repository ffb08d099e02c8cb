"""Cache of the plants whose events partners receive. Database notifications invalidate its entries."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from gridfleet.domains.vcp.events.recipients import listened_plants
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Database

__all__ = ["SubscriptionCache"]

_SYSTEM: Final = SystemScope("ingest publishes measurements to partners")


class SubscriptionCache:
    """Organisations by plant. Plants without a subscription are cached too, since most have none."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[UUID, UUID | None] = {}
        self._changes = 0

    async def look_up(self, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
        """Return the organisations of those plants that have a subscription, by plant id."""
        # Copied first: an entry may be invalidated while the others are read.
        known = {plant_id: self._known[plant_id] for plant_id in plant_ids if plant_id in self._known}
        missing = [plant_id for plant_id in plant_ids if plant_id not in known]
        if missing:
            changes = self._changes
            async with self._database.transaction() as db:
                found = await listened_plants(db, _SYSTEM, missing)
            read = {plant_id: found.get(plant_id) for plant_id in missing}
            known |= read
            if changes == self._changes:  # else the answer may be stale: used once, not cached
                self._known |= read
        return {plant_id: organization for plant_id, organization in known.items() if organization is not None}

    def invalidate(self, plant_id: str) -> None:
        """Remove one plant, which may belong to another organisation now."""
        self._changes += 1
        self._known.pop(UUID(plant_id), None)

    def invalidate_all(self) -> None:
        """Remove all entries."""
        self._changes += 1
        self._known.clear()
