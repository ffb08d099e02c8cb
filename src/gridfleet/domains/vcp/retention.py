"""Retention of partner commands and plant commands."""

from datetime import datetime

from gridfleet.domains.plants.commands.expiry import delete_ended
from gridfleet.domains.vcp import store
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.ids import first_id_at

__all__ = ["delete_commands"]


async def delete_commands(database: Database, before: datetime) -> int:
    """Delete ended partner commands, then ended plant commands, from before `before`.

    Runs in short transactions, so that other work is not blocked. Returns how many were deleted.
    """
    first = first_id_at(before)
    entries = await in_batches(database, lambda db, limit: store.delete_log_entries(db, first, limit))
    return entries + await in_batches(database, lambda db, limit: delete_ended(db, first, limit))
