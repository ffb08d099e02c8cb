"""Alerts follow a plant that has moved to another organisation.

A plant may have a million alerts, and the transaction that moves it keeps the messages of all plants waiting. So that
transaction only notes the plant, and its alerts follow in short ones (docs/decisions/0366).
"""

from gridfleet.domains.alerts import store
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.batches import BATCH_ROWS

__all__ = ["follow_moves"]


async def follow_moves(database: Database) -> None:
    """Move the alerts of plants that have moved, newest first. The job may be cancelled; the next call continues."""
    async with database.transaction() as db:
        plants = await store.moved_plants(db)
    for plant_id, moved_at in plants:
        after: store.AlertKey | None = None
        while True:
            async with database.transaction() as db:
                after = await store.follow_plant(db, plant_id, after, BATCH_ROWS)
                if after is None:
                    await store.end_move(db, plant_id, moved_at)
                    break
