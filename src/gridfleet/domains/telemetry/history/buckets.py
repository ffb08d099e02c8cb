"""Read values in buckets, page by page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.models import Bucket, BucketPoint, Series, SeriesPosition
from gridfleet.domains.telemetry.rollups import store as rollups
from gridfleet.domains.telemetry.rollups.models import Level, Reach
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection

__all__ = ["BucketReader", "bucket_start", "buckets_between", "kept_bucket", "read_buckets"]

PAGE_POINTS: Final = 20_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_METRICS_PER_STATEMENT: Final = 250
"""Each metric needs four columns; a statement may have 1,664."""


def bucket_start(time: datetime, bucket: Bucket) -> datetime:
    """Return the start of the bucket that contains `time`."""
    return time - (time - _EPOCH) % bucket.width


def buckets_between(start: datetime, end: datetime, bucket: Bucket) -> int:
    """Return the number of buckets that overlap a range."""
    return -((bucket_start(start, bucket) - end) // bucket.width)


async def kept_bucket(db: Connection, series: Sequence[Series], bucket: Bucket, start: datetime) -> Bucket:
    """Return `bucket`, or the narrowest wider one for which values from `start` on are still kept."""
    reach = await rollups.reach(db, _sources_of(series), start, start)
    return next(
        wider
        for wider in Bucket
        if wider.width >= bucket.width and start >= min(reach.raw_from, reach.level_from(_LEVELS[wider]) or start)
    )


async def read_buckets(
    db: Connection, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime
) -> list[BucketPoint]:
    """Return the buckets of the series from values with `start` <= time < `end`, by time, then in the series' order.

    This function chooses the tables to read: roll-ups where they include every frame, frames elsewhere.
    """
    sums = _Sums(series, bucket)
    rolled_start, rolled_end = _up(start, _HOUR), _down(end, _HOUR)
    level = _LEVELS[bucket]
    reach = await rollups.reach(db, _sources_of(series), rolled_start, rolled_end)
    rolled_start = max(rolled_start, _up(reach.level_from(level) or rolled_start, _HOUR))
    rolled_end = min(rolled_end, reach.watermark)
    if rolled_start >= rolled_end:
        await _add_edge(db, sums, start, end, reach)
        return sums.points()
    # Hours that became dirty after their frames were dropped cannot be recomputed: their roll-ups are used as they are.
    stale = _spans(sorted(hour for hour in reach.dirty if max(reach.raw_from, rolled_start) <= hour < rolled_end))
    if len(stale) > _MOST_SPANS:
        stale = [(stale[0][0], stale[-1][1])]
    for span in stale:
        await _add_frames(db, sums, series, *span)
    for span in ((start, rolled_start), (rolled_end, end)):
        await _add_edge(db, sums, *span, reach)
    for span in _between(rolled_start, rolled_end, stale):
        if level is Level.DAY:
            first, last = _up(span[0], _DAY), _down(span[1], _DAY)
            if first < last:
                await _add_rollups(db, sums, Level.HOUR, span[0], first, reach.raw_from)
                await _add_rollups(db, sums, Level.DAY, first, last, reach.raw_from)
                await _add_rollups(db, sums, Level.HOUR, last, span[1], reach.raw_from)
            else:
                await _add_rollups(db, sums, Level.HOUR, *span, reach.raw_from)
        else:
            await _add_rollups(db, sums, level, *span, reach.raw_from)
    return sums.points()


_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MOST_SPANS: Final = 50
_LEVELS: Final = {
    Bucket.MINUTE: Level.MINUTE,
    Bucket.FIVE_MINUTES: Level.MINUTE,
    Bucket.QUARTER_HOUR: Level.QUARTER,
    Bucket.HOUR: Level.HOUR,
    Bucket.DAY: Level.DAY,
}
_SCALE: Final = 2.0**32
"""Sums are stored times 2^-32."""

Span = tuple[datetime, datetime]


class _Sums:
    """Aggregates of buckets, combined from parts that share no value."""

    def __init__(self, series: Sequence[Series], bucket: Bucket) -> None:
        self.series = series
        self.width = bucket.width
        self._aggregates: dict[tuple[datetime, int], tuple[float, float, float, int]] = {}

    def add(self, number: int, time: datetime, total: float, low: float, high: float, count: int) -> None:
        """Add the aggregates of values of series `number` that begin at `time` and lie in one bucket."""
        self.add_bucket(number, time - (time - _EPOCH) % self.width, total, low, high, count)

    def add_bucket(self, number: int, start: datetime, total: float, low: float, high: float, count: int) -> None:
        """Add the aggregates of values of series `number` to the bucket that begins at `start`."""
        key = (start, number)
        earlier = self._aggregates.get(key)
        if earlier is not None:
            total, low, high, count = total + earlier[0], min(low, earlier[1]), max(high, earlier[2]), count + earlier[3]
        self._aggregates[key] = (total, low, high, count)

    def points(self) -> list[BucketPoint]:
        """Return the buckets, by time, then in the series' order."""
        return [
            BucketPoint(time, self.series[number], _average(total, low, high, count), low, high, count)
            for (time, number), (total, low, high, count) in sorted(self._aggregates.items())
        ]


