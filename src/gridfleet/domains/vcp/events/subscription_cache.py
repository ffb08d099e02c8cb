"""The plants whose events somebody gets, as far as this process has met them. Database notifications empty it."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from gridfleet.domains.vcp.events.recipients import listened_plants
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Database

__all__ = ["SubscriptionCache"]

_SYSTEM: Final = SystemScope("ingest tells partners what plants reported")


class SubscriptionCache:
    """Organisations by plant; most plants have no listener, which is remembered too."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[UUID, UUID | None] = {}
        self._changes = 0

    async def look_up(self, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
        """The organisations of those plants that have a listener."""
        # Taken now: an entry may be struck out while the others are looked up.
        known = {plant_id: self._known[plant_id] for plant_id in plant_ids if plant_id in self._known}
        missing = [plant_id for plant_id in plant_ids if plant_id not in known]
        if missing:
            changes = self._changes
            async with self._database.transaction() as db:
                found = await listened_plants(db, _SYSTEM, missing)
            read = {plant_id: found.get(plant_id) for plant_id in missing}
            known |= read
            if changes == self._changes:  # else it may be stale already: good for now, not to be remembered
                self._known |= read
        return {plant_id: organization for plant_id, organization in known.items() if organization is not None}

    def invalidate(self, plant_id: str) -> None:
        """Strikes one plant out: it may belong to somebody else now."""
        self._changes += 1
        self._known.pop(UUID(plant_id), None)

    def invalidate_all(self) -> None:
        """Strikes everything out."""
        self._changes += 1
        self._known.clear()
