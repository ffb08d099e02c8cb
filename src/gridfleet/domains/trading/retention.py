"""Retention of plans sent to the ESM."""

from datetime import datetime
from typing import Final

from gridfleet.domains.trading import store
from gridfleet.kernel.db import Transactions
from gridfleet.kernel.db.batches import in_batches

__all__ = ["delete_plans"]

_ROWS_AT_ONCE: Final = 10_000
"""Each batch passes over the plans that stay, one of each plant, so few large batches are faster. Only the deletion of a plant
waits for its old plans."""


async def delete_plans(database: Transactions, before: datetime) -> int:
    """Delete plans that were sent before `before`, in short transactions. Returns their number.

    The newest plan of each plant that its ESM accepted stays. Plans without a result, left by killed processes, are deleted.
    """
    return await in_batches(database, lambda db, limit: store.delete_changes(db, before, limit), _ROWS_AT_ONCE)
