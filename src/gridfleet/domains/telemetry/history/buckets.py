"""Read values in buckets: page by page, or as columns."""

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final, TypeVar

from gridfleet.domains.telemetry.history.models import Bucket, BucketPoint, Column, ColumnBucket, Series, SeriesPosition
from gridfleet.domains.telemetry.history.values import store
from gridfleet.domains.telemetry.rollups.models import Level, Reach
from gridfleet.domains.telemetry.rollups.reading import store as rollups
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import round_down, round_up
from gridfleet.kernel.db import Connection

__all__ = [
    "BucketReader",
    "bucket_starts",
    "buckets_between",
    "kept_bucket",
    "read_buckets",
    "read_columns",
]

PAGE_POINTS: Final = 20_000
MOST_STATEMENTS: Final = 30_000
"""The most work of a count of points, in one transaction: short statements, of a millisecond or less on an idle machine."""
_STATEMENTS_FOR_VALUES: Final = 100
"""Short statements that take as long as the aggregates of a full page."""
_METRICS_FOR_STATEMENT: Final = 5
"""Metrics whose columns take as long as a short statement, without values too."""
_METRICS_PER_STATEMENT: Final = 250
"""Each metric needs four columns; a statement may have 1,664."""


AnyBucket = Bucket | ColumnBucket
_Bucket = TypeVar("_Bucket", Bucket, ColumnBucket)


