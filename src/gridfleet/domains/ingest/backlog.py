"""How old a waiting message may be.

A plant's message must be fresh when it reaches the broker. It may then wait there for as long as we are away, and the
broker does not tell when it came. But a queue that was seen empty holds only what came later: that moment, kept for each
shard, bounds the arrival of everything still in it.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from gridfleet.domains.ingest import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["Backlog"]

_SYSTEM: Final = SystemScope("ingest keeps its own books")
_MARGIN: Final = timedelta(seconds=60)
"""Covers what a connection that died unnoticed may have held back before its heartbeat ended it."""


class Backlog:
    """For each shard, a moment before which nothing in its queue arrived."""

    def __init__(self, drained: Mapping[int, datetime]) -> None:
        self._drained = dict(drained)

    @classmethod
    async def load(cls, db: Connection) -> "Backlog":
        """As far as it was written down."""
        return cls(await store.drained_at(db, _SYSTEM))

    def arrived_after(self, shard: int) -> int:
        """Epoch milliseconds. A shard never seen before was empty when the deployment began, which is now."""
        drained = self._drained.setdefault(shard, utc_now())
        return int((drained - _MARGIN).timestamp() * 1000)

    def note_empty(self, shard: int, moment: datetime) -> None:
        """The shard's queue held nothing at that moment."""
        self._drained[shard] = moment

    async def save(self, db: Connection) -> None:
        """Writes it down."""
        await store.record_drained(db, _SYSTEM, self._drained)
