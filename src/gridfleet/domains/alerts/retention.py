"""Retention of resolved alerts."""

from datetime import datetime

from gridfleet.domains.alerts import store
from gridfleet.kernel.db import Transactions
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.ids import first_id_at

__all__ = ["delete_resolved"]


async def delete_resolved(database: Transactions, before: datetime) -> int:
    """Delete alerts that were resolved before `before`, in short transactions. Returns their number.

    Alerts of metrics that have not cleared stay: states refer to them.
    """
    first = first_id_at(before)
    return await in_batches(database, lambda db, limit: store.delete_resolved(db, first, before, limit))
