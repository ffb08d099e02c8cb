"""From counter readings and powers to energy: pure functions on lists.

Neither a counter that was reset or misread nor a gap ever makes energy out of nothing, and no energy is negative. Values are
finite; a result that would be larger than the largest double is the largest double.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import le
from sys import float_info
from typing import Final, NamedTuple

__all__ = [
    "MAX_GAP_SECONDS",
    "Energies",
    "counter_increase",
    "integrate_power",
    "limited",
    "rises",
    "self_consumption_percent",
]

MAX_GAP_SECONDS: Final = 15 * 60
"""Between powers further apart than this nothing is known."""


def limited(value: float) -> float:
    """Return `value`, or the largest finite number of its sign."""
    return min(max(value, -float_info.max), float_info.max)


def counter_increase(readings: Sequence[float]) -> float:
    """How far a counter rose over its readings, in its unit.

    A reading below half of the last one is a reset: the count goes on from it. A smaller fall adds nothing until the
    counter is back where it was. A single reading, low or high, that the next one takes back is as if it were not there.
    """
    if len(readings) < 2:
        return 0.0
    if all(map(le, readings, readings[1:])):
        return limited(readings[-1] - readings[0])
    return limited(sum(rises(readings)))


def rises(readings: Sequence[float]) -> Iterator[float]:
    """By how much each reading says that the counter rose, by the rules of `counter_increase`; the first says nothing: 0."""
    if not readings:
        return
    yield 0.0
    last = readings[0]
    for reading, following in zip(readings[1:], [*readings[2:], None], strict=False):
        rise = 0.0
        if following is None or not (reading < last <= following or last <= following < reading):
            if reading >= last:
                rise, last = limited(reading - last), reading
            elif reading < last / 2:
                last = reading
        yield rise


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
