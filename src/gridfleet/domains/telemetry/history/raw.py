"""Read raw values, page by page."""

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history.models import Point, Series, SeriesPosition, SeriesValues
from gridfleet.domains.telemetry.history.values import store
from gridfleet.domains.telemetry.history.values.store import Frame
from gridfleet.kernel.db import Connection

__all__ = ["FramesReader", "SeriesReader", "Values", "raw_reader", "read_values"]

PAGE_POINTS: Final = 20_000
MOST_EMISSIONS: Final = 100_000
"""Maximum number of emissions in the plans that a reader caches: about as many as one plan may have. Each takes 130 bytes."""
MOST_FRAMES: Final = 5_000
"""Frames of a page: each has up to 200 values, also if a query needs one of them."""
_MOST_FRAMES_AT_ONCE: Final = 20
"""A device with 4,000 metrics has frames of 20 layouts."""
_MICROSECOND: Final = timedelta(microseconds=1)


class Values(NamedTuple):
    """Times (microseconds since 2000-01-01 UTC, ascending, distinct) and values of one series."""

    times: Sequence[int]
    values: Sequence[float]


def _unpack(times: bytes, values: bytes, distinct: bool) -> Values:
    when, what = array("q", times), array("d", values)
    if sys.byteorder == "little":
        when.byteswap()
        what.byteswap()
    if not distinct:
        newest = dict(zip(when, what, strict=True))
        return Values(list(newest), list(newest.values()))
    return Values(when, what)


async def read_values(
    db: Connection, source_id: int, positions: Sequence[SeriesPosition], start: datetime, end: datetime
) -> Values:
    """Return the values of one metric of a source with `start` <= time < `end`, of each second the last one.

    So a day has at most 86,400, however often a plant measures. Values outside the limits of their position are -1.
    """
    return _unpack(*await store.values_by_second(db, source_id, positions, start, end), distinct=True)


def raw_reader(series: Sequence[Series], start: datetime, end: datetime) -> "SeriesReader | FramesReader":
    """Return the fastest reader for these series, which are sorted by metric."""
    if len(series) == 1 and len({(position.source_id, *position[3:]) for position in series[0].positions}) == 1:
        return SeriesReader(series[0], start, end)
    return FramesReader(series, start, end)


class SeriesReader:
    """Read one series of one source whose positions have the same unit and limits."""

    def __init__(self, series: Series, start: datetime, end: datetime) -> None:
        self._series = series
        self._source_id = series.positions[0].source_id
        self._picks = [(position.layout_id, position.number) for position in series.positions]
        self._start = start
        self._end = end
        self.finished = False

    async def read(self, db: Connection) -> SeriesValues:
        """Return the next page; it may be empty."""
        page = await store.values_page(db, self._source_id, self._picks, self._start, self._end, PAGE_POINTS)
        times, values = _unpack(page.times, page.values, len(self._picks) == 1)
        if page.frames < PAGE_POINTS or page.last is None:
            self.finished = True
        elif page.last == self._start:
            # All frames of the page have this time, and there may be more of it.
            self._start += _MICROSECOND
            moment = await store.values_page(db, self._source_id, self._picks, page.last, self._start, sys.maxsize)
            times, values = _unpack(moment.times, moment.values, len(self._picks) == 1)
        else:
            # Frames of other layouts at the page's last time may have been cut off, so that time is read again.
            self._start = page.last
            cut = bisect_left(times, microseconds(page.last))
            times, values = times[:cut], values[:cut]
        return SeriesValues(self._series, times, values)

    async def exceeds(self, db: Connection, limit: int) -> bool:
        """Return whether more than `limit` points remain."""
        if self.finished:
            return False
        found = await store.count_values(db, [self._source_id], self._picks, self._start, self._end, limit + 1)
        return found > limit


def _frontier(rows: Sequence[Frame], end: datetime, limit: int) -> datetime:
    """Return the time before which the rows are complete, if `limit` frames of each source before `end` were read."""
    counts = Counter[int]()
    for time, source_id, _, _ in rows:
        counts[source_id] += 1
        if counts[source_id] == limit:
            end = min(end, time + _MICROSECOND)
    return end


