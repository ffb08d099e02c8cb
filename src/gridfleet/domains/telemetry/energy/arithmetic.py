"""From counter readings and powers to energy: pure functions on lists.

Neither a counter that was reset or misread nor a gap ever makes energy out of nothing, and no energy is negative. Values are
finite; a result that would be larger than the largest double is the largest double.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, zip_longest
from operator import le
from sys import float_info
from typing import Final, NamedTuple

__all__ = [
    "MAX_GAP_SECONDS",
    "Energies",
    "Step",
    "counter_increase",
    "integrate_power",
    "limited",
    "self_consumption_percent",
    "steps",
]

MAX_GAP_SECONDS: Final = 15 * 60
"""Between powers further apart than this nothing is known."""


def limited(value: float) -> float:
    """Return `value`, or the largest finite number of its sign."""
    return min(max(value, -float_info.max), float_info.max)


def counter_increase(readings: Sequence[float], since: int = 0) -> float:
    """Return how far a counter rose by its readings from position `since` on, in its unit.

    A reading below half of the last one is a reset: the count goes on from it. A smaller fall adds nothing until the
    counter is back where it was. A single reading, low or high, that the next one takes back is as if it were not there.
    The readings before `since` add nothing, but they say from where the counter rises.
    """
    if len(readings) < 2 or since >= len(readings):
        return 0.0
    if all(map(le, readings, readings[1:])):
        return limited(readings[-1] - readings[max(0, since - 1)])
    return limited(sum(step.rise for step in islice(steps(readings), since, None)))


class Step(NamedTuple):
    """What one reading says: how far the counter rose, and the level from which it rises on."""

    rise: float
    level: float


def steps(readings: Sequence[float], level: float | None = None) -> Iterator[Step]:
    """Yield the step of each reading by the rules of `counter_increase`.

    Args:
        readings: A counter's readings in the order of their times.
        level: The level after the readings before; without it the first reading says nothing.
    """
    if not readings:
        return
    level = readings[0] if level is None else level
    for reading, following in zip_longest(readings, readings[1:]):
        rise = 0.0
        if following is None or not (reading < level <= following or level <= following < reading):
            if reading >= level:
                rise, level = limited(reading - level), reading
            elif reading < level / 2:
                level = reading
        yield Step(rise, level)


class Energies(NamedTuple):
    """Energy of positive and of negative power, both as positive numbers."""

    positive: float
    negative: float


def integrate_power(times: Sequence[int], powers: Sequence[float], start: int) -> Energies:
    """Energy in kWh of `powers` in kW at `times` in microseconds, from `start` on, by trapezoids.

    A line between two powers that crosses zero, or `start`, is cut there. Gaps over `MAX_GAP_SECONDS` add nothing.
    """
    positive = negative = 0.0
    # Scaled by a power of two, which changes no digit, so that neither sums nor products overflow.
    scaled = [power * _SCALE for power in powers]
    for (t0, p0), (t1, p1) in pairwise(zip(times, scaled, strict=True)):
        if t1 - t0 > _MAX_GAP or t1 <= start:
            continue
        if t0 < start:
            p0 += (p1 - p0) * ((start - t0) / (t1 - t0))
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


_MAX_GAP: Final = MAX_GAP_SECONDS * 1_000_000
_TWICE_AN_HOUR: Final = 2 * 3_600_000_000
_SCALE: Final = 2.0**-64


def self_consumption_percent(produced: float, exported: float) -> float:
    """The share of the production that stayed on site, within 0…100; 0 when nothing was produced."""
    if produced <= 0:
        return 0.0
    return min(100.0, max(0.0, (produced - exported) / produced * 100))
