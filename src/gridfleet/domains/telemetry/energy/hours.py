"""Compute the energies of plants' hours from frames.

The rules are those of the energy of the day, which is the sum of its hours. A counter counts in an hour if it was read in that
hour or in the day before it; otherwise the power is integrated. A device measures from the hour of its first value; a deleted
one measures until the hour of its last value. The energy of an hour does not depend on which others are computed with it.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import timedelta
from functools import partial
from operator import gt
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.telemetry.computing import computed
from gridfleet.domains.telemetry.energy.arithmetic import is_misread, limited
from gridfleet.domains.telemetry.energy.editions import Readings
from gridfleet.domains.telemetry.energy.models import DirtyHour, KeptHour
from gridfleet.domains.telemetry.energy.quarters import (
    QUARTERS,
    Quarters,
    continued,
    counter_quarters,
    hours_between_readings,
    hours_with_counter,
    milliwatt_hours,
    power_quarters,
    total,
)
from gridfleet.domains.telemetry.energy.readings import (
    MetricName,
    RunMetric,
    portions,
    read,
    read_after_zeros,
    read_earlier,
    read_following,
    returns,
)
from gridfleet.domains.telemetry.energy.runs import Run, meters_of, runs_of
from gridfleet.domains.telemetry.energy.zeros import with_levels
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.domains.telemetry.roles import Energy, EnergyMeter, RoleMetric, former_counters
from gridfleet.kernel.db import Connection

__all__ = ["energies_of_hours"]

_HOUR: Final = timedelta(hours=1)
_AT_GRID: Final = (Energy.IMPORTED, Energy.EXPORTED)


class _Counted(NamedTuple):
    """A counter in the hours of a run.

    Attributes:
        rises: Its rise in each quarter.
        falls: The hours in which it fell.
        counts_in: The hours in which it counts.
        counts_later: Of a counter at the grid, the hours in which it was not read, and whose rise is in a later one.
    """

    rises: list[float | None]
    falls: frozenset[int]
    counts_in: frozenset[int]
    counts_later: frozenset[int]


async def energies_of_hours(
    db: Connection,
    metrics: Mapping[UUID, Sequence[RoleMetric]],
    hours: Iterable[DirtyHour],
    until: float = math.inf,
    outdated: set[DirtyHour] | None = None,
    changed: Collection[DirtyHour] = frozenset(),
) -> dict[DirtyHour, KeptHour]:
    """Return the energies of plants' hours; without any reading, they are None.

    Args:
        metrics: The metrics of each plant that have a role.
        hours: Whole hours.
        until: The monotonic time after which no further statement begins.
        outdated: Receives earlier hours that these show to be wrong: their last reading of a counter was too high, or the
            counter now continues from a reading before them, and they may have the energy of power, or no energy at the grid.
            The latter only if the reading that continues is of an hour in `changed`. Otherwise two parts of a gap that are
            computed one after the other would outdate each other without end.
        changed: The hours whose readings have changed.

    Raises:
        TookTooLong: `until` has passed.
    """
    wanted = sorted(set(hours))
    runs = await runs_of(db, wanted, metrics)
    in_runs = [(number, meter) for number, run in enumerate(runs) for meter in meters_of(run, metrics)]
    counters = await _counters(db, runs, in_runs, metrics, until, set() if outdated is None else outdated, changed)
    needed = [one for one in in_runs if len(_counted_in(*one, counters)) < runs[one[0]].hours]
    powers = await _powers(db, runs, needed, until)
    parts: dict[tuple[int, Energy], list[Quarters]] = defaultdict(list)
    falls: set[DirtyHour] = set()
    later: defaultdict[tuple[int, int], set[Energy]] = defaultdict(set)
    for number, meter in in_runs:
        run = runs[number]
        counted = [counters[number, meter.source.id, key] for key in meter.counters]
        integrated = [
            powers[number, meter.source.id, key][meter.positive]
            for key in meter.powers
            if powers.get((number, meter.source.id, key))
        ]
        falls |= {run.hour(hour) for one in counted for hour in one.falls}
        for hour in {hour for one in counted for hour in one.counts_later}:
            later[number, hour].add(meter.energy)
        by_counter = _counted_in(number, meter, counters)
        parts[number, meter.energy].append(_joined(integrated, [one.rises for one in counted], by_counter, run))
    found: dict[DirtyHour, KeptHour] = {}
    for number, run in enumerate(runs):
        sums = [total(parts[number, energy] or [[None] * (QUARTERS * run.hours)]) for energy in Energy]
        for hour in range(run.hours):
            columns = [column[QUARTERS * hour : QUARTERS * (hour + 1)] for column in sums]
            if (number, hour) in later:
                columns = list(_with_zeros(columns, later[number, hour]))
            energies = [value for column in columns for value in column]
            found[run.hour(hour)] = KeptHour(energies, run.hour(hour) in falls)
    return {one: found[one] for one in wanted}


def _with_zeros(columns: Sequence[Quarters], later: Set[Energy]) -> Iterator[Quarters]:
    """Yield the quarters of an hour for each energy; 0 instead of None for those of `later`, whose rise is in a later hour.

    Only an hour with energy of the plant itself needs them: a fleet counts that energy in hours with energy at the grid.
    """
    of_energy = list(zip(Energy, columns, strict=True))
    has_own = any(value is not None for energy, column in of_energy for value in column if energy not in _AT_GRID)
    for energy, column in of_energy:
        yield [0] * QUARTERS if has_own and energy in later and all(value is None for value in column) else column


def _joined(
    powers: Sequence[Sequence[float | None]], counters: Sequence[Sequence[float | None]], by_counter: Set[int], run: Run
) -> Quarters:
    """Return the sums of counters' rises in the hours `by_counter` of a run, and of powers' energies in its other hours."""
    columns = (
        [one[quarter] for one in (counters if quarter // QUARTERS in by_counter else powers)]
        for quarter in range(QUARTERS * run.hours)
    )
    known = ([value for value in column if value is not None] for column in columns)
    return [milliwatt_hours(limited(sum(values))) if values else None for values in known]


def _counted_in(number: int, meter: EnergyMeter, counters: Mapping[MetricName, _Counted]) -> frozenset[int]:
    """Return the hours of a run in which a counter of the meter counts."""
    return frozenset[int]().union(*(counters[number, meter.source.id, key].counts_in for key in meter.counters))


async def _counters(
    db: Connection,
    runs: Sequence[Run],
    meters: Sequence[tuple[int, EnergyMeter]],
    roles: Mapping[UUID, Sequence[RoleMetric]],
    until: float,
    outdated: set[DirtyHour],
    changed: Collection[DirtyHour],
) -> dict[MetricName, _Counted]:
    """Return the counters of meters in runs.

    The last reading within a day before a run's `since` sets the level of the first one in the run; the one before it shows
    whether it was misread. A reading within a day after the last one shows that for it, and which hours of the run count later.
    """
    found: dict[MetricName, _Counted] = {}
    former_ones = {plant_id: former_counters(own) for plant_id, own in roles.items()}
    metrics = {
        metric.name: metric
        for number, meter in meters
        for key in meter.counters
        for metric in [RunMetric(number, meter.source, key, True)]
    }
    # A layout without the counter is that of a template without it, or of a device that sends its own names.
    sometimes = {name for name, one in metrics.items() if any(one.key not in layout.positions for layout in one.source.layouts)}
    at_grid = {(number, meter.source.id, key) for number, meter in meters if meter.energy in _AT_GRID for key in meter.counters}
    for some in portions(list(metrics.values()), runs, until):
        values = await read(db, some, runs)
        first = {metric.name: microseconds(runs[metric.run].start) for metric in some}
        before = {metric.name: bisect_left(values[metric.name].times, microseconds(runs[metric.run].since)) for metric in some}
        # If there are several readings before `since`, a low first one only causes a rise before the run.
        unsure = [metric for metric in some if before[metric.name] < 2 or gt(*values[metric.name].values[:2])]
        for name, earlier in (await read_earlier(db, unsure, runs)).items():
            last = values[name] if before[name] else earlier.part(slice(-1, None))
            values[name] = continued(earlier, values[name], with_last=not before[name])
            times, readings, _ = values[name]
            if times[0] == last.times[0] and readings[0] < last.values[0]:
                outdated.add(_hour_of(runs[name[0]], times[0]))
        levels = await with_levels(db, [(metric.source, metric.key, values[metric.name]) for metric in some])
        values |= dict(zip((metric.name for metric in some), levels, strict=True))
        for name, following in (await read_following(db, some, runs, values, at_grid)).items():
            values[name] = following.after(values[name])
        for name, later in (await read_after_zeros(db, some, runs, values)).items():
            values[name] = later.after(values[name])
        others = [former_ones.get(runs[metric.run].plant_id, {}).get((metric.source.id, metric.key), ()) for metric in some]
        returned = await returns(
            db, [(one.source, one.key, former, values[one.name]) for one, former in zip(some, others, strict=True)]
        )
        for metric, returned_at in zip(some, returned, strict=True):
            hours = runs[metric.run].hours
            times, readings, _ = values[metric.name]
            if metric.name in sometimes or metric.name in at_grid:
                outdated.update(_in_gap_before(runs[metric.run], times, changed))
            edits = values[metric.name].edits() | returned_at
            outdated.update(_misread_before_zeros(runs[metric.run], values[metric.name], edits, changed))
            count = partial(counter_quarters, times, readings, first[metric.name], QUARTERS * hours, edits)
            rises = await computed(count, len(times))
            falls = frozenset(quarter // QUARTERS for quarter in rises.falls)
            found[metric.name] = _Counted(
                rises.rises,
                falls,
                hours_with_counter(times, first[metric.name], hours),
                hours_between_readings(times, first[metric.name], hours, edits) if metric.name in at_grid else frozenset(),
            )
    return found


def _in_gap_before(run: Run, times: Sequence[int], changed: Collection[DirtyHour]) -> Iterator[DirtyHour]:
    """Yield the hours between the last reading before a run and the run, if a reading in the run continues from it.

    None if that reading is not of an hour in `changed`: its hour is only computed again because of others.
    """
    place = bisect_left(times, microseconds(run.start))
    if 0 < place < len(times) and times[place] < microseconds(run.end) and _hour_of(run, times[place]) in changed:
        hour = _hour_of(run, times[place - 1]).hour + _HOUR
        while hour < run.start:
            yield DirtyHour(run.plant_id, hour)
            hour += _HOUR


def _misread_before_zeros(
    run: Run, values: Readings, edits: Collection[int], changed: Collection[DirtyHour]
) -> Iterator[DirtyHour]:
    """Yield the hours of readings that the first one after zeros, in an hour of `changed`, shows to be misread."""
    times, readings, _ = values
    if not readings or min(readings) > 0:
        return
    before = last = -1
    for place, reading in enumerate(readings):
        if reading <= 0:
            continue
        is_after_zeros = before >= 0 >= readings[place - 1]
        if is_after_zeros and _hour_of(run, times[place]) in changed and is_misread(readings[before], readings, last, edits):
            yield _hour_of(run, times[last])
        before, last = last, place


def _hour_of(run: Run, time: int) -> DirtyHour:
    return DirtyHour(run.plant_id, to_datetime(time).replace(minute=0, second=0, microsecond=0))


async def _powers(
    db: Connection, runs: Sequence[Run], meters: Sequence[tuple[int, EnergyMeter]], until: float
) -> dict[MetricName, dict[bool, list[float | None]]]:
    """Return the energies of meters' powers in the quarters of runs: of positive power under True, of negative under False."""
    found: dict[MetricName, dict[bool, list[float | None]]] = {}
    metrics = {
        metric.name: metric
        for number, meter in meters
        for key in meter.powers
        for metric in [RunMetric(number, meter.source, key, False)]
    }
    for some in portions(list(metrics.values()), runs, until):
        values = await read(db, some, runs)
        for metric in some:
            run, (times, powers, _) = runs[metric.run], values[metric.name]
            integrate = partial(power_quarters, times, powers, microseconds(run.start), QUARTERS * run.hours)
            found[metric.name] = {
                positive: await computed(partial(integrate, positive=positive), len(times)) for positive in (True, False)
            }
    return found
