"""Energy in the quarters of hours, from the readings of one meter, as pure functions.

The rules are those of the energy of the day. Energy is counted in mWh, as integers: their sums are exact in any order, so that
hours add up to days and plants to fleets.
"""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from gridfleet.domains.telemetry.energy.arithmetic import (
    MAX_GAP_SECONDS,
    integrate_power,
    is_misread,
    is_undisturbed,
    limited,
    steps,
)
from gridfleet.domains.telemetry.energy.editions import Readings

__all__ = [
    "HOUR",
    "LONGEST_GAP",
    "MOST",
    "QUARTER",
    "QUARTERS",
    "Rises",
    "continued",
    "counter_quarters",
    "hours_between_readings",
    "hours_with_counter",
    "milliwatt_hours",
    "power_quarters",
    "total",
]

QUARTERS: Final = 4
"""Quarters of an hour."""
QUARTER: Final = 15 * 60 * 1_000_000
"""Width in microseconds."""
HOUR: Final = QUARTERS * QUARTER
LONGEST_GAP: Final = 24 * HOUR
"""If a counter was not read for longer than this before an hour, only rises between readings in that hour count."""
MOST: Final = 10_000_000_000_000
"""Maximum energy of a plant in a quarter of an hour, in mWh: 10 GWh. Totals of a million plants fit into 64 bits."""

Quarters = list[int | None]
"""Energies in mWh; None for a quarter without readings."""


class Rises(NamedTuple):
    """How far a counter rose in each quarter, in kWh, None without a reading; and the quarters in which a reading was lower."""

    rises: list[float | None]
    falls: frozenset[int]


def milliwatt_hours(energy: float) -> int:
    """Convert kWh to mWh, at most `MOST`."""
    return round(min(max(energy * 1e6, 0.0), float(MOST)))


def total(parts: Sequence[Quarters]) -> Quarters:
    """Add energies quarter by quarter; None where all are None."""
    return [
        min(MOST, sum(known)) if (known := [value for value in column if value is not None]) else None
        for column in zip(*parts, strict=True)
    ]


def continued(earlier: Readings, readings: Readings, *, with_last: bool) -> Readings:
    """Return a counter's readings after earlier ones, of which the last one is kept if `with_last`.

    The first reading sets the level. If it was misread, it gets the value of the one before. Otherwise, after the zero of a
    device that is switched off, the next reading would add the energy of the device's whole life. Between two zeros it is
    returned after the first one, which is no level by which it could be judged.
    """
    whole = readings.after(earlier)
    first = max(0, len(earlier.times) - with_last)
    found, edits = whole.part(slice(first, None)), whole.edits()
    if 0 < first < len(whole.times) - 1 and first not in edits:
        before, reading, following = whole.values[first - 1 : first + 2]
        if before <= 0 < reading and following <= 0:
            return whole.part(slice(first - 1, None))
        if is_misread(before, whole.values, first, edits):
            return found._replace(values=[before, *found.values[1:]])
    return found


