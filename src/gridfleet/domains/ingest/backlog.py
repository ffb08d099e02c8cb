"""How old a waiting message may be.

A plant's message must be fresh when it reaches the broker. It may then wait there for as long as we are away, and the
broker does not tell when it came. But a queue that was seen empty holds only what came later: that moment, kept for each
shard, bounds the arrival of everything still in it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from gridfleet.domains.ingest import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["load_empty_at", "save_empty_at"]

_SYSTEM: Final = SystemScope("ingest keeps its own counts")


async def load_empty_at(db: Connection, shard: int) -> int:
    """When the shard's queue was last known to be empty, in epoch milliseconds. A shard never written down was empty when
    the deployment began, which is now."""
    drained = (await store.drained_at(db, _SYSTEM)).get(shard, utc_now())
    return int(drained.timestamp() * 1000)


async def save_empty_at(db: Connection, moments: Mapping[int, int]) -> None:
    """Writes down those moments (epoch milliseconds by shard); they never move back."""
    drained = {shard: datetime.fromtimestamp(moment / 1000, UTC) for shard, moment in moments.items()}
    await store.record_drained(db, _SYSTEM, drained)
