"""Energy of a day, counted from one newest reading to the next."""

from datetime import UTC, date, datetime, timedelta
from sys import float_info

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.telemetry.energy.arithmetic import counter_increase
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.power.counting import count_energy, with_kept_hours
from gridfleet.domains.telemetry.power.models import EnergyState, RoleReading
from gridfleet.domains.telemetry.power.newest import MOST

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def reading(device: str | None, role: str, value: float, time: datetime) -> RoleReading:
    return RoleReading(SignalRole(role), sum(map(ord, device or "-")), device, role, value, microseconds(time))


def counted(*batches: tuple[datetime, dict[tuple[str | None, str], float]], zone: str = "UTC") -> EnergyState:
    """Return the state after newest values by device and role, at these times, each known until a newer one."""
    known: dict[tuple[str | None, str], RoleReading] = {}
    state = None
    for time, values in batches:
        known |= {(device, role): reading(device, role, value, time) for (device, role), value in values.items()}
        state = count_energy(state, list(known.values()), zone)
    assert state is not None
    return state


def test_without_readings_nothing_is_counted() -> None:
    assert count_energy(None, [], "UTC") is None
    assert count_energy(None, [reading("BAT1", "soc", 50.0, NOON)], "UTC") is None


def test_each_energy_is_that_of_its_counters() -> None:
    roles = ("energy_produced", "energy_imported", "energy_exported", "energy_charged", "energy_discharged")
    devices = ("PV1", "GRID", "GRID", "BAT1", "BAT1")
    first = dict.fromkeys(zip(devices, roles, strict=True), 100.0)
    second = {key: 100.0 + number for number, key in enumerate(first, 1)}
    assert counted((NOON, first), (NOON + MINUTE, second)).counted == (1.0, 2.0, 3.0, 4.0, 5.0)


@given(st.lists(st.floats(0, 1e9) | st.just(-1.0), min_size=1, max_size=30))
def test_a_counter_rises_as_all_its_readings_together_do(values: list[float]) -> None:
    state = counted(*((NOON + n * MINUTE, {("PV1", "energy_produced"): value}) for n, value in enumerate(values)))
    assert state.counted[0] == pytest.approx(counter_increase(values), abs=1e-3, rel=1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=10), st.integers(0, 9))
def test_the_same_readings_again_add_nothing(values: list[float], again: int) -> None:
    batches = [(NOON + n * MINUTE, {("PV1", "energy_produced"): value}) for n, value in enumerate(values)]
    repeated = [*batches[: again + 1], *batches[again : again + 1], *batches[again + 1 :]]
    assert counted(*repeated) == counted(*batches)


@pytest.mark.parametrize("misread", [1e10, 2.0**64, 3.4e38, float_info.max])
def test_a_misread_counter_leaves_the_energy_of_the_day(misread: float) -> None:
    readings = [1_000.0, 1_010.0, misread, 1_011.0]
    state = counted(*((NOON + n * MINUTE, {("PV1", "energy_produced"): value}) for n, value in enumerate(readings)))
    assert state.counted[0] == pytest.approx(counter_increase(readings), abs=1e-3) == 11.0


def test_a_power_without_a_counter_is_integrated() -> None:
    hours = [NOON + n * MINUTE for n in range(61)]
    state = counted(*((time, {("PV1", "pv_power"): 6.0, ("GRID", "grid_power"): -3.0}) for time in hours))
    assert state.counted == pytest.approx((6.0, 0.0, 3.0, 0.0, 0.0))


def test_a_gap_of_powers_adds_nothing_and_one_of_a_counter_counts() -> None:
    first = {("PV1", "pv_power"): 6.0, ("GRID", "energy_imported"): 10.0}
    second = {("PV1", "pv_power"): 6.0, ("GRID", "energy_imported"): 14.0}
    assert counted((NOON, first), (NOON + HOUR, second)).counted == (0.0, 4.0, 0.0, 0.0, 0.0)


def test_a_counter_that_ended_leaves_the_energy_to_the_power() -> None:
    both = {("PV1", "energy_produced"): 5.0, ("PV1", "pv_power"): 60.0}
    later = [(NOON + timedelta(days=2) + n * MINUTE, {("PV1", "pv_power"): 60.0}) for n in range(3)]
    assert counted((NOON, both), *later).counted[0] == pytest.approx(2.0)