def _average(total: float, low: float, high: float, count: int) -> float:
    """Return the average of values between `low` and `high`, rounded to 12 significant digits; further digits are rounding
    errors.
    """
    if low == high:
        return low
    # The order of operations keeps the digits of small sums; the limits keep averages of the largest doubles finite.
    exact = total * _SCALE / count if -1 < total < 1 else total / count * _SCALE
    rounded = float(f"{exact:.12g}")
    return rounded if low <= rounded <= high else min(max(exact, low), high)


def _sources_of(series: Sequence[Series]) -> list[int]:
    return sorted({position.source_id for one in series for position in one.positions})


def _up(time: datetime, width: timedelta) -> datetime:
    return time + (_EPOCH - time) % width


def _down(time: datetime, width: timedelta) -> datetime:
    return time - (time - _EPOCH) % width


def _spans(hours: Sequence[datetime]) -> list[Span]:
    """Join consecutive hours into spans."""
    found: list[Span] = []
    for hour in hours:
        if found and found[-1][1] == hour:
            found[-1] = (found[-1][0], hour + _HOUR)
        else:
            found.append((hour, hour + _HOUR))
    return found


def _between(start: datetime, end: datetime, gaps: Sequence[Span]) -> Iterator[Span]:
    """Yield the parts of a range that are not in the gaps."""
    for gap_start, gap_end in gaps:
        if start < gap_start:
            yield start, gap_start
        start = gap_end
    if start < end:
        yield start, end


async def _add_edge(db: Connection, sums: _Sums, start: datetime, end: datetime, reach: Reach) -> None:
    """Add a part of the range that does not consist of whole hours.

    Its values come from frames or, where these were dropped, from the narrowest remaining roll-up buckets that lie in it
    completely.
    """
    framed = min(max(start, reach.raw_from), end)
    await _add_frames(db, sums, sums.series, framed, end)
    for level, level_from in ((Level.MINUTE, reach.minutes_from), (Level.QUARTER, reach.quarters_from)):
        if level.width <= sums.width:
            first = min(max(start, level_from), framed)
            await _add_rollups(db, sums, level, _up(first, level.width), _down(framed, level.width), reach.raw_from)
            framed = first


