"""The simulated physics closes: power balances, counters are the integral of power, batteries keep their limits."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridfleet.simulator.fleet import design_fleet
from gridfleet.simulator.measurements import GRID, PLANT, measure
from gridfleet.simulator.physics import (
    WMS_PER_KWH,
    Battery,
    PlantDesign,
    Pv,
    Targets,
    clear_sky,
    initial_state,
    load_w,
    noise,
    reset_counters,
    step,
)

NOON = 1_782_043_200_000  # 2026-06-21T12:00:00Z
MIDNIGHT = NOON - 12 * 3_600_000
HOUR = 3_600_000

batteries = st.builds(
    Battery,
    id=st.just("BAT1"),
    capacity_wms=st.integers(1, 200).map(lambda kwh: kwh * WMS_PER_KWH),
    charge_max_w=st.integers(0, 200_000),
    discharge_max_w=st.integers(1, 200_000),
    soc_min=st.floats(0, 0.4),
    soc_max=st.floats(0.6, 1),
    efficiency=st.integers(700, 1000),
)
designs = st.builds(
    PlantDesign,
    seed=st.integers(0, 2**32),
    latitude=st.floats(-65, 65),
    longitude=st.floats(-180, 180),
    pvs=st.lists(st.builds(Pv, st.just("PV1"), st.integers(1, 10**6)), max_size=3).map(tuple),
    batteries=st.lists(batteries, max_size=2).map(tuple),
    base_load_w=st.integers(0, 20_000),
    peak_load_w=st.integers(0, 100_000),
)


@settings(max_examples=60)
@given(designs, st.integers(0, 366 * 24 * HOUR), st.lists(st.integers(1, HOUR), min_size=1, max_size=40))
def test_the_balance_closes_and_nothing_leaves_its_limits(design: PlantDesign, start: int, steps: list[int]) -> None:
    state = initial_state(design, start)
    for length in steps:
        reading = step(design, state, state.time_ms + length, length)

        assert reading.grid_w == reading.load_w + sum(reading.battery_w) - sum(reading.pv_w)
        assert reading.load_w > 0
        for pv, power, before, after in zip(
            design.pvs, reading.pv_w, state.produced_wms, reading.state.produced_wms, strict=True
        ):
            assert 0 <= power <= pv.peak_w
            assert after - before == power * length
        for battery, power, was, now in zip(
            design.batteries, reading.battery_w, state.batteries, reading.state.batteries, strict=True
        ):
            assert -battery.discharge_max_w <= power <= battery.charge_max_w
            assert battery.floor_wms <= now.stored_wms <= battery.ceiling_wms
            assert now.charged_wms - was.charged_wms == max(0, power) * length
            assert now.discharged_wms - was.discharged_wms == max(0, -power) * length
        imported = reading.state.imported_wms - state.imported_wms
        exported = reading.state.exported_wms - state.exported_wms
        assert imported - exported == reading.grid_w * length
        assert min(imported, exported) == 0
        state = reading.state


@settings(max_examples=40)
@given(batteries, st.lists(st.integers(-300_000, 300_000), min_size=1, max_size=60))
def test_a_battery_loses_energy_and_never_makes_any(battery: Battery, targets: list[int]) -> None:
    design = PlantDesign(1, 50, 10, (), (battery,), 0, 0)
    start = state = initial_state(design, MIDNIGHT)
    for power in targets:
        state = step(design, state, state.time_ms + 60_000, 60_000, Targets(battery_w={"BAT1": power})).state

    [before], [after] = start.batteries, state.batteries
    charged = after.charged_wms - before.charged_wms
    discharged = after.discharged_wms - before.discharged_wms
    assert after.stored_wms - before.stored_wms <= charged - discharged


def test_a_surplus_charges_and_a_deficit_discharges() -> None:
    battery = Battery("BAT1", 50 * WMS_PER_KWH, 10_000, 10_000)
    design = PlantDesign(7, 48, 11, (Pv("PV1", 60_000),), (battery,), 500, 0)
    by_day = step(design, initial_state(design, NOON), NOON + 60_000, 60_000)
    by_night = step(design, initial_state(design, MIDNIGHT), MIDNIGHT + 60_000, 60_000)

    assert by_day.battery_w[0] > 0
    assert by_night.battery_w[0] == -by_night.load_w
    assert by_night.grid_w == 0


def test_targets_stop_and_limit_devices() -> None:
    battery = Battery("BAT1", 50 * WMS_PER_KWH, 10_000, 10_000)
    design = PlantDesign(7, 48, 11, (Pv("PV1", 60_000), Pv("PV2", 60_000)), (battery,), 500, 0)
    targets = Targets(frozenset({"PV2"}), {"BAT1": -5_000}, {"PV1": 1_000})

    reading = step(design, initial_state(design, NOON), NOON + 60_000, 60_000, targets)

    assert (reading.pv_w, reading.battery_w) == ((1_000, 0), (-5_000,))


def test_the_sun_rises_and_sets_where_it_should() -> None:
    day = [clear_sky(50, 0, MIDNIGHT + minute * 60_000) for minute in range(24 * 60)]

    assert day[0] == 0
    assert max(day) == pytest.approx(math.cos(math.radians(50 - 23.44)) ** 1.15, rel=0.01)
    assert abs(day.index(max(day)) - 12 * 60) <= 1
    assert 15.5 * 60 < sum(power > 0 for power in day) < 16.7 * 60
    assert all(clear_sky(80, 0, MIDNIGHT + 183 * 24 * HOUR + hour * HOUR) == 0 for hour in range(24))


def test_simulation_is_a_function_of_seed_and_time() -> None:
    first, again, other = design_fleet(4, 1), design_fleet(4, 1), design_fleet(4, 2)

    assert first == again
    assert first != other
    assert design_fleet(6, 1)[:4] == first
    assert [site.auth_method for site in first] == ["MTLS", "TOKEN", "PASSWORD", "MTLS"]
    assert load_w(first[0].design, NOON) == load_w(again[0].design, NOON)


@given(st.integers(0, 2**64), st.integers(0, 200), st.integers(0, 2**45), st.integers(2, 10**8))
def test_noise_is_smooth_and_bounded(seed: int, stream: int, time_ms: int, period_ms: int) -> None:
    value = noise(seed, stream, time_ms, period_ms)
    assert 0 <= value <= 1
    assert abs(noise(seed, stream, time_ms + 1, period_ms) - value) <= math.pi / 2 / period_ms + 1e-9


def test_what_is_shown_agrees_with_the_reading() -> None:
    design = design_fleet(1, 3)[0].design
    reading = step(design, initial_state(design, NOON - 5000), NOON, 5000)

    shown = measure(design, reading)

    production = sum(shown[pv.id]["active_power"] for pv in design.pvs)
    charging = sum(shown[battery.id]["active_power"] for battery in design.batteries)
    assert shown[GRID]["active_power"] == pytest.approx(shown[PLANT]["load_power"] + charging - production, abs=1e-9)
    assert shown[PLANT]["active_power"] == shown[GRID]["active_power"]
    assert shown[GRID]["energy_imported"] == pytest.approx(reading.state.imported_wms / WMS_PER_KWH, abs=1e-6)
    for battery in design.batteries:
        assert 10 <= shown[battery.id]["soc"] <= 95


def test_counters_of_a_used_plant_fit_its_wear() -> None:
    for site in design_fleet(12, 3):
        design = site.design
        shown = measure(design, step(design, initial_state(design, NOON), NOON + 1000, 1000))
        for battery in design.batteries:
            values = shown[battery.id]
            cycles = values["energy_charged"] / values["capacity"]
            assert values["energy_discharged"] / values["energy_charged"] == pytest.approx(0.92, abs=0.01)
            assert 80 < cycles / (100 - values["soh"]) < 110


def test_lost_counters_begin_at_zero_and_leave_the_charge_alone() -> None:
    design = design_fleet(1, 3)[0].design
    state = initial_state(design, NOON)

    lost = reset_counters(state)

    assert (lost.imported_wms, lost.exported_wms, set(lost.produced_wms)) == (0, 0, {0})
    assert [battery.stored_wms for battery in lost.batteries] == [battery.stored_wms for battery in state.batteries]