def test_a_counter_that_comes_back_with_zeros_after_days_counts_no_life() -> None:
    """Meanwhile the power of its device was integrated."""
    counter, power = ("PV1", "energy_produced"), ("PV1", "pv_power")
    later = NOON + timedelta(days=2)
    batches = [(NOON, {counter: 9_000.0, power: 6.0}), *((later + n * MINUTE, {power: 6.0}) for n in range(10))]
    batches += [(later + (10 + n) * MINUTE, {counter: reading}) for n, reading in enumerate([0.0, 0.0, 9_100.0, 9_101.0])]
    assert counted(*batches).counted[0] == pytest.approx(0.9 + 1.0)


def test_the_day_begins_with_the_last_reading_within_the_hour_before_midnight() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    key = ("PV1", "energy_produced")
    state = counted((NOON, {key: 1.0}), (midnight - 10 * MINUTE, {key: 8.0}), (midnight + MINUTE, {key: 10.0}))
    assert (state.day, state.counted[0]) == (date(2026, 11, 21), 2.0)
    state = counted((NOON, {key: 1.0}), (midnight - 2 * HOUR, {key: 8.0}), (midnight + MINUTE, {key: 10.0}))
    assert state.counted[0] == 0.0


@pytest.mark.parametrize(
    ("before", "zeros", "after", "produced"),
    [
        (9_000.0, [1], 9_000.5, 2.0),
        (9_000.0, [1, 2, 3], 9_000.5, 2.0),
        (20.0, [1, 2], 0.5, 2.0),
        (9_000.0, [1], 8_998.0, 1.5),
        (9_000.0, [1, 2, 3], 8_998.0, 1.5),
        (9_000.0, [25], 9_030.0, 1.5),
        (9_000.0, [*range(1, 26)], 9_030.0, 1.5),
    ],
)
def test_a_device_that_reads_zero_when_it_wakes_up_continues(
    before: float, zeros: list[int], after: float, produced: float
) -> None:
    """After more than a day without readings, the first positive one adds nothing."""
    dusk = datetime(2026, 11, 20, 17, tzinfo=UTC)
    batches = [(dusk, before), *((dusk + 12 * HOUR + n * HOUR, 0.0) for n in zeros)]
    dawn = batches[-1][0] + MINUTE
    batches += [(dawn, after), (dawn + 10 * MINUTE, after + 1.5)]
    state = counted(*((time, {("PV1", "energy_produced"): value}) for time, value in batches))
    assert state.counted[0] == pytest.approx(produced)


@pytest.mark.parametrize(
    ("before", "after"), [([5.0], 5_001.0), ([8_000.0], 5_001.0), ([65_535.0], 5_001.0), ([0.0, 0.0], 1.0)]
)
def test_the_last_readings_of_a_day_are_judged_by_the_first_one_of_the_next(before: list[float], after: float) -> None:
    """A misread value before midnight sets no level, and a counter that began again at zero counts from there."""
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    readings = [5_000.0, *before, after, after + 1.0, after + 2.0]
    state = counted(*((midnight + (n - 1 - len(before)) * MINUTE, {PRODUCED: value}) for n, value in enumerate(readings)))
    assert (state.day, state.counted[0]) == (date(2026, 11, 21), 3.0)


@pytest.mark.parametrize("misread", [5.0, 2_500.0, 8_000.0, 65_535.0])
@pytest.mark.parametrize("zeros", [1, 30])
def test_a_value_that_is_misread_before_zeros_is_judged_by_the_reading_after_them(misread: float, zeros: int) -> None:
    readings = [4_999.0, 5_000.0, misread, *[0.0] * zeros, 5_001.0, 5_003.0]
    batches = [(NOON + n * 10 * MINUTE, {PRODUCED: value}) for n, value in enumerate(readings)]
    state = counted(*batches)
    assert state.counted[0] == pytest.approx(4.0)
    assert {hour: energies[0] for hour, energies in state.hours.items() if round(energies[0], 9)} == (
        {microseconds(NOON): 4.0} if zeros == 1 else {microseconds(NOON): 1.0, microseconds(NOON + 5 * HOUR): 3.0}
    )


