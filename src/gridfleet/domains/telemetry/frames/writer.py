"""Write a batch of frames in the caller's transaction; create sources, layouts and partitions before it."""

from collections.abc import Iterable
from datetime import date, timedelta

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, to_datetime
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database

__all__ = ["LayoutIdCache", "Partitions", "days_of", "write_batch"]


class LayoutIdCache:
    """Cache of layout ids in the process, by digest. A layout never changes, so nothing is invalidated."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}

    async def id_of(self, db: Connection, layout: FrameLayout) -> int:
        """Return the layout's id; create the layout if it does not exist."""
        digest = layout.digest  # not the layout itself: plants create any number of layouts, of 30 kB each
        layout_id = self._ids.get(digest)
        if layout_id is None:
            layout_id = self._ids[digest] = await store.ensure_layout(db, layout)
        return layout_id


class Partitions:
    """Cache of daily partitions that exist. They are created in transactions of their own, so that a batch never holds their
    lock.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._days: set[date] | None = None

    async def ensure(self, days: Iterable[date]) -> None:
        """Create the missing partitions of these UTC days."""
        known = self._days  # `invalidate` may be called while this waits
        if known is None:
            async with self._database.transaction() as db:
                known = self._days = await store.partition_days(db)
        for day in sorted(set(days) - known):
            async with self._database.transaction() as db:
                await store.create_partition(db, day)
            known.add(day)

    async def ensure_ahead(self, count: int) -> None:
        """Create today's partition and those of the next `count` days."""
        today = utc_now().date()
        await self.ensure(today + timedelta(days=ahead) for ahead in range(count + 1))

    def invalidate(self) -> None:
        """Clear the cache: retention may have dropped partitions."""
        self._days = None


async def write_batch(db: Connection, batch: FrameBatch) -> None:
    """Write frames and newest values of the batch. The partitions of `days_of(batch)` must exist."""
    if batch.frames:
        await store.write_frames(db, batch)
        await store.write_latest(db, batch)


def days_of(batch: FrameBatch) -> set[date]:
    """Return the UTC days of the batch's frames."""
    return {to_datetime(day * _DAY).date() for day in {time // _DAY for _, time, _ in batch.frames}}


_DAY = 86_400_000_000