@dataclass(frozen=True, slots=True)
class _Emission:
    """One point to take from frames of one time. `choices` has (index of the frame, position), in the order in which they are
    tried until one has a value.
    """

    series: Series
    choices: tuple[tuple[int, SeriesPosition], ...]


class FramesReader:
    """Read many series at once from whole frames: each source by its index, merged by time.

    The window adapts: it ends where the page of the busiest source ends, so that the frames of other sources are not read
    twice.
    """

    def __init__(self, series: Sequence[Series], start: datetime, end: datetime) -> None:
        self._series = series
        self._source_ids = sorted({position.source_id for one in series for position in one.positions})
        self._start = start
        self._end = end
        self._window_end = end
        layouts = Counter(source_id for source_id, _ in {position[:2] for one in series for position in one.positions})
        # One frame more than a source has at one time: otherwise the pages of sources that report in turn would have one time
        # each. But a source may have thousands of its own names, each in a frame of its own, and all others wide frames.
        most_at_once = min(max(layouts.values(), default=0), _MOST_FRAMES_AT_ONCE)
        self._limit = min(max(PAGE_POINTS // max(1, len(series)), most_at_once + 1), MOST_FRAMES)
        # The first window is the whole range, in which each of many sources may have so many frames.
        self._next_limit = min(self._limit, max(MOST_FRAMES // max(1, len(self._source_ids)), most_at_once + 1))
        self._plans: dict[tuple[tuple[int, int], ...], list[_Emission]] = {}
        self._planned = 0
        self._by_layout: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, one in enumerate(series):
            for rank, position in enumerate(one.positions):
                self._by_layout.setdefault((position.source_id, position.layout_id), []).append((number, rank))
        self.finished = not self._source_ids

    async def read(self, db: Connection) -> Iterator[Point]:
        """Return the next page; it may be empty."""
        if self.finished:
            return iter(())
        limit, self._next_limit = self._next_limit, self._limit
        rows, end = await store.frames_page(db, self._source_ids, self._start, self._window_end, limit, MOST_FRAMES)
        frontier = _frontier(rows, end, limit)
        span = frontier - self._start
        self._start = frontier
        if frontier >= self._end:
            self.finished = True
        else:
            rows = rows[: bisect_left(rows, frontier, key=itemgetter(0))]
            self._window_end = min(self._end, frontier + 4 * span)
        return self._points(rows)

    def _points(self, rows: Sequence[Frame]) -> Iterator[Point]:
        for time, group in groupby(rows, key=itemgetter(0)):
            frames = list(group)
            for emission in self._plan(frames):
                for frame, position in emission.choices:
                    value = frames[frame][3][position.number]
                    if value is not None:
                        yield time, emission.series, position, value
                        break

    def _plan(self, frames: Sequence[Frame]) -> list[_Emission]:
        """Return the points to take from frames of these sources and layouts at one time, by metric. Computed once per
        combination.
        """
        signature = tuple((source_id, layout_id) for _, source_id, layout_id, _ in frames)
        plan = self._plans.get(signature)
        if plan is None:
            choices: dict[int, list[tuple[int, int]]] = {}
            for frame, which in enumerate(signature):
                for number, rank in self._by_layout.get(which, ()):
                    choices.setdefault(number, []).append((rank, frame))
            # A metric may be in few of the frames: a source's other layouts are read too.
            size = len(choices) + len(frames)
            self._planned += size
            if self._planned > MOST_EMISSIONS:
                self._plans.clear()
                self._planned = size
            plan = self._plans[signature] = []
            for number, found in sorted(choices.items()):
                series = self._series[number]
                plan.append(_Emission(series, tuple((frame, series.positions[rank]) for rank, frame in sorted(found))))
        return plan

    async def exceeds(self, db: Connection, limit: int) -> bool:
        """Return whether more than `limit` points remain. A metric with a value in two frames of one time is counted twice."""
        if self.finished:
            return False
        if len(self._series) == 1:
            picks = sorted({(position.layout_id, position.number) for position in self._series[0].positions})
            found = await store.count_values(db, self._source_ids, picks, self._start, self._end, limit + 1)
        else:
            found = await store.count_points(db, self._source_ids, self._start, self._end, limit + 1)
        return found > limit