@pytest.mark.parametrize("high", [1, 4])
def test_a_counter_that_stays_below_its_level_counts_again_after_a_day(high: int) -> None:
    """Its first reading was misread, or the meter was exchanged. It reports around the clock, so that no day sets its level."""
    readings = [(1_500.0 if n < high else 1_000.0) + n / 2 for n in range(100)]
    batches = [(NOON + n * 30 * MINUTE, {PRODUCED: value}) for n, value in enumerate(readings)]
    for last, produced in ((48, 0.0), (100, 14.0)):
        state = counted(*batches[:last])
        day = (NOON + (last - 1) * 30 * MINUTE).date()
        assert (state.day, state.counted[0], sum(hour[0] for hour in state.hours.values())) == (day, produced, produced)


def test_a_power_is_cut_at_midnight() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    state = counted((midnight - 6 * MINUTE, {("PV1", "pv_power"): 10.0}), (midnight + 6 * MINUTE, {("PV1", "pv_power"): 10.0}))
    assert state.counted[0] == pytest.approx(1.0)


def test_a_deleted_device_leaves_what_it_counted() -> None:
    key = ("PV1", "energy_produced")
    state = counted((NOON, {key: 1.0, ("PV2", "energy_produced"): 5.0}), (NOON + MINUTE, {key: 3.0}))
    state_after = count_energy(state, [reading("PV2", "energy_produced", 6.0, NOON + 2 * MINUTE)], "UTC")
    assert state_after is not None
    assert (state_after.counted[0], len(state_after.counters)) == (3.0, 1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*SignalRole]),
            st.sampled_from(["PV1", "GRID", "BAT1", None]),
            st.floats(-float_info.max, float_info.max),
            st.integers(-40, 40),
        ),
        max_size=30,
    )
)
def test_any_readings_give_energies_that_can_be_summed_over_a_fleet(
    found: list[tuple[SignalRole, str | None, float, int]],
) -> None:
    state = None
    for role, device, value, hours in found:
        state = count_energy(state, [reading(device, role, value, NOON + hours * HOUR)], "Asia/Kolkata")
    if state is not None:
        assert all(0 <= energy <= MOST for energy in state.counted)
        assert all(-MOST <= energy <= MOST for energies in state.hours.values() for energy in energies)


PRODUCED = ("PV1", "energy_produced")


def kept(hour: datetime, *produced: float | None) -> tuple[datetime, list[int | None]]:
    """Return a kept hour with what was produced in each of its quarters, in kWh."""
    nothing = [None] * 16
    return hour, [*(None if energy is None else round(energy * 1e6) for energy in produced), *nothing]


@pytest.mark.parametrize(
    ("zone", "midnight"),
    [
        ("Asia/Kolkata", datetime(2026, 11, 20, 18, 30, tzinfo=UTC)),
        ("America/New_York", datetime(2026, 11, 21, 5, tzinfo=UTC)),
        ("Pacific/Kiritimati", datetime(2026, 11, 20, 10, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 11, 20, 13, tzinfo=UTC)),
    ],
)
def test_a_day_is_that_of_the_zone(zone: str, midnight: datetime) -> None:
    readings = [(midnight + minutes * MINUTE, {PRODUCED: level}) for minutes, level in ((-20, 1.0), (-10, 3.0), (10, 8.0))]
    before, after = (counted(*readings[:count], zone=zone) for count in (2, 3))
    assert (before.day, before.counted[0]) == (date(2026, 11, 20), 2.0)
    assert (after.day, after.counted[0]) == (date(2026, 11, 21), 5.0)


def test_a_day_begins_with_the_time_that_clocks_do_not_leave_out() -> None:
    midnight = datetime(2026, 9, 6, 4, tzinfo=UTC)  # in Chile the clocks went from 00:00 to 01:00
    readings = [(midnight + minutes * MINUTE, {PRODUCED: level}) for minutes, level in ((-1, 1.0), (0, 2.0), (1, 4.0))]
    assert counted(*readings[:1], zone="America/Santiago").day == date(2026, 9, 5)
    state = counted(*readings, zone="America/Santiago")
    assert (state.day, state.counted[0]) == (date(2026, 9, 6), 3.0)


