"""Cache of the plants whose events partners receive."""

from collections.abc import Collection
from uuid import UUID

from gridfleet.domains.partner_events.queue import subscribed_plants
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notified_cache import NotifiedCache

__all__ = ["SubscriptionCache"]


class SubscriptionCache(NotifiedCache[UUID, UUID | None]):
    """Organisations by plant. Plants without a subscription are cached too, since most have none."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database

    async def subscribed(self, plant_ids: Collection[UUID]) -> dict[UUID, UUID]:
        """Return the organisations of those plants that have a subscription, by plant id."""
        known = await self.look_up(plant_ids, self._read)
        return {plant_id: organization for plant_id, organization in known.items() if organization is not None}

    async def _read(self, plant_ids: Collection[UUID]) -> dict[UUID, UUID | None]:
        async with self._database.transaction() as db:
            found = await subscribed_plants(db, plant_ids)
        return {plant_id: found.get(plant_id) for plant_id in plant_ids}
