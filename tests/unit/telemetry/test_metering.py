"""Energy between moments, from the readings of a counter."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.telemetry.energy.arithmetic import counter_increase, steps
from gridfleet.domains.telemetry.energy.metering import energy_between
from gridfleet.domains.trading.esm.messages import EsmReading
from gridfleet.domains.trading.metering import in_buckets

MINUTE = 60_000_000


def energies(readings: Mapping[Any, float], boundaries: Sequence[float], width: float) -> list[float | None]:
    """With times in minutes."""
    times, moments = ([int(minute * MINUTE) for minute in minutes] for minutes in (readings, boundaries))
    return energy_between(times, steps(list(readings.values())), moments, int(width * MINUTE))


def test_readings_at_the_boundaries_say_it_all() -> None:
    assert energies({0: 10, 5: 12, 10: 15, 15: 15}, [0, 5, 10, 15], 5) == [2, 3, 0]


def test_between_two_readings_a_counter_rises_evenly() -> None:
    assert energies({-2.5: 0, 2.5: 10, 7.5: 20, 12.5: 20}, [0, 5, 10], 5) == [10, 5]


def test_buckets_finer_than_the_readings_are_left_out() -> None:
    quarter_hours = {0: 0.0, 15: 3.0, 30: 6.0, 45: 9.0, 60: 12.0}
    assert energies(quarter_hours, [0, 5, 10, 15], 5) == [None, None, None]
    assert energies(quarter_hours, [0, 15, 30, 45, 60], 15) == [3, 3, 3, 3]
    assert energies(quarter_hours, [0, 30, 60], 30) == [6, 6]


def test_a_gap_hides_the_buckets_that_it_touches_and_no_others() -> None:
    readings = {float(minute): float(minute) for minute in range(60) if not 17 <= minute < 31}
    assert energies(readings, [0, 5, 10, 15, 20, 25, 30, 35, 40], 5) == [5, 5, 5, None, None, None, None, 5]


def test_readings_that_are_a_little_late_make_no_holes() -> None:
    readings = {minute + (0.03 if minute % 3 else 0.0): float(minute) for minute in range(20)}
    assert None not in energies(readings, [float(minute) for minute in range(1, 18)], 1)


def test_a_counter_that_was_reset_makes_no_negative_energy() -> None:
    assert energies({0: 1000, 1: 1001, 2: 0, 3: 1}, [0, 1, 2, 3], 1) == [1, 0, 1]


def test_without_readings_nothing_is_known() -> None:
    assert energies({}, [0, 5], 5) == [None]
    assert energies({2: 5}, [0, 5], 5) == [None]


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_rises_add_up_to_the_increase(readings: list[float]) -> None:
    assert sum(step.rise for step in steps(readings)) == pytest.approx(counter_increase(readings))
    assert all(step.rise >= 0 for step in steps(readings))


@given(
    st.lists(st.floats(0.1, 5), min_size=2, max_size=60),
    st.lists(st.floats(0, 100), min_size=60, max_size=60),
    st.integers(5, 20),
)
def test_the_buckets_of_a_range_add_up_to_what_was_counted(gaps: list[float], amounts: list[float], width: int) -> None:
    times, counts = [0.0], [0.0]
    for gap, amount in zip(gaps, amounts, strict=False):
        times.append(times[-1] + gap)
        counts.append(counts[-1] + amount)
    boundaries = [float(moment) for moment in range(0, int(times[-1]) + 1, width)]
    found = energies(dict(zip(times, counts, strict=True)), boundaries, width)
    assert None not in found
    if found:
        last = next(index for index in range(len(times)) if times[index] >= boundaries[-1])
        before, after = pairwise(counts[last - 1 : last + 1]).__next__() if last else (0.0, 0.0)
        assert before - 1e-6 <= sum(energy or 0 for energy in found) <= after + 1e-6


START = datetime(2026, 11, 20, 10, tzinfo=UTC)
PLANT = uuid4()


def reading(minute: int, interval: float, energy: float, meter: str = "M1") -> EsmReading:
    return EsmReading(START + timedelta(minutes=minute), meter, interval, energy)


def test_an_esms_readings_are_put_together() -> None:
    readings = [reading(minute, 5, 1) for minute in range(0, 45, 5)] + [reading(0, 5, 7, "M2")]
    rows = list(in_buckets(PLANT, readings, 15))
    assert [(row.time, row.meter_id, row.interval, row.energy) for row in rows] == [
        (START + timedelta(minutes=15 * number), "M1", 15, 3) for number in range(3)
    ]


def test_those_that_are_as_coarse_stay_as_they_are() -> None:
    rows = list(in_buckets(PLANT, [reading(0, 15, 1.5), reading(15, 5, 2)], 5))
    assert [(row.interval, row.energy) for row in rows] == [(15, 1.5), (5, 2)]


@pytest.mark.parametrize(
    "minutes",
    [
        pytest.param([2, 7, 12], id="the last reading ends in the next bucket"),
        pytest.param([0, 5, 5], id="one reading twice, one missing"),
        pytest.param([0, 2, 10], id="two readings overlap"),
    ],
)
def test_a_bucket_whose_readings_do_not_cover_it_is_left_out(minutes: list[int]) -> None:
    assert list(in_buckets(PLANT, [reading(minute, 5, 1) for minute in minutes], 15)) == []


def test_a_reading_that_is_listed_twice_counts_once() -> None:
    (row,) = in_buckets(PLANT, [reading(minute, 5, 1) for minute in (10, 0, 5, 5)], 15)
    assert (row.time, row.energy) == (START, 3)


@pytest.mark.parametrize(("interval", "width"), [(10, 15), (5, 7), (5, 12), (2.5, 6)])
def test_a_reading_across_two_buckets_counts_in_both_by_time(interval: float, width: int) -> None:
    readings = [EsmReading(START + timedelta(minutes=interval * number), "M1", interval, number) for number in range(200)]
    rows = sorted(in_buckets(PLANT, readings, width), key=lambda row: row.time)

    def counted(end: datetime) -> float:
        whole, part = divmod((end - START) / timedelta(minutes=interval), 1)
        return whole * (whole - 1) / 2 + part * whole

    assert len(rows) >= 200 * interval // width - 1
    assert all(later.time - row.time == timedelta(minutes=width) for row, later in pairwise(rows))
    for row in rows:
        assert row.energy == pytest.approx(counted(row.time + timedelta(minutes=width)) - counted(row.time), abs=1e-5)


def test_readings_that_overlap_at_the_edge_of_a_bucket_hide_it() -> None:
    readings = [reading(0, 10, 1), reading(10, 10, 1), reading(15, 10, 1), reading(25, 5, 1)]
    assert [row.time for row in in_buckets(PLANT, readings, 15)] == [START]
