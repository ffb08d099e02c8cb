"""A plant's newest power from the newest values of its devices."""

from datetime import timedelta
from sys import float_info

from hypothesis import given
from hypothesis import strategies as st

from gridfleet.domains.device_templates.models import SignalRole
from gridfleet.domains.telemetry.frames.models import to_datetime
from gridfleet.domains.telemetry.power.models import NewestPower, RoleReading
from gridfleet.domains.telemetry.power.newest import FRESH, MOST, newest_power

NOW = 900_000_000_000_000
OLD = NOW - FRESH // timedelta(microseconds=1) - 1
SOURCES: dict[str | None, int] = {None: 1, "PV1": 2, "PV2": 3, "GRID": 4, "HEATPUMP": 5, "BAT1": 6, "BAT2": 7}


def reading(device: str | None, role: str | None, value: float, time: int = NOW) -> RoleReading:
    return RoleReading(None if role is None else SignalRole(role), SOURCES[device], device, role or "capacity", value, time)


def newest(*readings: RoleReading) -> NewestPower:
    found = newest_power(readings)
    assert found is not None
    return found


def test_a_plant_without_powers_has_none() -> None:
    assert newest_power([]) is None
    assert newest_power([reading("PV1", "energy_produced", 5.0)]) is None


def test_powers_of_several_devices_add_up() -> None:
    found = newest(
        reading("PV1", "pv_power", 3.0),
        reading("PV2", "pv_power", 4.5, NOW - 1),
        reading("BAT1", "battery_power", -2.0),
        reading("BAT2", "battery_power", 0.5),
        reading("GRID", "grid_power", -6.0),
    )
    assert found == NewestPower(to_datetime(NOW), 7.5, -1.5, -6.0, None, None, None, None)


def test_what_the_plant_itself_reports_is_not_counted_twice() -> None:
    found = newest(reading(None, "grid_power", 1.0), reading("GRID", "grid_power", 1.1), reading("PV1", "pv_power", 2.0))
    assert (found.grid, found.pv) == (1.0, 2.0)


def test_meters_of_consumers_are_not_the_grid() -> None:
    meters = reading("GRID", "grid_power", -1.0), reading("HEATPUMP", "grid_power", 3.0)
    assert newest(*meters).grid == -1.0
    assert newest(meters[1]).grid == 3.0


def test_a_device_that_is_silent_does_not_count() -> None:
    found = newest(
        reading("PV1", "pv_power", 3.0),
        reading("PV2", "pv_power", 4.0, OLD),
        reading("GRID", "grid_power", 1.0, OLD),
        reading(None, "load_power", 9.0, OLD),
        reading("HEATPUMP", "load_power", 8.0, OLD + 1),
    )
    assert (found.pv, found.grid, found.load, found.measured_at) == (3.0, None, 8.0, to_datetime(NOW))


def test_states_of_charge_are_weighted_if_every_battery_reports_its_capacity() -> None:
    charged = reading("BAT1", "soc", 100.0), reading("BAT2", "soc", 50.0)
    weighted = newest(*charged, reading("BAT1", None, 30.0), reading("BAT2", None, 10.0))
    assert (weighted.soc, weighted.capacity) == (87.5, 40.0)
    for capacity in ((), (reading("BAT1", None, 30.0),), (reading("BAT1", None, 30.0), reading("BAT2", None, 0.0))):
        found = newest(*charged, *capacity)
        assert (found.soc, found.capacity) == (75.0, None)


def test_a_capacity_that_is_reported_once_counts_as_long_as_its_battery_reports() -> None:
    charged = reading("BAT1", "soc", 50.0), reading("BAT2", "soc", 10.0)
    found = newest(*charged, reading("BAT1", None, 10.0, OLD), reading("BAT2", None, 30.0, 0))
    assert (found.soc, found.capacity) == (20.0, 40.0)
    found = newest(charged[0], reading("BAT1", None, 10.0, OLD), reading("BAT2", "soc", 90.0, OLD), reading("BAT2", None, 30.0))
    assert (found.soc, found.capacity) == (50.0, 10.0)


def test_the_capacity_is_that_of_the_batteries_also_if_the_plant_reports_the_state_of_charge() -> None:
    found = newest(reading(None, "soc", 60.0), reading("BAT1", "soc", 10.0), reading("BAT1", None, 30.0))
    assert (found.soc, found.capacity) == (60.0, 30.0)


def test_an_average_is_not_rounded_beyond_the_limit() -> None:
    assert newest(reading(None, None, 2.3979181009767058e-59), reading(None, "soc", MOST)).soc == MOST


@given(
    st.lists(
        st.builds(
            reading,
            st.sampled_from(list(SOURCES)),
            st.sampled_from([None, *SignalRole]),
            st.floats(-float_info.max, float_info.max),
            st.integers(OLD - 5, NOW),
        ),
        max_size=20,
    )
)
def test_any_readings_give_powers_that_can_be_summed_over_a_fleet(readings: list[RoleReading]) -> None:
    found = newest_power(readings)
    if found is not None:
        values = (found.pv, found.battery, found.grid, found.load, found.soc, found.soh, found.capacity)
        assert all(value is None or -MOST <= value <= MOST for value in values)
