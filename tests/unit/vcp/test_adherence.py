"""Ordered against measured power: which order is in force, and the mean of a quarter of an hour."""

from datetime import UTC, datetime, timedelta
from sys import float_info
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.plants.commands.models import AppliedPower
from gridfleet.domains.vcp.adherence import PowerOrder, compared, orders_of, quarters_between

START = datetime(2026, 5, 1, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
QUARTER = 15 * MINUTE
SCHEDULES = {name: {"scheduleId": name[0], "revision": int(name[1])} for name in ("a1", "a2", "b1")}


def setpoint(
    minute: float, power_kw: float, minutes: float | None = None, late: float = 0, schedule: dict[str, Any] | None = None
) -> AppliedPower:
    issued_at = START + minute * MINUTE
    ends_at = None if minutes is None else issued_at + minutes * MINUTE
    return AppliedPower(issued_at, issued_at + late * MINUTE, "SITE_SETPOINT", power_kw, ends_at, schedule)


def schedule(minute: float, name: str | None, late: float = 0) -> AppliedPower:
    issued_at = START + minute * MINUTE
    return AppliedPower(issued_at, issued_at + late * MINUTE, "SCHEDULE", None, None, name and SCHEDULES[name])


def mode(minute: float, kind: str = "MODE_CHANGE") -> AppliedPower:
    return AppliedPower(START + minute * MINUTE, START + minute * MINUTE, kind, 5.0, None)


def minutes_of(orders: list[PowerOrder]) -> list[tuple[float, float, float]]:
    return [((one.start - START) / MINUTE, (one.end - START) / MINUTE, one.power_kw) for one in orders]


@pytest.mark.parametrize(
    ("applied", "expected"),
    [
        ([], []),
        ([setpoint(0, 5)], [(0, 60, 5)]),
        ([setpoint(-90, 5)], [(-90, 60, 5)]),
        ([setpoint(0, 5, 10)], [(0, 10, 5)]),
        ([setpoint(0, 5), setpoint(20, 7)], [(0, 20, 5), (20, 60, 7)]),
        ([setpoint(0, 5, 10), setpoint(20, 7)], [(0, 10, 5), (20, 60, 7)]),
        ([setpoint(0, 5), mode(20)], [(0, 20, 5)]),
        ([setpoint(0, 5), mode(20, "EMERGENCY"), mode(30), setpoint(40, 6)], [(0, 20, 5), (40, 60, 6)]),
        ([setpoint(0, 5, late=2)], [(2, 60, 5)]),
        ([setpoint(0, 5, 10, late=2)], [(2, 10, 5)]),
        ([setpoint(0, 5, 1, late=2)], []),
        ([setpoint(0, 5, late=30), setpoint(10, 7)], [(10, 60, 7)]),
        ([schedule(0, "a1"), setpoint(0, 5, 50, schedule=SCHEDULES["a1"]), schedule(20, None)], [(0, 20, 5)]),
        ([setpoint(0, 5, 50, schedule=SCHEDULES["a1"]), schedule(20, "a2", late=2)], [(0, 22, 5)]),
        ([setpoint(0, 5, 50, schedule=SCHEDULES["a1"]), schedule(20, "b1"), schedule(30, None)], [(0, 20, 5)]),
        ([setpoint(0, 5, 50, schedule=SCHEDULES["a1"]), schedule(20, "a1")], [(0, 50, 5)]),
        ([setpoint(0, 5, 50, schedule=SCHEDULES["a1"]), setpoint(10, 7), schedule(20, None)], [(0, 10, 5), (10, 60, 7)]),
        ([setpoint(0, 5), schedule(20, "a1"), setpoint(25, 6, schedule=SCHEDULES["a1"])], [(0, 25, 5), (25, 60, 6)]),
        ([schedule(-60, None), mode(0), schedule(20, "a1")], []),
    ],
)
def test_the_last_command_that_the_plant_applied_is_in_force(
    applied: list[AppliedPower], expected: list[tuple[float, float, float]]
) -> None:
    assert minutes_of(orders_of(applied, START + 60 * MINUTE)) == expected


def test_only_whole_quarters_are_compared() -> None:
    assert quarters_between(START, START + 60 * MINUTE) == [START + number * QUARTER for number in range(4)]
    assert quarters_between(START + MINUTE, START + 44 * MINUTE) == [START + QUARTER]
    assert quarters_between(START, START + 14 * MINUTE) == []
    assert quarters_between(START + MINUTE, START) == []
    assert quarters_between(datetime.max.replace(tzinfo=UTC), START) == []


def test_a_quarter_has_the_mean_of_its_orders() -> None:
    orders = orders_of([setpoint(0, 10), setpoint(5, 4, 10), setpoint(30, 0)], START + 60 * MINUTE)
    quarters = quarters_between(START, START + 60 * MINUTE)
    found = compared(quarters, orders, {START: 1.0, START + 2 * QUARTER: -0.5})
    assert [one.time for one in found] == quarters
    assert [one.ordered_kw for one in found] == [pytest.approx(6), None, 0, 0]
    assert [one.measured_kw for one in found] == [4, None, -2, None]
    assert [one.deviation_kw for one in found] == [pytest.approx(-2), None, -2, None]


def test_means_show_no_errors_of_binary_fractions() -> None:
    orders = [PowerOrder(START, START + 4 * MINUTE, 2.9), PowerOrder(START + 4 * MINUTE, START + 20 * MINUTE, 2.9)]
    [row] = compared([START], orders, {START: 0.7})
    assert (row.ordered_kw, row.measured_kw, row.deviation_kw) == (2.9, 2.8, -0.1)


def test_the_largest_powers_stay_finite() -> None:
    quarters = quarters_between(START, START + 60 * MINUTE)
    orders = orders_of([setpoint(0, 1.7e308)], START + 60 * MINUTE)
    for quarter in compared(quarters, orders, dict.fromkeys(quarters, -1.7e308)):
        assert (quarter.ordered_kw, quarter.measured_kw, quarter.deviation_kw) == (
            pytest.approx(1.7e308),
            -float_info.max,
            -float_info.max,
        )


COMMANDS = st.lists(
    st.tuples(st.integers(-30, 60), st.integers(-20, 20), st.none() | st.integers(1, 40), st.booleans()),
    max_size=8,
    unique_by=lambda command: command[0],
).map(lambda commands: sorted(commands, key=lambda command: command[0]))


@given(COMMANDS)
def test_the_mean_is_that_of_every_minute(commands: list[tuple[int, int, int | None, bool]]) -> None:
    """Against a slow look at each minute for the last command before it."""
    applied = [mode(at) if is_mode else setpoint(at, power, minutes) for at, power, minutes, is_mode in commands]

    def power_at(minute: int) -> float | None:
        before = [one for one in commands if one[0] <= minute]
        if not before:
            return None
        at, power, minutes, is_mode = before[-1]
        return None if is_mode or (minutes is not None and minute >= at + minutes) else power

    orders = orders_of(applied, START + 60 * MINUTE)
    for quarter in compared(quarters_between(START, START + 60 * MINUTE), orders, {}):
        first = (quarter.time - START) // MINUTE
        powers = [power_at(first + minute) for minute in range(15)]
        known = [power for power in powers if power is not None]
        expected = sum(known) / 15 if len(known) == 15 else None
        assert quarter.ordered_kw == (expected if expected is None else pytest.approx(expected, abs=5.1e-7))  # 6 decimals
