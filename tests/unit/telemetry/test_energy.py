"""Energy from counters and powers."""

from itertools import islice, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gridfleet.domains.telemetry.energy.arithmetic import (
    MAX_GAP_SECONDS,
    counter_increase,
    integrate_power,
    self_consumption_percent,
    steps,
)

SECOND = 1_000_000
HOUR = 3_600 * SECOND


@pytest.mark.parametrize(
    ("readings", "increase"),
    [
        ([], 0),
        ([5.0], 0),
        ([5.0, 5.0, 7.5], 2.5),
        ([100.0, 110.0, 3.0, 8.0], 15),  # a reset: 10, then 5 from the new value on
        ([100.0, 110.0, 0.0, 110.0, 112.0], 12),  # one reading of nothing, taken back
        ([100.0, 110.0, 0.0, 0.0, 0.0, 110.0, 112.0], 12),  # a device that reads nothing while it is switched off
        ([0.0, 0.0, 110.0, 0.0, 0.0, 112.0], 112),
        ([100.0, 110.0, 0.0, 0.0, 3.0, 8.0], 18),  # a reset: 10, then 8 from nothing on
        ([100.0, 110.0, 0.0, 0.0, 80.0, 82.0], 12),  # a device that lost its last readings when it was switched off
        ([100.0, 110.0, -1.0, 109.0, 109.5, 112.0], 13),
        ([100.0, 110.0, 0.0, 0.0, 60.0, 111.0], 11),
        ([100.0, 110.0, -1.0, -1.0, 110.0, 112.0], 12),  # a device that has no reading, in the way of Modbus
        ([100.0, 110.0, 0.0, -1.0, -1.0, 0.0, 110.0, 112.0], 12),
        ([100.0, 110.0, -2147483648.0, -2147483648.0, 3.0, 8.0], 18),
        ([-1.0, -1.0, 110.0, 112.0], 2),
        ([-1.0, 110.0, -1.0, 112.0], 2),
        ([0.0, -1.0, -1.0, 2.0], 2),
        ([100.0, 110.0, 0.0, 0.0], 10),
        ([100.0, 110.0, 0.0], 10),  # not yet known whether this is a reset; neither adds anything
        ([100.0, 110.0, 109.0, 110.0, 111.0], 11),  # jitter
        ([100.0, 90.0, 80.0, 95.0, 104.0], 4),  # a smaller fall counts again from where it fell
        ([100.0, 9_999.0, 101.0, 102.0], 2),  # one reading far too high, taken back
        ([100.0, 110.0, 1.0, 109.9, 111.0], 11),  # one reading far too low in a counter that jitters
        ([100.0, 110.0, 109.9, 1.0, 109.95, 111.0], 11),
        ([100.0, 110.0, 109.9, 9_999.0, 109.95, 111.0], 11),
        ([100.0, 110.0, 9_999.0, 109.9, 111.0], 11),
        ([100.0, 110.0, 5.0, 0.0, -1.0, 0.0, 110.0, 112.0], 12),  # misread when the device switched off
        ([100.0, 110.0, 55.0, 0.0, 109.9, 112.0], 12),
        ([100.0, 110.0, 9_999.0, 0.0, 0.0, 111.0, 112.0], 12),
        ([100.0, 110.0, 9_999.0, 0.0, 0.0], 9_899),  # not yet known whether it is misread
        ([100.0, 110.0, 3.0, 0.0, 0.0, 4.0, 5.0], 12),  # a reset before zeros
        ([100.0, 110.0, 150.0, 0.0, 145.0, 146.0], 51),  # a device that lost its last readings
        ([0.0, 110.0, 0.0, 50.0], 50),
        ([100.0, 49.0, 60.0, 70.0], 21),
        ([0.0, 0.0, 0.0], 0),
    ],
)
def test_a_counter_rises_by(readings: list[float], increase: float) -> None:
    assert counter_increase(readings) == pytest.approx(increase)


increments = st.lists(st.floats(0, 50), min_size=1, max_size=40)


def rising(start: float, rises: list[float]) -> list[float]:
    """A counter's readings."""
    readings = [start]
    for rise in rises:
        readings.append(readings[-1] + rise)
    return readings


@given(st.lists(st.floats(0, 1e9), max_size=50))
def test_an_increase_is_never_negative_nor_more_than_all_rises(readings: list[float]) -> None:
    increase = counter_increase(readings)
    assert 0 <= increase <= sum(max(0.0, after - before) for before, after in pairwise(readings)) + 1e-6


@given(st.floats(0, 1e6), increments)
def test_an_undisturbed_counter_gives_its_difference(start: float, rises: list[float]) -> None:
    readings = rising(start, rises)
    assert counter_increase(readings) == readings[-1] - readings[0]


@given(st.floats(1_000, 1e6), increments, st.data())
def test_single_dips_change_nothing(start: float, rises: list[float], data: st.DataObject) -> None:
    readings = rising(start, rises)
    disturbed = list(readings)
    places = data.draw(st.sets(st.integers(1, max(1, len(readings) - 2))))
    for place in sorted(places):
        if place < len(readings) - 1 and place - 1 not in places:
            disturbed[place] = data.draw(st.floats(0, disturbed[place]))
    assert counter_increase(disturbed) == pytest.approx(readings[-1] - readings[0], abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 10, exclude_min=True), increments), min_size=1, max_size=5))
