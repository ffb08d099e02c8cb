"""Changes of many rows in short transactions: others wait only briefly for the rows that one of them has locked."""

from collections.abc import Awaitable, Callable
from typing import Final

from gridfleet.kernel.db.pool import Connection, Transactions

__all__ = ["in_batches"]

BATCH_ROWS: Final = 1_000
"""The most rows that one transaction changes, unless others do not wait for them."""


async def in_batches(
    database: Transactions, change: Callable[[Connection, int], Awaitable[int]], rows: int = BATCH_ROWS
) -> int:
    """Call `change`, each time in a transaction of its own, until it has changed fewer rows than its limit.

    Args:
        database: The database.
        change: Changes at most as many rows as its argument says, and returns their number.
        rows: The limit. Where `change` has no index to find its rows, a small one takes long.

    Returns:
        The number of rows.
    """
    total = 0
    while True:
        async with database.transaction() as db:
            count = await change(db, rows)
        total += count
        if count < rows:
            return total
