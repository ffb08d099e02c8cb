"""Energy in quarters of an hour: quarters add up to the energy of the day, and hours to days in every time zone."""

import math
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gridfleet.domains.telemetry.energy.arithmetic import counter_increase, integrate_power
from gridfleet.domains.telemetry.energy.editions import Readings
from gridfleet.domains.telemetry.energy.periods import QUARTER, EnergyBucket, buckets_in, edges_of
from gridfleet.domains.telemetry.energy.quarters import (
    MOST,
    continued,
    counter_quarters,
    milliwatt_hours,
    power_quarters,
    total,
)
from gridfleet.kernel.time_zones import time_zone, time_zone_names

NOW = datetime(2026, 11, 23, tzinfo=UTC)
MINUTE = 60_000_000
DAY = 96


@cache
def transitions() -> list[tuple[str, datetime]]:
    """Return every zone with each quarter of an hour of the last ten years in which its offset changed."""
    found = []
    for name in sorted(time_zone_names()):
        zone = time_zone(name)
        for first, second in pairwise(NOW - timedelta(days=days) for days in range(3654, -1, -14)):
            offset = first.astimezone(zone).utcoffset()
            if offset != second.astimezone(zone).utcoffset():
                place = bisect_left(
                    range(14 * DAY),
                    True,
                    key=lambda number: (first + number * QUARTER).astimezone(zone).utcoffset() != offset,
                )
                found.append((name, first + place * QUARTER))
    return found


def energy_of(quarter: datetime) -> int:
    """Return some energy of a quarter of an hour."""
    return hash(quarter) % 1_000