def counter_quarters(
    times: Sequence[int], readings: Sequence[float], start: int, count: int, edits: Collection[int] = ()
) -> Rises:
    """Return the rise of a counter in each of `count` quarters from `start` on.

    A rise belongs to the quarter of the higher reading. The first reading after `LONGEST_GAP` adds nothing.

    Args:
        times: Times in microseconds, ascending.
        readings: Readings in kWh. Those before `start` set the level; those after the last quarter reveal misread ones.
        start: The start of an hour in microseconds.
        count: Number of quarters.
        edits: Positions of readings before which the counter was edited.
    """
    if place := _index_after_gap(times, start, count // QUARTERS):
        earlier = counter_quarters(times[:place], readings[:place], start, count, edits)
        following = {edit - place for edit in edits if edit >= place}
        later = counter_quarters(times[place:], readings[place:], start, count, following)
        # The readings of one hour are either all before the gap or all after it.
        rises = [one if other is None else other for one, other in zip(earlier.rises, later.rises, strict=True)]
        return Rises(rises, earlier.falls | later.falls)
    edges = [bisect_left(times, start + number * QUARTER) for number in range(count + 1)]
    if not edits and is_undisturbed(readings):
        return Rises(
            [
                limited(readings[last - 1] - readings[max(first - 1, 0)]) if last > first else None
                for first, last in pairwise(edges)
            ],
            frozenset(),
        )
    counted = list(steps(readings, edits=edits))
    rises = [
        limited(sum(step.rise for step in counted[first:last])) if last > first else None for first, last in pairwise(edges)
    ]
    falls = {
        number
        for number, (first, last) in enumerate(pairwise(edges))
        if any(readings[place] < readings[place - 1] for place in range(max(first, 1), last))
    }
    return Rises(rises, frozenset(falls))


def hours_with_counter(times: Sequence[int], start: int, count: int) -> frozenset[int]:
    """Return which of `count` hours from `start` on have a reading of a counter, or begin within `LONGEST_GAP` after one."""
    begins = [start + number * HOUR for number in range(count)]
    return frozenset(
        number
        for number, begin in enumerate(begins)
        if (after := bisect_left(times, begin + HOUR)) and times[after - 1] >= begin - LONGEST_GAP
    )


def hours_between_readings(times: Sequence[int], start: int, count: int, edits: Collection[int] = ()) -> frozenset[int]:
    """Return which of `count` hours from `start` on have no reading of a counter, but a rise that a later reading includes.

    Args:
        times: Times in microseconds, ascending, with the next reading after the hours.
        start: The start of an hour in microseconds.
        count: Number of hours.
        edits: Positions of readings before which the counter was edited, so that they have no rise.
    """
    found = set[int]()
    for number, begin in enumerate(start + number * HOUR for number in range(count)):
        index = bisect_left(times, begin)
        is_between = 0 < index < len(times) and times[index] >= begin + HOUR
        if is_between and times[index] - times[index - 1] <= LONGEST_GAP and index not in edits:
            found.add(number)
    return frozenset(found)


def _index_after_gap(times: Sequence[int], start: int, count: int) -> int:
    """Return the index of the first reading in one of `count` hours from `start` on that follows a gap; 0 if none does."""
    for begin in (start + number * HOUR for number in range(count)):
        index = bisect_left(times, begin)
        if 0 < index < len(times) and times[index] < begin + HOUR and times[index - 1] < begin - LONGEST_GAP:
            return index
    return 0


def power_quarters(
    times: Sequence[int], powers: Sequence[float], start: int, count: int, *, positive: bool
) -> list[float | None]:
    """Return the energy of positive or of negative power in each of `count` quarters from `start` on, in kWh.

    A line between two powers that crosses the edge of a quarter is cut there.
    """
    found: list[float | None] = []
    for number in range(count):
        begin, end = start + number * QUARTER, start + (number + 1) * QUARTER
        first, last = bisect_left(times, begin), bisect_left(times, end)
        if last == first and not (0 < first < len(times) and _joined(times, first)):
            found.append(None)
            continue
        some_times, some_powers = list(times[max(first - 1, 0) : last]), list(powers[max(first - 1, 0) : last])
        if 0 < last < len(times) and _joined(times, last):
            some_times.append(end)
            some_powers.append(_at(end, times, powers, last))
        found.append(integrate_power(some_times, some_powers, begin)[0 if positive else 1])
    return found


def _joined(times: Sequence[int], index: int) -> bool:
    """Return whether a line leads from the power before `index` to the one at it."""
    return times[index] - times[index - 1] <= MAX_GAP_SECONDS * 1_000_000


def _at(moment: int, times: Sequence[int], powers: Sequence[float], index: int) -> float:
    """Return the power at `moment` on the line to `index`. The differences of doubles may overflow; their halves do not."""
    share = (moment - times[index - 1]) / (times[index] - times[index - 1])
    return powers[index - 1] * (1 - share) + powers[index] * share
