"""Compute the energies of plants' hours from frames.

The rules are those of the energy of the day, which is the sum of its hours. A counter counts in an hour if it was read in that
hour or in the day before it; otherwise the power is integrated. A device measures from the hour of its first value; a deleted
one measures until the hour of its last value. The energy of an hour does not depend on which others are computed with it.
"""

import math
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import groupby
from operator import gt
from time import monotonic
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.energy import store
from gridfleet.domains.telemetry.energy.arithmetic import MAX_GAP_SECONDS, limited
from gridfleet.domains.telemetry.energy.computing import computed
from gridfleet.domains.telemetry.energy.editions import Edition, Readings
from gridfleet.domains.telemetry.energy.models import DirtyHour, KeptHour
from gridfleet.domains.telemetry.energy.quarters import (
    LONGEST_GAP,
    QUARTERS,
    Quarters,
    continued,
    counter_quarters,
    hours_with_counter,
    milliwatt_hours,
    power_quarters,
    total,
)
from gridfleet.domains.telemetry.energy.zeros import with_levels
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.history.models import LayoutSource, SeriesPosition
from gridfleet.domains.telemetry.roles import Energy, EnergyMeter, RoleMetric, energy_meters
from gridfleet.domains.telemetry.units import KILO, in_kilo
from gridfleet.kernel.db import Connection

__all__ = ["TookTooLong", "energies_of_hours"]

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


class _Run(NamedTuple):
    """Hours of a plant on one UTC day that are computed together, from frames since the hour before `since`.

    The same sub-devices measure in all of them.
    """

    plant_id: UUID
    start: datetime
    hours: int
    since: datetime

    @property
    def read_from(self) -> datetime:
        return self.since - _HOUR

    @property
    def end(self) -> datetime:
        return self.start + self.hours * _HOUR

    def hour(self, index: int) -> DirtyHour:
        """Return an hour of the run by its index from 0."""
        return DirtyHour(self.plant_id, self.start + index * _HOUR)


class _Metric(NamedTuple):
    """A metric of a source in a run."""

    run: int
    source: LayoutSource
    key: str
    is_counter: bool

    @property
    def name(self) -> "_Name":
        return self.run, self.source.id, self.key


_Name = tuple[int, int, str]
"""Run, source and key."""


class _Part(NamedTuple):
    """Times and values of a metric in one layout as they were read, and their edition."""

    times: bytes
    values: bytes
    edition: Edition


class _Counted(NamedTuple):
    """The rises of a counter in the quarters of a run, the hours in which it fell, and those in which it counts."""

    rises: list[float | None]
    falls: frozenset[int]
    counts_in: frozenset[int]


async def energies_of_hours(
    db: Connection,
    metrics: Mapping[UUID, Sequence[RoleMetric]],
    hours: Iterable[DirtyHour],
    until: float = math.inf,
    misread: set[DirtyHour] | None = None,
) -> dict[DirtyHour, KeptHour]:
    """Return the energies of plants' hours; without any reading, they are None.

    Args:
        metrics: The metrics of each plant that have a role.
        hours: Whole hours.
        until: The monotonic time after which no further statement begins.
        misread: Receives the hours before these whose last reading of a counter was too high.

    Raises:
        TookTooLong: `until` has passed.
    """
    wanted = sorted(set(hours))
    runs = await _runs(db, wanted, metrics)
    in_runs = [(number, meter) for number, run in enumerate(runs) for meter in _meters_of(run, metrics)]
    counters = await _counters(db, runs, in_runs, until, set() if misread is None else misread)
    needed = [one for one in in_runs if len(_counted_in(*one, counters)) < runs[one[0]].hours]
    powers = await _powers(db, runs, needed, until)
    parts: dict[tuple[int, Energy], list[Quarters]] = defaultdict(list)
    falls: set[DirtyHour] = set()
    for number, meter in in_runs:
        run = runs[number]
        counted = [counters[number, meter.source.id, key] for key in meter.counters]
        integrated = [
            powers[number, meter.source.id, key][meter.positive]
            for key in meter.powers
            if powers.get((number, meter.source.id, key))
        ]
        falls |= {run.hour(hour) for one in counted for hour in one.falls}
        by_counter = _counted_in(number, meter, counters)
        parts[number, meter.energy].append(_joined(integrated, [one.rises for one in counted], by_counter, run))
    found: dict[DirtyHour, KeptHour] = {}
    for number, run in enumerate(runs):
        sums = [total(parts[number, energy] or [[None] * (QUARTERS * run.hours)]) for energy in Energy]
        for hour in range(run.hours):
            energies = [value for column in sums for value in column[QUARTERS * hour : QUARTERS * (hour + 1)]]
            found[run.hour(hour)] = KeptHour(energies, run.hour(hour) in falls)
    return {one: found[one] for one in wanted}