def sums(edges: list[datetime]) -> dict[datetime, int]:
    return {
        start: sum(energy_of(start + number * QUARTER) for number in range((end - start) // QUARTER))
        for start, end in pairwise(edges)
    }


def test_there_are_days_of_23_and_25_hours_and_zones_that_change_by_half_an_hour() -> None:
    names = {name for name, _ in transitions()}
    assert {"Europe/Prague", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"} <= names
    assert len(names) > 100


@given(st.data(), st.integers(-300, 300), st.integers(1, 400))
def test_days_equal_the_sum_of_their_hours_and_those_of_their_quarters(data: st.DataObject, before: int, after: int) -> None:
    name, moment = data.draw(st.sampled_from(transitions()))
    zone = time_zone(name)
    start, end = moment + before * QUARTER, moment + (max(before, 0) + after) * QUARTER

    by_day, by_hour, by_quarter = (
        edges_of(start, end, bucket, zone) for bucket in (EnergyBucket.DAY, EnergyBucket.HOUR, EnergyBucket.QUARTER_HOUR)
    )

    assert set(by_day) <= set(by_hour) <= set(by_quarter)
    hours, quarters = sums(by_hour), sums(by_quarter)
    for (first, last), energy in zip(pairwise(by_day), sums(by_day).values(), strict=True):
        assert energy == sum(hours[hour] for hour in hours if first <= hour < last)
        assert energy == sum(quarters[quarter] for quarter in quarters if first <= quarter < last)
    for edge in by_day[1:-1]:
        local, earlier = edge.astimezone(zone), (edge - QUARTER).astimezone(zone)
        assert local.date() > earlier.date(), "a day begins with a new date"
    for first, last in pairwise(by_day):
        inner = (first + number * QUARTER for number in range((last - first) // QUARTER))
        assert len({moment.astimezone(zone).date() for moment in inner}) <= 2, "no date is without a day of its own"
    for edge in by_hour[1:-1]:
        assert (
            edge.astimezone(zone).minute == 0
            or (edge - QUARTER).astimezone(zone).utcoffset() != edge.astimezone(zone).utcoffset()
        )


@pytest.mark.parametrize(
    ("name", "day", "hours"),
    [
        ("Europe/Prague", datetime(2026, 3, 29), 23),
        ("Europe/Prague", datetime(2026, 10, 25), 25),
        ("Europe/Prague", datetime(2026, 10, 26), 24),
        ("America/Sao_Paulo", datetime(2018, 11, 4), 23),  # there was no midnight
        ("America/Havana", datetime(2025, 11, 2), 25),  # midnight occurred twice
        ("Australia/Lord_Howe", datetime(2026, 4, 5), 24.5),
        ("Asia/Kathmandu", datetime(2026, 4, 5), 24),
        ("UTC", datetime(2026, 3, 29), 24),
    ],
)
def test_lengths_of_days(name: str, day: datetime, hours: float) -> None:
    zone = ZoneInfo(name)
    start = (day - timedelta(days=2)).replace(tzinfo=UTC)
    edges = edges_of(start, start + timedelta(days=5), EnergyBucket.DAY, zone)
    [length] = [last - first for first, last in pairwise(edges[1:-1]) if first.astimezone(zone).date() == day.date()]
    assert length == timedelta(hours=hours)


def test_months_begin_on_the_first_of_the_zone() -> None:
    zone = ZoneInfo("Europe/Prague")
    edges = edges_of(datetime(2026, 1, 15, tzinfo=UTC), datetime(2026, 12, 2, tzinfo=UTC), EnergyBucket.MONTH, zone)
    locals_ = [edge.astimezone(zone) for edge in edges[1:-1]]
    assert [(one.month, one.day, one.hour) for one in locals_] == [(month, 1, 0) for month in range(2, 13)]


@given(
    st.sampled_from(EnergyBucket),
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)),
    st.integers(1, 5_000_000),
    st.data(),
)
def test_edges_cover_the_range_and_are_not_too_many(
    bucket: EnergyBucket, start: datetime, seconds: int, data: st.DataObject
) -> None:
    first = start.replace(tzinfo=UTC)
    last = first + timedelta(seconds=seconds)
    edges = edges_of(first, last, bucket, time_zone(data.draw(st.sampled_from(sorted(time_zone_names())))))
    assert edges == sorted(set(edges))
    assert edges[0] <= first < edges[0] + QUARTER
    assert edges[-1] - QUARTER < last <= edges[-1]
    assert len(edges) - 1 <= buckets_in(first, last, bucket) + 4


times_and_values = st.lists(
    st.tuples(st.integers(-60, 24 * 60 - 1), st.floats(0, 1e6, allow_subnormal=False)),
    max_size=60,
    unique_by=lambda pair: pair[0],
).map(sorted)


@given(times_and_values)
@example([(-30, 5.0), (3, 7.0), (40, 1.0), (41, 7.5), (100, 9.0)])
@example([(0, 100.0), (20, 60.0), (50, 80.0), (90, 120.0)])
def test_quarters_of_a_counter_add_up_to_the_energy_of_the_day(pairs: list[tuple[int, float]]) -> None:
    times, readings = [minute * MINUTE for minute, _ in pairs], [value for _, value in pairs]
    since = sum(1 for time in times if time < 0)

    found = counter_quarters(times, readings, 0, DAY)

    assert math.isclose(
        sum(rise for rise in found.rises if rise is not None), counter_increase(readings, since), rel_tol=1e-9, abs_tol=1e-6
    )
    for quarter, rise in enumerate(found.rises):
        assert (rise is not None) == any(time // (15 * MINUTE) == quarter for time in times)
    fell = {second // 15 for (_, a), (second, b) in pairwise(pairs) if b < a and second >= 0}
    assert found.falls == fell


@given(times_and_values, st.booleans())
def test_quarters_of_power_add_up_to_the_energy_of_the_day(pairs: list[tuple[int, float]], positive: bool) -> None:
    times, powers = [minute * MINUTE for minute, _ in pairs], [value - 5e5 for _, value in pairs]

    found = power_quarters(times, powers, 0, DAY, positive=positive)

    expected = integrate_power(times, powers, 0)[0 if positive else 1]
    assert math.isclose(sum(energy for energy in found if energy is not None), expected, rel_tol=1e-6, abs_tol=1e-3)
    assert all(energy is None or energy >= 0 for energy in found)
    assert all(energy is not None for quarter, energy in enumerate(found) if any(t // (15 * MINUTE) == quarter for t in times))


def test_extreme_values_are_bounded() -> None:
    largest = 1.7976931348623157e308
    times = [0, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE]
    for readings in ([0, largest, largest, largest], [largest, 0, largest, 0], [-largest, largest, -largest, largest]):
        rises = counter_quarters(times, readings, 0, 2).rises
        powers = power_quarters(times, readings, 0, 2, positive=True)
        for value in (*rises, *powers):
            assert value is not None
            assert 0 <= milliwatt_hours(value) <= MOST
    assert total([[MOST, None, 1], [MOST, None, 2]]) == [MOST, None, 3]


@pytest.mark.parametrize(
    ("earlier", "readings", "with_last", "found"),
    [
        ([], [5.0, 6.0], True, [5.0, 6.0]),
        ([4.0], [5.0, 6.0], True, [4.0, 5.0, 6.0]),
        ([4.0], [5.0, 6.0], False, [5.0, 6.0]),
        ([3.0, 4.0], [], True, [4.0]),
        ([3.0, 0.0], [5.0], True, [3.0, 5.0]),
        ([3.0, 9.0], [5.0], True, [3.0, 5.0]),
        ([3.0, 0.0], [1.0], True, [0.0, 1.0]),
        ([3.0], [0.0, 5.0], False, [3.0, 5.0]),
        ([9.0, 3.0], [0.0, 5.0], False, [3.0, 5.0]),
        ([3.0], [0.0], False, [0.0]),
    ],
)
def test_a_misread_reading_sets_no_level(
    earlier: list[float], readings: list[float], with_last: bool, found: list[float]
) -> None:
    def timed(values: list[float], start: int) -> Readings:
        return Readings(range(start, start + len(values)), values)

    whole = continued(timed(earlier, 10), timed(readings, 20), with_last=with_last)
    assert whole.values == found
    assert whole.times == [10 + len(earlier) - 1] * (with_last and bool(earlier)) + list(range(20, 20 + len(readings)))
