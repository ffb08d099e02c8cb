"""Read the values of metrics from frames for runs of hours.

The layouts of a metric are merged. At the same time, the newest one takes precedence.
"""

import sys
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

from gridfleet.domains.telemetry.computing import computed
from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.arithmetic import MAX_GAP_SECONDS, is_far
from gridfleet.domains.telemetry.energy.editions import Edition, Readings, read_layouts
from gridfleet.domains.telemetry.energy.quarters import LONGEST_GAP
from gridfleet.domains.telemetry.energy.runs import Run
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource, SeriesPosition
from gridfleet.domains.telemetry.roles import RoleMetric
from gridfleet.domains.telemetry.units import KILO, in_kilo
from gridfleet.kernel.db import Connection

__all__ = [
    "MetricName",
    "RunMetric",
    "TookTooLong",
    "portions",
    "read",
    "read_after_zeros",
    "read_earlier",
    "read_following",
    "returns",
]

_HOUR: Final = timedelta(hours=1)
_AFTER: Final = timedelta(seconds=MAX_GAP_SECONDS)
"""Time after an hour whose readings its computation uses: one may show that the hour's last reading was misread, and a power
ends the line from the hour's last power.
"""
_LONGEST_GAP: Final = timedelta(microseconds=LONGEST_GAP)
_HOURS_AT_ONCE: Final = 50
"""Hours of metrics that a statement reads. With a value each second, reading takes half a second, and computing a tenth."""


class TookTooLong(Exception):
    """The energies were not computed in time."""


class RunMetric(NamedTuple):
    """A metric of a source in a run."""

    run: int
    source: LayoutSource
    key: str
    is_counter: bool

    @property
    def name(self) -> "MetricName":
        return self.run, self.source.id, self.key


MetricName = tuple[int, int, str]
"""Run, source and key."""


class _Part(NamedTuple):
    """Times and values of a metric in one layout as they were read, and their edition."""

    times: bytes
    values: bytes
    edition: Edition


def portions(metrics: Sequence[RunMetric], runs: Sequence[Run], until: float) -> Iterator[list[RunMetric]]:
    """Yield the metrics in portions for one statement each: a plant with many devices may measure every second.

    Raises:
        TookTooLong: The monotonic time `until` has passed, and a portion is left.
    """
    portion: list[RunMetric] = []
    hours = 0
    for metric in metrics:
        run = runs[metric.run]
        length = (run.end - run.read_from) // _HOUR
        if portion and hours + length > _HOURS_AT_ONCE:
            yield portion
            if monotonic() > until:
                raise TookTooLong
            portion, hours = [], 0
        portion.append(metric)
        hours += length
    if portion:
        yield portion


_Span = tuple[RunMetric, datetime, datetime]
"""A metric to read between two times."""


def _picks(spans: Sequence[_Span]) -> tuple[list[store.Pick], list[tuple[MetricName, Edition]]]:
    """Return what to read of metrics, and the name and edition of each pick; newer layouts of a metric come last."""
    picks: list[store.Pick] = []
    owners: list[tuple[MetricName, Edition]] = []
    for metric, start, end in spans:
        for layout in read_layouts(metric.source, metric.key, is_counter=metric.is_counter):
            _, _, position, _, *limits = SeriesPosition.of(metric.source.id, layout, layout.positions[metric.key])
            bounds = limits if metric.is_counter else ()
            picks.append(store.Pick(len(picks), metric.source.id, layout.id, position, start, end, *bounds))
            owners.append((metric.name, Edition.of(layout.metrics[position])))
    return picks, owners