def _joined(
    powers: Sequence[Sequence[float | None]], counters: Sequence[Sequence[float | None]], by_counter: Set[int], run: _Run
) -> Quarters:
    """Return the sums of counters' rises in the hours `by_counter` of a run, and of powers' energies in its other hours."""
    columns = (
        [one[quarter] for one in (counters if quarter // QUARTERS in by_counter else powers)]
        for quarter in range(QUARTERS * run.hours)
    )
    known = ([value for value in column if value is not None] for column in columns)
    return [milliwatt_hours(limited(sum(values))) if values else None for values in known]


def _counted_in(number: int, meter: EnergyMeter, counters: Mapping[_Name, _Counted]) -> frozenset[int]:
    """Return the hours of a run in which a counter of the meter counts."""
    return frozenset[int]().union(*(counters[number, meter.source.id, key].counts_in for key in meter.counters))


async def _runs(db: Connection, wanted: Sequence[DirtyHour], metrics: Mapping[UUID, Sequence[RoleMetric]]) -> list[_Run]:
    begins = {plant_id: sorted(one.began_at for one in own if one.began_at is not None) for plant_id, own in metrics.items()}
    ends = {plant_id: sorted(one.ended_at for one in own if one.ended_at is not None) for plant_id, own in metrics.items()}

    def day_and_sources(one: DirtyHour) -> tuple[UUID, date, int, int]:
        begun, ended = bisect_right(begins.get(one.plant_id, ()), one.hour), bisect_left(ends.get(one.plant_id, ()), one.hour)
        return one.plant_id, one.hour.astimezone(UTC).date(), begun, ended

    parts = [list(group) for _, group in groupby(wanted, day_and_sources)]
    fell = await store.falls_before(db, [part[0] for part in parts])
    found: list[_Run] = []
    day_before = None
    for part in parts:
        plant_id, start = part[0]
        day = day_and_sources(part[0])[:2]
        # A counter that fell adds nothing until it is back at its level, which only the readings of the day show. Otherwise
        # those of the hour before suffice. Falls in an earlier part of the same day are not stored yet.
        since = start.replace(hour=0) if part[0] in fell or day == day_before else start
        found.append(_Run(plant_id, start, (part[-1].hour - start) // _HOUR + 1, since))
        day_before = day
    return found


def _meters_of(run: _Run, metrics: Mapping[UUID, Sequence[RoleMetric]]) -> list[EnergyMeter]:
    """Return what measures the energy of a run's plant in its hours."""
    return energy_meters(
        one
        for one in metrics.get(run.plant_id, ())
        if (one.began_at is None or one.began_at <= run.start) and (one.ended_at is None or one.ended_at >= run.start)
    )


async def _counters(
    db: Connection, runs: Sequence[_Run], meters: Sequence[tuple[int, EnergyMeter]], until: float, misread: set[DirtyHour]
) -> dict[_Name, _Counted]:
    """Return the counters of meters in runs.

    The last reading within a day before a run's `since` sets the level of the first one in the run; the one before it shows
    whether it was misread. A reading within a day after the run shows that for the last one in the run.
    """
    found: dict[_Name, _Counted] = {}
    metrics = {
        metric.name: metric
        for number, meter in meters
        for key in meter.counters
        for metric in [_Metric(number, meter.source, key, True)]
    }
    for some in _portions(list(metrics.values()), runs, until):
        values = await _read(db, some, runs)
        first = {metric.name: microseconds(runs[metric.run].start) for metric in some}
        before = {metric.name: bisect_left(values[metric.name].times, microseconds(runs[metric.run].since)) for metric in some}
        # If there are several readings before `since`, a low first one only causes a rise before the run.
        unsure = [metric for metric in some if before[metric.name] < 2 or gt(*values[metric.name].values[:2])]
        for name, earlier in (await _read_earlier(db, unsure, runs)).items():
            last = values[name].values[0] if before[name] else earlier.values[-1]
            values[name] = continued(earlier, values[name], with_last=not before[name])
            times, readings, _ = values[name]
            if readings[0] < last:
                hour = to_datetime(times[0]).replace(minute=0, second=0, microsecond=0)
                misread.add(DirtyHour(runs[name[0]].plant_id, hour))
        levels = await with_levels(db, [(metric.source, metric.key, values[metric.name]) for metric in some])
        values |= dict(zip((metric.name for metric in some), levels, strict=True))
        for name, following in (await _read_following(db, some, runs, values)).items():
            values[name] = following.after(values[name])
        for metric in some:
            hours = runs[metric.run].hours
            times, readings, _ = values[metric.name]
            edits = values[metric.name].edits()
            count = partial(counter_quarters, times, readings, first[metric.name], QUARTERS * hours, edits)
            rises = await computed(count, len(times))
            falls = frozenset(quarter // QUARTERS for quarter in rises.falls)
            found[metric.name] = _Counted(rises.rises, falls, hours_with_counter(times, first[metric.name], hours))
    return found


async def _powers(
    db: Connection, runs: Sequence[_Run], meters: Sequence[tuple[int, EnergyMeter]], until: float
) -> dict[_Name, dict[bool, list[float | None]]]:
    """Return the energies of meters' powers in the quarters of runs: of positive power under True, of negative under False."""
    found: dict[_Name, dict[bool, list[float | None]]] = {}
    metrics = {
        metric.name: metric
        for number, meter in meters
        for key in meter.powers
        for metric in [_Metric(number, meter.source, key, False)]
    }
    for some in _portions(list(metrics.values()), runs, until):
        values = await _read(db, some, runs)
        for metric in some:
            run, (times, powers, _) = runs[metric.run], values[metric.name]
            integrate = partial(power_quarters, times, powers, microseconds(run.start), QUARTERS * run.hours)
            found[metric.name] = {
                positive: await computed(partial(integrate, positive=positive), len(times)) for positive in (True, False)
            }
    return found


def _portions(metrics: Sequence[_Metric], runs: Sequence[_Run], until: float) -> Iterator[list[_Metric]]:
    """Yield the metrics in portions for one statement each: a plant with many devices may measure every second."""
    portion: list[_Metric] = []
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


_Span = tuple[_Metric, datetime, datetime]
"""A metric to read between two times."""


def _picks(spans: Sequence[_Span]) -> tuple[list[store.Pick], list[tuple[_Name, Edition]]]:
    """Return what to read of metrics, and the name and edition of each pick; newer layouts of a metric come last."""
    picks: list[store.Pick] = []
    owners: list[tuple[_Name, Edition]] = []
    for metric, start, end in spans:
        for layout in sorted(metric.source.layouts, key=lambda layout: layout.id):
            if metric.key in layout.positions:
                _, _, position, _, *limits = SeriesPosition.of(metric.source.id, layout, layout.positions[metric.key])
                bounds = limits if metric.is_counter else ()
                picks.append(store.Pick(len(picks), metric.source.id, layout.id, position, start, end, *bounds))
                owners.append((metric.name, Edition.of(layout.metrics[position])))
    return picks, owners


async def _read(db: Connection, metrics: Sequence[_Metric], runs: Sequence[_Run]) -> dict[_Name, Readings]:
    picks, owners = _picks([(metric, runs[metric.run].read_from, runs[metric.run].end + _AFTER) for metric in metrics])
    parts: dict[_Name, list[_Part]] = {metric.name: [] for metric in metrics}
    for number, times, values in sorted(await store.readings(db, picks) if picks else []):
        name, edition = owners[number]
        parts[name].append(_Part(times, values, edition))
    found: dict[_Name, Readings] = {}
    for metric in metrics:
        some = parts[metric.name]
        merged = partial(_merged, some, is_edited=_is_edited(metric))
        found[metric.name] = await computed(merged, sum(len(one.times) for one in some) // 8)
    return found


def _is_edited(metric: _Metric) -> bool:
    """Return whether a metric has several editions."""
    layouts = metric.source.layouts
    return len({Edition.of(one.metrics[one.positions[metric.key]]) for one in layouts if metric.key in one.positions}) > 1


async def _read_earlier(db: Connection, metrics: Collection[_Metric], runs: Sequence[_Run]) -> dict[_Name, Readings]:
    """Return the last two readings of each metric that has any before those of its run, within a day before `since`."""
    spans = [(metric, runs[metric.run].since - _LONGEST_GAP, runs[metric.run].read_from) for metric in metrics]
    found = await _read_some(db, spans, store.last_readings)
    return {name: readings.part(slice(-2, None)) for name, readings in found.items()}


async def _read_following(
    db: Connection, metrics: Collection[_Metric], runs: Sequence[_Run], values: Mapping[_Name, Readings]
) -> dict[_Name, Readings]:
    """Return the next reading of each metric whose last one is in its run, within a day after that."""
    spans = [
        (metric, run.end + _AFTER, to_datetime(times[-1]) + _LONGEST_GAP)
        for metric in metrics
        for run, times in [(runs[metric.run], values[metric.name].times)]
        if times and microseconds(run.start) <= times[-1] < microseconds(run.end)
    ]
    found = await _read_some(db, spans, store.next_readings)
    return {name: readings.part(slice(1)) for name, readings in found.items()}


async def _read_some(
    db: Connection,
    spans: Sequence[_Span],
    read: Callable[[Connection, Sequence[store.Pick]], Awaitable[list[tuple[int, datetime, float]]]],
) -> dict[_Name, Readings]:
    """Return what `read` returns of metrics with any readings in their spans."""
    picks, owners = _picks(spans)
    found: dict[_Name, dict[int, tuple[float, Edition]]] = {}
    for number, time, value in sorted(await read(db, picks) if picks else []):
        name, edition = owners[number]
        found.setdefault(name, {})[microseconds(time)] = in_kilo(value, edition.size), edition
    return {
        metric.name: Readings.of(dict(sorted(found[metric.name].items())), is_edited=_is_edited(metric))
        for metric, _, _ in spans
        if metric.name in found
    }


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