async def _add_rollups(db: Connection, sums: _Sums, level: Level, start: datetime, end: datetime, raw_from: datetime) -> None:
    if start >= end:
        return
    by_layout: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, one in enumerate(sums.series):
        for position in one.positions:
            by_layout.setdefault((position.source_id, position.layout_id), []).append((number, position.number))
    shared: dict[tuple[int, datetime], list[tuple[float, float, float, int]]] = {}
    add = sums.add_bucket if level.width == sums.width else sums.add
    for (source_id, layout_id), members in by_layout.items():
        rows = await rollups.buckets(db, level, source_id, layout_id, [number for _, number in members], start, end)
        for time, *columns in rows:
            for column, (number, _) in enumerate(members):
                count, total, low, high = columns[4 * column : 4 * column + 4]
                if not count:
                    continue
                if len(sums.series[number].positions) == 1:
                    add(number, time, total, low, high, count)
                else:
                    shared.setdefault((number, time), []).append((total, low, high, count))
    for (number, time), aggregates in shared.items():
        if len(aggregates) > 1 and time >= raw_from:
            # Two layouts may have values of the same times, and only one is used. Only the frames show which.
            await _add_frames(db, sums, [sums.series[number]], time, time + level.width)
        else:
            for values in aggregates:
                add(number, time, *values)


async def _add_frames(db: Connection, sums: _Sums, some: Sequence[Series], start: datetime, end: datetime) -> None:
    if start >= end:
        return
    width = sums.width
    numbers = {id(one): number for number, one in enumerate(sums.series)}
    wide: dict[tuple[int, int], list[tuple[int, SeriesPosition]]] = {}
    for one in some:
        number = numbers[id(one)]
        if len(some) > 1 and len(one.positions) == 1:
            wide.setdefault(one.positions[0][:2], []).append((number, one.positions[0]))
        else:
            for row in await store.buckets(db, [position[:3] for position in one.positions], start, end, width):
                sums.add(number, *row)
    for (source_id, layout_id), members in wide.items():
        for first in range(0, len(members), _METRICS_PER_STATEMENT):
            part = members[first : first + _METRICS_PER_STATEMENT]
            numbers_of_part = [position.number for _, position in part]
            for time, *columns in await store.wide_buckets(db, source_id, layout_id, numbers_of_part, start, end, width):
                for column, (number, _) in enumerate(part):
                    total, low, high, count = columns[4 * column : 4 * column + 4]
                    if count:
                        sums.add(number, time, total, low, high, count)


class BucketReader:
    """Read buckets of many series; a page covers a span of time.

    The span has `PAGE_POINTS` possible points or, where frames are sparse, so many frames that they have no more values.
    """

    def __init__(self, org: OrgScope, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime) -> None:
        self._org = org
        self._series = series
        self._bucket = bucket
        self._start = start
        self._end = end
        self._buckets_a_page = max(1, PAGE_POINTS // max(1, len(series)))
        values = Counter(position[:2] for one in series for position in one.positions)
        self._source_ids = sorted({source_id for source_id, _ in values})
        self._frames_a_page = max(1, PAGE_POINTS // max(1, max(values.values(), default=0) * len(self._source_ids)))
        self.finished = not series

    @property
    def one_page(self) -> bool:
        """Whether the next page is the last."""
        return buckets_between(self._start, self._end, self._bucket) <= self._buckets_a_page

    async def read(self, db: Connection) -> list[BucketPoint]:
        """Return the next page; it may be empty."""
        if self.finished:
            return []
        page_end = self._end if self.one_page else await self._page_end(db)
        points = await read_buckets(db, self._series, self._bucket, self._start, page_end)
        self._start = page_end
        self.finished = page_end >= self._end
        return points

    async def _page_end(self, db: Connection) -> datetime:
        page_end = bucket_start(self._start, self._bucket) + self._buckets_a_page * self._bucket.width
        # Without this, a gap of weeks in 2,000 series would be read in thousands of pages.
        frontier = await store.frontier(db, self._org, self._source_ids, self._start, self._end, self._frames_a_page)
        if frontier is None:
            return page_end
        return self._end if frontier == self._end else max(page_end, bucket_start(frontier, self._bucket))

    async def exceeds(self, db: Connection, limit: int) -> bool:
        """Return whether more than `limit` points remain."""
        if self.finished or len(self._series) * buckets_between(self._start, self._end, self._bucket) <= limit:
            return False
        ahead = BucketReader(self._org, self._series, self._bucket, self._start, self._end)
        total = 0
        while not ahead.finished and total <= limit:
            total += len(await ahead.read(db))
        return total > limit