def test_another_zone_keeps_what_its_day_has_of_the_count_and_misses_no_rise() -> None:
    """Of closed hours, their kept energies are added later. Nothing is kept of the open one."""
    morning = (NOON - 90 * MINUTE, {PRODUCED: 0.0}), (NOON - 80 * MINUTE, {PRODUCED: 1.0})
    state = counted(*morning, (NOON, {PRODUCED: 1.0}), (NOON + MINUTE, {PRODUCED: 3.0}))
    again = count_energy(state, [reading(*PRODUCED, 3.5, NOON + 2 * MINUTE)], "Pacific/Apia")  # its day began at 11:00 UTC
    assert again is not None
    assert (again.day, again.counted[0], again.time_zone) == (date(2026, 11, 21), 2.5, "Pacific/Apia")
    assert with_kept_hours(again, [kept(NOON - HOUR, 0.25, 0.0, 0.0, 0.0)]).counted[0] == 2.75
    new_day = count_energy(state, [reading(*PRODUCED, 3.5, NOON + 2 * MINUTE)], "Etc/GMT-12")  # its day began at noon
    assert new_day is not None
    assert (new_day.day, new_day.counted[0]) == (date(2026, 11, 21), 2.5)


def test_kept_hours_replace_what_was_counted_in_them() -> None:
    state = counted(*((NOON + minutes * MINUTE, {PRODUCED: minutes / 10}) for minutes in range(50, 80)))
    assert state.counted[0] == pytest.approx(2.9)
    morning = [kept(NOON - number * HOUR, 1.0, None, 0.5, 0.0) for number in (3, 4)]
    assert with_kept_hours(state, []) == state
    # Nothing is kept of the hour from noon on: it stays as it was counted.
    assert with_kept_hours(state, morning).counted[0] == pytest.approx(3.0 + 2.9)
    late = with_kept_hours(state, [*morning, kept(NOON, 2.0, 0.0, 0.0, 1.0)])
    assert late.counted[0] == pytest.approx(3.0 + 3.0 + 2.0)
    again = count_energy(late, [reading(*PRODUCED, 8.4, NOON + 80 * MINUTE)], "UTC")
    assert again is not None
    assert again.counted[0] == pytest.approx(8.0 + 0.5)


def test_a_kept_hour_in_which_the_day_begins_counts_from_there_on() -> None:
    midnight = datetime(2026, 11, 20, 18, 30, tzinfo=UTC)
    readings = [(midnight + minutes * MINUTE, {PRODUCED: level}) for minutes, level in ((-20, 1.0), (-10, 3.0), (10, 8.0))]
    state = counted(*readings, (midnight + 40 * MINUTE, {PRODUCED: 9.0}), zone="Asia/Kolkata")
    hour = kept(midnight - HOUR / 2, 2.0, 0.0, 6.0, 1.0)
    assert with_kept_hours(state, [hour]).counted[0] == 7.0 + 1.0


def test_what_a_plant_sends_at_once_after_a_gap_counts_once() -> None:
    """A plant was offline from 9:00 to 13:15 and sends everything together: only its newest reading is seen."""
    nine = NOON - 3 * HOUR
    state = counted((nine, {PRODUCED: 10.0}), (nine + timedelta(hours=4, minutes=15), {PRODUCED: 27.0}))
    assert state.counted[0] == pytest.approx(17.0)
    found = with_kept_hours(state, [kept(nine + number * HOUR, 1.0, 1.0, 1.0, 1.0) for number in range(4)])
    assert found.counted[0] == pytest.approx(17.0)


def test_the_energy_of_a_power_is_cut_at_the_hour() -> None:
    state = counted(*((NOON + minutes * MINUTE, {("PV1", "pv_power"): 6.0}) for minutes in (55, 65)))
    assert state.counted[0] == pytest.approx(1.0)
    assert with_kept_hours(state, [kept(NOON, 0.0, 0.0, 0.0, 9.0)]).counted[0] == pytest.approx(9.5)
