"""Retention of partner commands and plant commands."""

from datetime import datetime
from typing import Final

from gridfleet.domains.plants.commands.expiry import delete_ended
from gridfleet.domains.vcp import store
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import first_id_at

__all__ = ["delete_commands"]

_BATCH: Final = 5_000


async def delete_commands(database: Database, before: datetime) -> int:
    """Delete ended partner commands, then ended plant commands, from before `before`.

    Runs in short transactions, so that other work is not blocked. Returns how many were deleted.
    """
    total = 0
    for delete in (store.delete_log_entries, delete_ended):
        while True:
            async with database.transaction() as db:
                count = await delete(db, first_id_at(before), _BATCH)
            total += count
            if count < _BATCH:
                break
    return total
