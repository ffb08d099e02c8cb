"""Comparison of the service's clock with those of the plants.

If stored times are in the future, the clock was ahead when they were stored, or is behind now: a machine may start with a date
years ago, and reach no time server for an hour. The plants' newest values show which: if the clock is behind, most of them are
in the future (docs/decisions/0438).
"""

from datetime import datetime

from gridfleet.domains.telemetry.latest import store
from gridfleet.kernel.db import Connection

__all__ = ["is_clock_behind"]


async def is_clock_behind(db: Connection, now: datetime | None = None) -> bool:
    """Return whether a clock is more than an hour behind those of the plants.

    Args:
        now: The time that the clock shows; None for the clock of the database.
    """
    return await store.is_clock_behind(db, now)