def buckets_between(start: datetime, end: datetime, bucket: AnyBucket) -> int:
    """Return the number of buckets that overlap a range."""
    return -((round_down(start, bucket.width) - end) // bucket.width)


def bucket_starts(start: datetime, end: datetime, bucket: AnyBucket) -> list[datetime]:
    """Return the starts of the buckets that overlap a range."""
    first, width = round_down(start, bucket.width), bucket.width
    return [first + number * width for number in range(buckets_between(start, end, bucket))]


async def kept_bucket(db: Connection, series: Sequence[Series], bucket: _Bucket, start: datetime) -> _Bucket:
    """Return `bucket`, or the narrowest wider one for which values from `start` on are still kept."""
    reach = await rollups.reach(db, _sources_of(series), start, start)
    return next(wider for wider in type(bucket) if wider.width >= bucket.width and _is_kept(wider, reach, start))


def _is_kept(bucket: AnyBucket, reach: Reach, start: datetime) -> bool:
    level = _level(bucket)
    return start >= (reach.raw_from if level is None else min(reach.raw_from, reach.level_from(level) or start))


async def read_buckets(
    db: Connection, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime
) -> list[BucketPoint]:
    """Return the buckets of the series from values with `start` <= time < `end`, by time, then in the series' order."""
    sums = await _sums(db, series, bucket, start, end)
    return sums.points()


async def read_columns(
    db: Connection, series: Sequence[Series], bucket: ColumnBucket, start: datetime, end: datetime
) -> list[Column]:
    """Return a column of each of the series from values with `start` <= time < `end`, with an entry for each bucket."""
    sums = await _sums(db, series, bucket, start, end)
    starts = bucket_starts(start, end, bucket)
    columns = []
    for number in range(len(series)):
        columns.append(sums.column(number, starts))
        await asyncio.sleep(0)
    return columns


async def _sums(db: Connection, series: Sequence[Series], bucket: AnyBucket, start: datetime, end: datetime) -> "_Sums":
    """Return the aggregates of the series from values with `start` <= time < `end`.

    This function chooses the tables to read: roll-ups where they include every frame, frames elsewhere.
    """
    sums = _Sums(series, bucket)
    level = _level(bucket)
    if level is None:
        await _add_frames(db, sums, series, start, end)
        return sums
    rolled_start, rolled_end = round_up(start, _HOUR), round_down(end, _HOUR)
    reach = await rollups.reach(db, _sources_of(series), rolled_start, rolled_end)
    rolled_start = max(rolled_start, round_up(reach.level_from(level) or rolled_start, _HOUR))
    rolled_end = min(rolled_end, reach.watermark)
    if rolled_start >= rolled_end:
        await _add_edge(db, sums, start, end, reach)
        return sums
    # Hours that became dirty after their frames were dropped cannot be recomputed: their roll-ups are used as they are.
    stale = _spans([hour for hour in reach.dirty if max(reach.raw_from, rolled_start) <= hour < rolled_end], _HOUR)
    for span in stale:
        await _add_frames(db, sums, series, *span)
    for span in ((start, rolled_start), (rolled_end, end)):
        await _add_edge(db, sums, *span, reach)
    for span in _between(rolled_start, rolled_end, stale):
        if level is Level.DAY:
            first, last = round_up(span[0], _DAY), round_down(span[1], _DAY)
            if first < last:
                await _add_rollups(db, sums, Level.HOUR, span[0], first, reach.raw_from)
                await _add_rollups(db, sums, Level.DAY, first, last, reach.raw_from)
                await _add_rollups(db, sums, Level.HOUR, last, span[1], reach.raw_from)
            else:
                await _add_rollups(db, sums, Level.HOUR, *span, reach.raw_from)
        else:
            await _add_rollups(db, sums, level, *span, reach.raw_from)
    return sums


_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_MOST_SPANS: Final = 50
"""Parts of a range that are read from frames by a statement each. Instead of more, one reads all that lies between them."""
_SCALE: Final = 2.0**32
"""Sums are stored times 2^-32."""

_MANY_ROWS: Final = 1_000

Span = tuple[datetime, datetime]
Aggregates = tuple[float, float, float, int]
"""Sum times 2^-32, minimum, maximum and count."""


def _level(bucket: AnyBucket) -> Level | None:
    """Return the widest roll-ups that a bucket consists of; None if it is narrower than all."""
    return next((level for level in reversed(Level) if not bucket.width % level.width), None)


class _Sums:
    """Aggregates of buckets, combined from parts that share no value."""

    def __init__(self, series: Sequence[Series], bucket: AnyBucket) -> None:
        self.series = series
        self.width = bucket.width
        self._buckets: list[dict[datetime, Aggregates]] = [{} for _ in series]

    def add(self, number: int, time: datetime, total: float, low: float, high: float, count: int) -> None:
        """Add the aggregates of values of series `number` that begin at `time` and lie in one bucket."""
        self.add_bucket(number, round_down(time, self.width), total, low, high, count)

    def add_bucket(self, number: int, start: datetime, total: float, low: float, high: float, count: int) -> None:
        """Add the aggregates of values of series `number` to the bucket that begins at `start`."""
        buckets = self._buckets[number]
        found, earlier = (total, low, high, count), buckets.get(start)
        buckets[start] = found if earlier is None else _combined(earlier, found)

    async def add_rows(self, numbers: Sequence[int], rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows of a bucket's start, then its aggregates for each of the series `numbers`, with count 0 or NULL for none."""
        for column, number in enumerate(numbers):
            buckets, first, last = self._buckets[number], 1 + 4 * column, 4 + 4 * column
            for row in rows:
                if row[last]:
                    if row[0] in buckets:
                        self.add_bucket(number, row[0], *row[first : last + 1])
                    else:
                        buckets[row[0]] = row[first : last + 1]
            if len(rows) > _MANY_ROWS:
                await asyncio.sleep(0)

    def points(self) -> list[BucketPoint]:
        """Return the buckets, by time, then in the series' order."""
        return [
            BucketPoint(time, self.series[number], _average(total, low, high, count), low, high, count)
            for time, number, (total, low, high, count) in sorted(
                (time, number, aggregates)
                for number, buckets in enumerate(self._buckets)
                for time, aggregates in buckets.items()
            )
        ]

    def column(self, number: int, starts: Sequence[datetime]) -> Column:
        """Return the aggregates of series `number` in the buckets with these starts."""
        found = list(map(self._buckets[number].get, starts))
        return Column(
            self.series[number],
            [None if one is None else _average(*one) for one in found],
            [None if one is None else one[1] for one in found],
            [None if one is None else one[2] for one in found],
        )


def _combined(one: Aggregates, other: Aggregates) -> Aggregates:
    return one[0] + other[0], min(one[1], other[1]), max(one[2], other[2]), one[3] + other[3]


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


def _spans(times: Iterable[datetime], width: timedelta) -> list[Span]:
    """Join intervals of this width that begin at these times into at most `_MOST_SPANS` spans, by time."""
    found: list[Span] = []
    for time in sorted(times):
        if found and found[-1][1] == time:
            found[-1] = (found[-1][0], time + width)
        else:
            found.append((time, time + width))
    return [(found[0][0], found[-1][1])] if len(found) > _MOST_SPANS else found


def _is_within(spans: Sequence[Span], time: datetime) -> bool:
    place = bisect_right(spans, time, key=itemgetter(0))
    return place > 0 and time < spans[place - 1][1]


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
            await _add_rollups(db, sums, level, round_up(first, level.width), round_down(framed, level.width), reach.raw_from)
            framed = first


async def _add_rollups(db: Connection, sums: _Sums, level: Level, start: datetime, end: datetime, raw_from: datetime) -> None:
    if start >= end:
        return
    by_layout: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, one in enumerate(sums.series):
        for position in one.positions:
            by_layout.setdefault((position.source_id, position.layout_id), []).append((number, position.number))
    shared: dict[tuple[int, datetime], Aggregates] = {}
    doubtful: dict[int, list[datetime]] = {}
    for (source_id, layout_id), members in by_layout.items():
        alone = all(len(sums.series[number].positions) == 1 for number, _ in members)
        width = sums.width if alone else level.width
        rows = await rollups.buckets(db, level, source_id, layout_id, [number for _, number in members], start, end, width)
        if alone:
            await sums.add_rows([number for number, _ in members], rows)
            continue
        for time, *columns in rows:
            for column, (number, _) in enumerate(members):
                total, low, high, count = columns[4 * column : 4 * column + 4]
                if not count:
                    continue
                if len(sums.series[number].positions) == 1:
                    sums.add(number, time, total, low, high, count)
                elif (number, time) not in shared:
                    shared[number, time] = (total, low, high, count)
                else:
                    # Two layouts may have values of the same times, and only one is used. Only the frames show which.
                    if time >= raw_from:
                        doubtful.setdefault(number, []).append(time)
                    shared[number, time] = _combined(shared[number, time], (total, low, high, count))
    framed = {number: _spans(set(times), level.width) for number, times in doubtful.items()}
    for (number, time), aggregates in shared.items():
        if not _is_within(framed.get(number, ()), time):
            sums.add(number, time, *aggregates)
    for number, spans in framed.items():
        for span in spans:
            await _add_frames(db, sums, [sums.series[number]], *span)


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
            await sums.add_rows(
                [number], await store.buckets(db, [position[:3] for position in one.positions], start, end, width)
            )
    for (source_id, layout_id), members in wide.items():
        for first in range(0, len(members), _METRICS_PER_STATEMENT):
            part = members[first : first + _METRICS_PER_STATEMENT]
            numbers_of_part = [position.number for _, position in part]
            rows = await store.wide_buckets(db, source_id, layout_id, numbers_of_part, start, end, width)
            await sums.add_rows([number for number, _ in part], rows)


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
        shared = sum(len(one.positions) > 1 for one in series)
        self._statements_a_page = _STATEMENTS_FOR_VALUES + len(values) + shared + values.total() // _METRICS_FOR_STATEMENT
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
        page_end = round_down(self._start, self._bucket.width) + self._buckets_a_page * self._bucket.width
        # Without this, a gap of weeks in 2,000 series would be read in thousands of pages.
        frontier = await store.frontier(db, self._org, self._source_ids, self._start, self._end, self._frames_a_page)
        if frontier is None:
            return page_end
        return self._end if frontier == self._end else max(page_end, round_down(frontier, self._bucket.width))

    async def exceeds(self, db: Connection, limit: int) -> bool:
        """Return whether more than `limit` points remain, or their count would need more than `MOST_STATEMENTS`."""
        if self.finished or len(self._series) * buckets_between(self._start, self._end, self._bucket) <= limit:
            return False
        ahead = BucketReader(self._org, self._series, self._bucket, self._start, self._end)
        total = statements = 0
        while not ahead.finished and total <= limit and statements < MOST_STATEMENTS:
            total += len(await ahead.read(db))
            statements += self._statements_a_page
        return total > limit or not ahead.finished