def test_resets_lose_no_more_than_the_step_they_fall_into(runs: list[tuple[float, list[float]]]) -> None:
    """Each run starts below half of where the one before ended, and so that no single reading looks taken back."""
    readings: list[float] = []
    expected = 0.0
    for start, rises in runs:
        run = rising(start, [100.0, *rises])
        if readings:
            run = rising(start, [readings[-1] / 10, *rises])
            assume(run[0] < min(readings[-1] / 2, readings[-2]) and run[1] < readings[-1])
        expected += run[-1] - run[0]
        readings += run
    assert counter_increase(readings) == pytest.approx(expected, abs=1e-6)


def test_power_is_integrated_by_trapezoids() -> None:
    assert integrate_power([0, HOUR // 4, HOUR // 2], [0.0, 4.0, 4.0], 0) == pytest.approx((1.5, 0.0))


def test_power_that_crosses_zero_is_cut_there() -> None:
    assert integrate_power([0, HOUR // 4], [4.0, -4.0], 0) == pytest.approx((0.25, 0.25))
    assert integrate_power([0, HOUR // 4], [-2.0, 6.0], 0) == pytest.approx((0.5625, 0.0625))


def test_a_device_that_measures_every_quarter_of_an_hour_has_no_gaps() -> None:
    """A program that waits for a quarter of an hour between two measurements is late by the time of a measurement."""
    times = [number * (900 * SECOND + 20_000) for number in range(97)]
    assert integrate_power(times, [1.0] * 97, 0).positive == pytest.approx(24, rel=1e-3)


def test_longer_gaps_add_nothing() -> None:
    longest = MAX_GAP_SECONDS * SECOND
    assert integrate_power([0, longest], [4.0, 4.0], 0).positive == pytest.approx(4 * longest / HOUR)
    assert integrate_power([0, longest + 1], [4.0, 4.0], 0).positive == 0
    assert integrate_power([0, 16 * 60 * SECOND], [4.0, 4.0], 0).positive == 0


def test_power_before_the_start_counts_only_as_the_line_it_begins() -> None:
    assert integrate_power([-HOUR // 2, -HOUR // 8, HOUR // 8], [9.0, 0.0, 8.0], 0).positive == pytest.approx(0.75)


samples = st.lists(st.tuples(st.integers(1, 1_200 * SECOND), st.floats(-1e4, 1e4)), max_size=50)


@given(samples, st.integers(-HOUR, HOUR))
def test_energies_are_never_negative_and_their_difference_is_the_net(samples: list[tuple[int, float]], start: int) -> None:
    times, powers, now = [], [], -HOUR
    for step, power in samples:
        now += step
        times.append(now)
        powers.append(power)
    positive, negative = integrate_power(times, powers, start)
    assert positive >= 0
    assert negative >= 0
    net = 0.0
    for (t0, p0), (t1, p1) in pairwise(zip(times, powers, strict=True)):
        if t1 - t0 <= MAX_GAP_SECONDS * SECOND and t1 > start:
            begin = max(t0, start)
            at_begin = p0 + (p1 - p0) * (begin - t0) / (t1 - t0)
            net += (at_begin + p1) / 2 * (t1 - begin) / HOUR
    assert positive - negative == pytest.approx(net, abs=1e-6)
    assert positive <= sum(abs(p) for p in powers) * len(powers) + 1e-6


@pytest.mark.parametrize(
    ("produced", "exported", "percent"), [(0, 0, 0), (0, 5, 0), (10, 0, 100), (10, 4, 60), (10, 12, 0), (10, 10, 0)]
)
def test_self_consumption(produced: float, exported: float, percent: float) -> None:
    assert self_consumption_percent(produced, exported) == pytest.approx(percent)


@pytest.mark.parametrize(
    ("before", "day", "increase"),
    [
        ([1000.0, 1010.0, 990.0], [1012.0, 1015.0], 5),  # the last reading of yesterday is a dip
        ([1000.0, 1010.0, 990.0, 995.0], [1000.0, 1012.0], 2),  # a dip that lasts over midnight
        ([1000.0, 5000.0], [1012.0, 1015.0], 15),  # a reading far too high
        ([1000.0, 3.0], [5.0], 2),  # a reset
        ([1000.0, 0.0], [1001.0], 1),  # one reading of nothing, taken back
        ([1000.0, 1010.0], [], 0),
        ([], [1000.0, 1010.0], 10),
    ],
)
def test_a_day_counts_from_the_level_at_midnight(before: list[float], day: list[float], increase: float) -> None:
    assert counter_increase([*before, *day], len(before)) == pytest.approx(increase)


@given(st.lists(st.floats(0, 1e6), max_size=30), st.data())
def test_what_is_counted_before_and_from_midnight_on_is_the_whole(readings: list[float], data: st.DataObject) -> None:
    midnight = data.draw(st.integers(0, len(readings)))
    yesterday = sum(step.rise for step in islice(steps(readings), midnight))
    assert yesterday + counter_increase(readings, midnight) == pytest.approx(counter_increase(readings))


@given(st.lists(st.floats(0, 1e6), max_size=30), st.data())
def test_steps_go_on_from_a_level(readings: list[float], data: st.DataObject) -> None:
    # The reading after the cut is known to both parts: it decides whether the last one before is an outlier.
    cut = data.draw(st.integers(0, len(readings)))
    whole = list(steps(readings))
    last = whole[cut - 1] if cut else None
    assert list(steps(readings[cut:], last and last.level, was_zero=last is not None and last.was_zero)) == whole[cut:]
