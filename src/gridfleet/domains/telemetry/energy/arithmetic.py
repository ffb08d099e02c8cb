"""Compute energy from counter readings and powers, with pure functions on lists.

A counter that was reset or misread, or a gap, never creates energy, and no energy is negative. Values are finite; a result
above the largest double is replaced by the largest double.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice, pairwise
from math import inf
from operator import le
from sys import float_info
from typing import Final, NamedTuple

__all__ = [
    "MAX_GAP_SECONDS",
    "CounterStep",
    "Energies",
    "counter_increase",
    "integrate_power",
    "is_far",
    "is_misread",
    "is_undisturbed",
    "limited",
    "self_consumption_percent",
    "steps",
]

MAX_GAP_SECONDS: Final = 15 * 60 + 30
"""Powers that are further apart are not integrated. A device that measures every quarter of an hour is some seconds late."""


def limited(value: float) -> float:
    """Return `value`, or the largest finite number of its sign."""
    return min(max(value, -float_info.max), float_info.max)


def counter_increase(readings: Sequence[float], since: int = 0, edits: Collection[int] = ()) -> float:
    """Return how far a counter rose by its readings from position `since` on, in its unit.

    A reading below half of the previous level is a reset: counting continues from it. A smaller fall adds nothing until the
    counter is back at its level. A single low or high reading that the next one reverts is ignored, also if zeros are between
    the two, and so are zeros, however many, after which the counter is at its level or above: devices read zero while they are
    switched off. If it is below half of its level after zeros, it rose from zero; a smaller fall only sets the level. Negative
    readings count as zeros, except that no counter rises from them. The readings before `since` add nothing, but they set the
    level from which the counter rises. At the positions `edits` the counter was edited, and has no level until a positive
    reading.
    """
    if len(readings) < 2 or since >= len(readings):
        return 0.0
    if not edits and is_undisturbed(readings):
        return limited(readings[-1] - readings[max(0, since - 1)])
    return limited(sum(step.rise for step in islice(steps(readings, edits=edits), since, None)))


def is_undisturbed(readings: Sequence[float]) -> bool:
    """Return whether the readings of a counter, in the order of their times, never fall and none is negative."""
    return (not readings or readings[0] >= 0) and all(map(le, readings, readings[1:]))


class CounterStep(NamedTuple):
    """The result of one reading: how far the counter rose, and the level from which it rises next; negative if it is not known.

    `was_zero` says whether zeros came last, or misread values after zeros. If the next reading is below half of the
    level, the counter rose to it from zero.
    """

    rise: float
    level: float
    was_zero: bool


def steps(
    readings: Sequence[float], level: float | None = None, *, was_zero: bool = False, edits: Collection[int] = ()
) -> Iterator[CounterStep]:
    """Yield the step of each reading by the rules of `counter_increase`.

    Args:
        readings: A counter's readings in the order of their times.
        level: The level after earlier readings; if None, the first reading only sets the level.
        was_zero: Whether zeros came before, as in `CounterStep`.
        edits: As in `counter_increase`.
    """
    if not readings:
        return
    level = readings[0] if level is None else level
    for place, reading in enumerate(readings):
        rise = 0.0
        if place in edits:
            level, was_zero = _EDITED, False
        if reading <= 0 < level or reading < 0 <= level:
            was_zero = True  # only the reading after the zeros shows whether this is a reset
        elif level < 0:
            level = reading if reading > 0 or level > _EDITED else level
        elif not is_misread(level, readings, place, edits):
            if reading >= level:
                rise, level = limited(reading - level), reading
            elif was_zero:
                # A device that lost the last readings when it was switched off has not begun again at zero.
                rise, level = max(reading, 0.0) if reading < level / 2 else 0.0, reading
            elif reading < level / 2:
                level = reading
            was_zero = False
        yield CounterStep(rise, level, was_zero)


def is_misread(level: float, readings: Sequence[float], place: int, edits: Collection[int] = ()) -> bool:
    """Return whether the reading at `place` is an outlier, after which the next reading is back at the level.

    If zeros follow a positive reading that is far from the level, the first positive reading after them decides, because
    devices may be misread when they switch off.

    Args:
        level: The level of the counter before the reading, in the unit of the readings.
        readings: A counter's readings in the order of their times.
        place: The index of the reading.
        edits: As in `counter_increase`.
    """
    reading, following = readings[place], place + 1
    if following == len(readings) or following in edits:
        return False
    if readings[following] <= 0 < min(level, reading) and is_far(level, reading):
        later = following + 1
        while later < len(readings) and later not in edits and readings[later] <= 0:
            later += 1
        # One that is nearer to this reading than to the level is of a device that lost its last readings.
        if later < len(readings) and later not in edits and abs(readings[later] - level) < abs(readings[later] - reading):
            following = later
    return _is_reverted(level, reading, readings[following])


def is_far(level: float, reading: float) -> bool:
    """Return whether a reading is further from a counter's level than counters jitter."""
    return reading < level * _JITTER or level < reading * _JITTER


def _is_reverted(level: float, reading: float, following: float) -> bool:
    """Return whether a reading is below or above the level and the next one is not.

    Counters jitter: if the reading is far from the level, the next one may be slightly below the level.
    """
    if is_far(level, reading):
        level *= _JITTER
    return reading < level <= following or level <= following < reading


class Energies(NamedTuple):
    """Energy of positive and of negative power, both as positive numbers."""

    positive: float
    negative: float


def integrate_power(times: Sequence[int], powers: Sequence[float], start: int) -> Energies:
    """Integrate powers from `start` on with the trapezoidal rule.

    A line between two powers that crosses zero or `start` is cut there. Gaps over `MAX_GAP_SECONDS` add nothing.

    Args:
        times: Times in microseconds, ascending.
        powers: Powers in kW.
        start: The start in microseconds.

    Returns:
        Energies in kWh.
    """
    positive = negative = 0.0
    # Scaling by a power of two changes no digit, and prevents overflow of sums and products.
    scaled = [power * _SCALE for power in powers]
    for (t0, p0), (t1, p1) in pairwise(zip(times, scaled, strict=True)):
        if t1 - t0 > _MAX_GAP or t1 <= start:
            continue
        if t0 < start:
            # Of both powers: the difference alone would leave no digits shortly before `t1`.
            p0 = p0 * ((t1 - start) / (t1 - t0)) + p1 * ((start - t0) / (t1 - t0))
            t0 = start
        span = t1 - t0
        if p0 >= 0 and p1 >= 0:
            positive += (p0 + p1) * span
        elif p0 <= 0 and p1 <= 0:
            negative -= (p0 + p1) * span
        else:
            slope = abs(p0) + abs(p1)
            high, low = max(p0, p1), min(p0, p1)
            positive += high * (high / slope) * span
            negative += low * (low / slope) * span
    return Energies(limited(positive / _TWICE_AN_HOUR / _SCALE), limited(negative / _TWICE_AN_HOUR / _SCALE))


_JITTER: Final = 0.99
"""A counter jitters by less than a hundredth of its level."""
_EDITED: Final = -inf
"""The level of a counter after an edit. Zeros do not set it: the device may be switched off."""
_MAX_GAP: Final = MAX_GAP_SECONDS * 1_000_000
_TWICE_AN_HOUR: Final = 2 * 3_600_000_000
_SCALE: Final = 2.0**-64


def self_consumption_percent(produced: float, exported: float) -> float:
    """Return the share of the production that was not exported, in % within 0…100; 0 without production."""
    if produced <= 0:
        return 0.0
    return min(100.0, max(0.0, (produced - exported) / produced * 100))
