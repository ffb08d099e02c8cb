"""Values in buckets, page by page."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import Bucket, BucketPoint, Place, Series
from gridfleet.kernel.db import Connection

__all__ = ["BucketReader", "bucket_start", "buckets_between", "read_buckets"]

PAGE_POINTS: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_METRICS_PER_STATEMENT: Final = 250
"""Four columns each; a statement may have 1,664."""


def bucket_start(time: datetime, bucket: Bucket) -> datetime:
    """Start of the bucket that holds `time`."""
    return time - (time - _EPOCH) % bucket.width


def buckets_between(start: datetime, end: datetime, bucket: Bucket) -> int:
    """How many buckets a range touches."""
    return -((bucket_start(start, bucket) - end) // bucket.width)


async def read_buckets(
    db: Connection, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime
) -> list[BucketPoint]:
    """The buckets of the series with the values of `start` <= time < `end`, by time, then in the series' order.

    This is where the source of buckets is chosen. There is one so far: the frames.
    """
    return await _from_frames(db, series, bucket.width, start, end)


async def _from_frames(
    db: Connection, series: Sequence[Series], width: timedelta, start: datetime, end: datetime
) -> list[BucketPoint]:
    wide: dict[tuple[int, int], list[tuple[int, Place]]] = {}
    found: list[tuple[datetime, int, BucketPoint]] = []
    for number, one in enumerate(series):
        if len(series) > 1 and len(one.places) == 1:
            wide.setdefault(one.places[0][:2], []).append((number, one.places[0]))
        else:
            rows = await store.buckets(db, [place[:3] for place in one.places], start, end, width)
            found += [(row[0], number, BucketPoint(row[0], one, *row[1:])) for row in rows]
    for (source_id, layout_id), members in wide.items():
        for first in range(0, len(members), _METRICS_PER_STATEMENT):
            some = members[first : first + _METRICS_PER_STATEMENT]
            positions = [place.position for _, place in some]
            for time, *columns in await store.wide_buckets(db, source_id, layout_id, positions, start, end, width):
                for column, (number, _) in enumerate(some):
                    average, minimum, maximum, count = columns[4 * column : 4 * column + 4]
                    if count:
                        found.append((time, number, BucketPoint(time, series[number], average, minimum, maximum, count)))
    found.sort(key=lambda item: item[:2])
    return [point for _, _, point in found]


class BucketReader:
    """Reads buckets of many series, a stretch of time a page."""

    def __init__(self, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime) -> None:
        self._series = series
        self._bucket = bucket
        self._start = start
        self._end = end
        self._buckets_a_page = max(1, PAGE_POINTS // max(1, len(series)))
        self.finished = not series

    @property
    def one_page(self) -> bool:
        """Whether the next page is the last."""
        return buckets_between(self._start, self._end, self._bucket) <= self._buckets_a_page

    async def read(self, db: Connection) -> list[BucketPoint]:
        """The next page, possibly empty."""
        if self.finished:
            return []
        if self.one_page:
            page_end = self._end
        else:
            page_end = bucket_start(self._start, self._bucket) + self._buckets_a_page * self._bucket.width
        points = await read_buckets(db, self._series, self._bucket, self._start, page_end)
        self._start = page_end
        self.finished = page_end >= self._end
        return points

    async def exceeds(self, db: Connection, limit: int) -> bool:
        """Whether more than `limit` points are still to come."""
        if self.finished or len(self._series) * buckets_between(self._start, self._end, self._bucket) <= limit:
            return False
        ahead = BucketReader(self._series, self._bucket, self._start, self._end)
        total = 0
        while not ahead.finished and total <= limit:
            total += len(await ahead.read(db))
        return total > limit
