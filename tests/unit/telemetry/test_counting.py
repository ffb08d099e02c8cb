"""Energy of a day, counted from one newest reading to the next."""

from datetime import UTC, date, datetime, timedelta
from sys import float_info

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.telemetry.energy.arithmetic import counter_increase
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.power.counting import count_energy
from gridfleet.domains.telemetry.power.models import EnergyState, Reading
from gridfleet.domains.telemetry.power.newest import MOST

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def reading(device: str | None, role: str, value: float, time: datetime) -> Reading:
    return Reading(SignalRole(role), sum(map(ord, device or "-")), device, role, value, microseconds(time))


def counted(*batches: tuple[datetime, dict[tuple[str | None, str], float]]) -> EnergyState:
    """Return the state after newest values by device and role, at these times, each known until a newer one."""
    known: dict[tuple[str | None, str], Reading] = {}
    state = None
    for time, values in batches:
        known |= {(device, role): reading(device, role, value, time) for (device, role), value in values.items()}
        state = count_energy(state, list(known.values()))
    assert state is not None
    return state


def test_without_readings_nothing_is_counted() -> None:
    assert count_energy(None, []) is None
    assert count_energy(None, [reading("BAT1", "soc", 50.0, NOON)]) is None


def test_each_energy_is_that_of_its_counters() -> None:
    roles = ("energy_produced", "energy_imported", "energy_exported", "energy_charged", "energy_discharged")
    devices = ("PV1", "GRID", "GRID", "BAT1", "BAT1")
    first = dict.fromkeys(zip(devices, roles, strict=True), 100.0)
    second = {key: 100.0 + number for number, key in enumerate(first, 1)}
    assert counted((NOON, first), (NOON + MINUTE, second)).counted == (1.0, 2.0, 3.0, 4.0, 5.0)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
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


def test_the_day_begins_with_the_last_reading_within_the_hour_before_midnight() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    key = ("PV1", "energy_produced")
    state = counted((NOON, {key: 1.0}), (midnight - 10 * MINUTE, {key: 8.0}), (midnight + MINUTE, {key: 10.0}))
    assert (state.day, state.counted[0]) == (date(2026, 11, 21), 2.0)
    state = counted((NOON, {key: 1.0}), (midnight - 2 * HOUR, {key: 8.0}), (midnight + MINUTE, {key: 10.0}))
    assert state.counted[0] == 0.0


def test_a_power_is_cut_at_midnight() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=UTC)
    state = counted((midnight - 6 * MINUTE, {("PV1", "pv_power"): 10.0}), (midnight + 6 * MINUTE, {("PV1", "pv_power"): 10.0}))
    assert state.counted[0] == pytest.approx(1.0)


def test_a_deleted_device_leaves_what_it_counted() -> None:
    key = ("PV1", "energy_produced")
    state = counted((NOON, {key: 1.0, ("PV2", "energy_produced"): 5.0}), (NOON + MINUTE, {key: 3.0}))
    state_after = count_energy(state, [reading("PV2", "energy_produced", 6.0, NOON + 2 * MINUTE)])
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
        state = count_energy(state, [reading(device, role, value, NOON + hours * HOUR)])
    if state is not None:
        assert all(0 <= energy <= MOST for energy in state.counted)