async def read(db: Connection, metrics: Sequence[RunMetric], runs: Sequence[Run]) -> dict[MetricName, Readings]:
    """Return the readings of each metric from its run's `read_from` until `MAX_GAP_SECONDS` after the run."""
    picks, owners = _picks([(metric, runs[metric.run].read_from, runs[metric.run].end + _AFTER) for metric in metrics])
    edited = _edited(owners)
    parts: dict[MetricName, list[_Part]] = {metric.name: [] for metric in metrics}
    for number, times, values in sorted(await store.readings(db, picks) if picks else []):
        name, edition = owners[number]
        parts[name].append(_Part(times, values, edition))
    found: dict[MetricName, Readings] = {}
    for metric in metrics:
        some = parts[metric.name]
        merged = partial(_merged, some, is_edited=metric.name in edited)
        found[metric.name] = await computed(merged, sum(len(one.times) for one in some) // 8)
    return found


def _edited(owners: Sequence[tuple[MetricName, Edition]]) -> frozenset[MetricName]:
    """Return the metrics of which several editions are read."""
    names = Counter(name for name, _ in set(owners))
    return frozenset(name for name, editions in names.items() if editions > 1)


async def read_earlier(db: Connection, metrics: Collection[RunMetric], runs: Sequence[Run]) -> dict[MetricName, Readings]:
    """Return the last two readings of each metric before its run, at most a day before `since`.

    Metrics without such readings are left out.
    """
    spans = [(metric, runs[metric.run].since - _LONGEST_GAP, runs[metric.run].read_from) for metric in metrics]
    found = await _read_some(db, spans, store.last_readings)
    return {name: readings.part(slice(-2, None)) for name, readings in found.items()}


async def read_following(
    db: Connection,
    metrics: Collection[RunMetric],
    runs: Sequence[Run],
    values: Mapping[MetricName, Readings],
    after_gaps: Collection[MetricName],
) -> dict[MetricName, Readings]:
    """Return the next reading of each metric whose last one is in its run, within a day after that.

    Those of `after_gaps` also have it if their last one is before their run.
    """
    spans = [
        (metric, run.end + _AFTER, to_datetime(times[-1]) + _LONGEST_GAP)
        for metric in metrics
        for run, times in [(runs[metric.run], values[metric.name].times)]
        if times
        and times[-1] < microseconds(run.end) < times[-1] + LONGEST_GAP
        and (times[-1] >= microseconds(run.start) or metric.name in after_gaps)
    ]
    found = await _read_some(db, spans, store.next_readings)
    return {name: readings.part(slice(1)) for name, readings in found.items()}


async def read_after_zeros(
    db: Connection, metrics: Collection[RunMetric], runs: Sequence[Run], values: Mapping[MetricName, Readings]
) -> dict[MetricName, Readings]:
    """Return the next positive reading of each metric whose last one is in its run, far from the level, and before zeros.

    Only the reading after the zeros shows whether it was misread.
    """
    spans: list[_Span] = []
    for metric in metrics:
        run, (times, readings, _) = runs[metric.run], values[metric.name]
        if not readings or readings[-1] > 0:
            continue
        positive = [(time, reading) for time, reading in zip(times, readings, strict=True) if reading > 0][-2:]
        last = positive[-1][0] if positive else 0
        if len(positive) == 2 and microseconds(run.start) <= last < microseconds(run.end) and is_far(*dict(positive).values()):
            spans.append((metric, to_datetime(times[-1] + 1), to_datetime(last) + _LONGEST_GAP))
    found = await _read_some(db, spans, partial(store.next_readings, positive=True))
    return {name: readings.part(slice(1)) for name, readings in found.items()}


async def _read_some(
    db: Connection,
    spans: Sequence[_Span],
    read: Callable[[Connection, Sequence[store.Pick]], Awaitable[list[tuple[int, datetime, float]]]],
) -> dict[MetricName, Readings]:
    """Return what `read` returns of metrics with any readings in their spans."""
    picks, owners = _picks(spans)
    edited = _edited(owners)
    found: dict[MetricName, dict[int, tuple[float, Edition]]] = {}
    for number, time, value in sorted(await read(db, picks) if picks else []):
        name, edition = owners[number]
        found.setdefault(name, {})[microseconds(time)] = in_kilo(value, edition.size), edition
    return {
        metric.name: Readings.of(dict(sorted(found[metric.name].items())), is_edited=metric.name in edited)
        for metric, _, _ in spans
        if metric.name in found
    }


async def returns(
    db: Connection, counters: Sequence[tuple[LayoutSource, str, Collection[RoleMetric], Readings]]
) -> list[frozenset[int]]:
    """Return for each counter the indices of its first readings after another counter of its device took its place.

    Args:
        db: The connection.
        counters: Source and key of each counter, the counters that had its role in earlier templates, and its readings.
    """
    picks: list[store.Pick] = []
    owners: list[int] = []
    for number, (source, key, others, (times, _, _)) in enumerate(counters):
        later = [one.key for one in others if times and one.ended_at is not None and microseconds(one.ended_at) > times[0]]
        for other in later:
            for layout in read_layouts(source, other, is_counter=True):
                if key not in layout.positions:  # a template that declares both counters measures with both
                    start, end = to_datetime(times[0]), to_datetime(times[-1])
                    picks.append(store.Pick(len(picks), source.id, layout.id, layout.positions[other], start, end))
                    owners.append(number)
    found: list[set[int]] = [set() for _ in counters]
    for number, moments, values in await store.readings(db, picks) if picks else []:
        others_at, _ = _unpacked(_Part(moments, values, Edition(KILO, None)))
        times = counters[owners[number]][3].times
        found[owners[number]] |= {bisect_right(times, moment) for moment in set(others_at).difference(times)}
    return [frozenset(one) for one in found]


def _unpacked(part: _Part) -> tuple[Sequence[int], Sequence[float]]:
    when, what = array("q", part.times), array("d", part.values)
    if sys.byteorder == "little":
        when.byteswap()
        what.byteswap()
    size = part.edition.size
    return when, what if size == KILO else [in_kilo(value, size) for value in what]


def _merged(parts: Sequence[_Part], *, is_edited: bool) -> Readings:
    """Return a metric's values from its layouts, of which the newest comes last and takes precedence at the same time."""
    if len(parts) < 2 and not is_edited:
        return Readings(*_unpacked(parts[0])) if parts else Readings([], [])
    # Sorted once: a plant decides how many layouts it has.
    merged = {time: (value, part.edition) for part in parts for time, value in zip(*_unpacked(part), strict=True)}
    return Readings.of(dict(sorted(merged.items())), is_edited=is_edited)
