"""Write a batch of frames in the caller's transaction; create sources, layouts and partitions before it."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch, FrameLayout, to_datetime
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database

__all__ = ["LayoutIdCache", "Partitions", "days_of", "write_batch"]


MOST_LAYOUTS: Final = 100_000
"""How many ids a process keeps, about 15 MB. Each device that sends a new name creates a layout."""


class LayoutIdCache:
    """Cache of layout ids in the process, by a digest with all scalings. Layouts never lose one, so nothing is invalidated."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}

    async def id_of(self, db: Connection, layout: FrameLayout) -> int:
        """Return the layout's id; create the layout if it does not exist."""
        digest = layout.digest  # not the layout itself: plants create any number of layouts, of 30 kB each
        layout_id = self._ids.get(digest)
        if layout_id is None:
            layout_id = await store.ensure_layout(db, layout)
            if len(self._ids) >= MOST_LAYOUTS:
                del self._ids[next(iter(self._ids))]
            self._ids[digest] = layout_id
        return layout_id


class Partitions:
    """Cache of daily partitions that exist.

    They are created in transactions of their own, so that a batch never holds their lock.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._days: set[date] | None = None

    async def ensure_for(self, batch: FrameBatch) -> None:
        """Create the missing partitions of the batch's days. Days with nothing but outdated frames get none.

        A frame is outdated if retention has deleted its source's frames of that time already. It would be deleted within the
        hour, without having been rolled up, and all readers wait while a partition is dropped.
        """
        missing = days_of(batch) - await self._known()
        if not missing:
            return
        keys = [(key, day) for key in batch.frames if (day := _day_of(key[1])) in missing]
        async with self._database.transaction() as db:
            starts = await store.starts(db, list({source_id for (source_id, _, _), _ in keys}), utc_now())
        kept = {day for (source_id, time, _), day in keys if source_id not in starts or to_datetime(time) >= starts[source_id]}
        batch.outdated = {key for key, day in keys if day not in kept}
        await self.ensure(kept)

    async def _known(self) -> set[date]:
        known = self._days  # `invalidate` may be called while this waits
        if known is None:
            async with self._database.transaction() as db:
                known = self._days = await store.partition_days(db)
        return known

    async def ensure(self, days: Iterable[date]) -> None:
        """Create the missing partitions of these UTC days."""
        known = await self._known()
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
    """Write frames and newest values of the batch. The partitions of `days_of(batch)` must exist, except of outdated frames."""
    if batch.frames:
        await store.copy_batch(db, batch)
        await store.write_frames(db)
        await store.write_latest(db, batch)


def days_of(batch: FrameBatch) -> set[date]:
    """Return the UTC days of the batch's frames."""
    return {_day_of(day * _DAY) for day in {time // _DAY for _, time, _ in batch.frames}}


def _day_of(time: int) -> date:
    return to_datetime(time).date()


_DAY = 86_400_000_000
