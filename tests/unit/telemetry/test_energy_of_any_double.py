"""Energies of any finite doubles against exact arithmetic: finite, never negative, limited to the largest double."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from sys import float_info
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridfleet.domains.telemetry.energy.arithmetic import counter_increase, integrate_power, self_consumption_percent, steps
from gridfleet.domains.telemetry.energy.metering import energy_between
from gridfleet.domains.trading.esm.messages import EsmReading
from gridfleet.domains.trading.metering import in_buckets

SECOND = 1_000_000
HOUR = 3_600 * SECOND
MINUTE = 60 * SECOND
LONGEST_GAP = 15 * MINUTE + 30 * SECOND
LARGEST = float_info.max
EXTREMES = [5e-324, -5e-324, float_info.min, -float_info.min, LARGEST, -LARGEST, 1e200, -1e200, 0.0, -0.0, 1.0]

doubles = st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False)


def assert_close(found: float, exact: Fraction) -> None:
    assert isfinite(found)
    assert found >= 0
    if exact >= Fraction(LARGEST):
        assert found == pytest.approx(LARGEST, rel=1e-9)
    else:
        assert abs(Fraction(found) - exact) <= exact / 10**9 + Fraction(1e-280)


def exact_energies(times: Sequence[int], powers: Sequence[float], start: int) -> tuple[Fraction, Fraction]:
    """Trapezoids, cut at `start` and where they cross zero."""
    positive = negative = Fraction(0)
    for (t0, first), (t1, last) in pairwise(zip(times, powers, strict=True)):
        if t1 - t0 > LONGEST_GAP or t1 <= start:
            continue
        begin, p0, p1 = max(t0, start), Fraction(first), Fraction(last)
        p0 += (p1 - p0) * Fraction(begin - t0, t1 - t0)
        crossing = Fraction(0) if p0 == p1 else p0 / (p0 - p1)
        parts = [(p0, Fraction(0), crossing), (Fraction(0), p1, 1 - crossing)] if p0 * p1 < 0 else [(p0, p1, Fraction(1))]
        for left, right, share in parts:
            energy = (left + right) / 2 * share * Fraction(t1 - begin, HOUR)
            positive += max(energy, Fraction(0))
            negative += max(-energy, Fraction(0))
    return positive, negative


samples = st.lists(st.tuples(st.integers(1, 20 * MINUTE), doubles), max_size=20)


@given(samples, st.integers(-HOUR, HOUR))
@example([(1, 0.0), (MINUTE, 1e200), (MINUTE, -1e200)], -HOUR)
@example([(MINUTE, LARGEST)] * 100, -HOUR)
@example([(MINUTE, LARGEST), (MINUTE, -LARGEST)], -HOUR + 90 * SECOND)
@example([(MINUTE, 5e-324), (MINUTE, -5e-324)], -HOUR)
@example([(MINUTE, 1.0), (LONGEST_GAP - 1, 1.0), (LONGEST_GAP + 1, 1.0)], -HOUR)
@example([(MINUTE, 1.0), (8 * MINUTE, 5e-324)], -HOUR + 9 * MINUTE - 1)
def test_energies_of_powers(sent: list[tuple[int, float]], start: int) -> None:
    times, now = [], -HOUR
    for step, _ in sent:
        now += step
        times.append(now)
    powers = [power for _, power in sent]
    for found, exact in zip(integrate_power(times, powers, start), exact_energies(times, powers, start), strict=True):
        assert_close(found, exact)


@given(st.lists(doubles, max_size=30))
@example([-LARGEST, LARGEST])
@example([0.0, LARGEST, 1.0, LARGEST, LARGEST, 0.0, 0.0, LARGEST, LARGEST])
def test_counters_rise_by_finite_amounts(readings: list[float]) -> None:
    increase = counter_increase(readings)
    assert isfinite(increase)
    assert increase >= 0


@given(st.lists(doubles, max_size=30).map(sorted))
def test_an_undisturbed_counter_gives_its_difference_from_its_first_level(readings: list[float]) -> None:
    levels = [reading for reading in readings if reading >= 0]
    exact = Fraction(levels[-1]) - Fraction(levels[0]) if levels else Fraction(0)
    assert_close(counter_increase(readings), exact)


@given(st.lists(doubles, max_size=30), st.integers(1, 10))
@example([0.0, LARGEST, 0.0, 0.0, LARGEST, LARGEST, 0.0], 2)
@example([-LARGEST, LARGEST, LARGEST], 1)
def test_buckets_of_a_counter_are_finite(readings: list[float], width: int) -> None:
    times = [number * MINUTE for number in range(len(readings))]
    boundaries = [number * width * MINUTE + 30 * SECOND for number in range(30 // width)]
    for energy in energy_between(times, steps(readings), boundaries, width * MINUTE):
        assert energy is None or (isfinite(energy) and energy >= 0)


positive = doubles.map(abs)


@given(positive, positive)
def test_the_own_share_is_a_percentage(produced: float, exported: float) -> None:
    assert 0 <= self_consumption_percent(produced, exported) <= 100


@pytest.mark.parametrize("sign", [float.__pos__, float.__neg__])
def test_an_esms_largest_readings_are_put_together(sign: Callable[[float], float]) -> None:
    start = datetime(2026, 11, 20, 10, tzinfo=UTC)
    readings = [EsmReading(start + timedelta(minutes=minute), "M1", 5, sign(LARGEST)) for minute in (0, 5, 10)]
    assert [row.energy for row in in_buckets(uuid4(), readings, 15)] == [sign(LARGEST)]
