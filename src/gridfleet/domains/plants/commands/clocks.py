"""Times of waiting commands that a clock which was ahead has written.

It may be the clock of another process, or that of the same machine before it was corrected.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.commands import store
from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.kernel.db import Connection

__all__ = ["correct_due", "issue_time"]

_APART: Final = timedelta(milliseconds=2)
"""Distance to the command before. A mode may be placed a millisecond before the command that is issued with it."""


async def issue_time(db: Connection, plant_id: UUID, now: datetime) -> datetime:
    """Return the issue time of a command that is issued at `now`: `now`, or just after the last command that waits, if later.

    A plant gets its commands in the order of their issue times. With an earlier one, the command would be executed first, and
    the plant would stay in the state of the command before.
    """
    newest = await store.newest_waiting(db, plant_id)
    return now if newest is None or newest < now else newest + _APART


async def correct_due(db: Connection) -> int:
    """Make commands due whose due time is further in the future than that of any command. Returns how many."""
    return await sending.correct_due(db)
