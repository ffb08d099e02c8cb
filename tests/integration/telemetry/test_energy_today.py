"""Energy of the day from stored frames."""

import asyncio
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.telemetry.energy import today
from gridfleet.domains.telemetry.energy.models import EnergyOfDay
from gridfleet.domains.telemetry.energy.today import energy_of_day, read_in_kilo
from gridfleet.domains.telemetry.frames.models import microseconds
from gridfleet.domains.telemetry.history.series import plant_sources
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from support.builders.signal_roles import add_template, set_template
from support.builders.telemetry_records import RecordedPlant, member

MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
NOW = MIDNIGHT + timedelta(hours=15)
MINUTE = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)

PRODUCED = [Metric("active_power", "kW"), Metric("energy_produced", "kWh", counter=True)]
METERED = [Metric("energy_imported", "kWh", counter=True), Metric("energy_exported", "kWh", counter=True)]
LIMITED = [Metric("active_power", "W", minimum=0.0, maximum=4e3), Metric("energy_produced", "Wh", True, 100.0, 1e9)]


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    plant = await RecordedPlant.create(database)
    for external_id in ("PV1", "PV2", "GRID", "BAT1"):
        await plant.add_device(external_id)
    return plant


async def energy(plant: RecordedPlant) -> EnergyOfDay:
    async with plant.database.transaction() as db:
        return await energy_of_day(db, plant.org, plant.id, NOW)


async def test_a_plant_without_data_has_no_energy(plant: RecordedPlant) -> None:
    assert await energy(plant) == EnergyOfDay("2026-11-20", 0.0, 0.0, 0.0, 0.0)


async def test_counters_of_pv_are_summed_and_the_grids_are_read(plant: RecordedPlant) -> None:
    hours = [MIDNIGHT + timedelta(hours=n) for n in range(3)]
    await plant.write("PV1", PRODUCED, dict(zip(hours, ([1.0, 100.0], [9.0, 101.5], [9.0, 104.0]), strict=True)))
    await plant.write("PV2", PRODUCED, dict(zip(hours, ([1.0, 7.0], [9.0, 8.0], [9.0, 13.0]), strict=True)))
    await plant.write("GRID", METERED, dict(zip(hours, ([50.0, 20.0], [50.5, 21.0], [51.25, 24.0]), strict=True)))
    await plant.write("BAT1", PRODUCED, dict(zip(hours, ([1.0, 0.0], [9.0, 50.0], [9.0, 99.0]), strict=True)))
    await plant.write(None, PRODUCED, {hours[0]: [1.0, 0.0], hours[2]: [1.0, 99.0]})
    assert await energy(plant) == EnergyOfDay("2026-11-20", 10.0, 1.25, 4.0, 60.0)


async def test_signals_with_roles_count_instead_of_the_standard_keys(plant: RecordedPlant) -> None:
    """As in the energy over time: two counters of a device add up, and power counts where no counter reports."""
    times = [MIDNIGHT + n * 10 * MINUTE for n in range(7)]
    inverter = await add_template(plant.database, east="energy_produced", west="energy_produced")
    await set_template(plant, "PV1", inverter)
    totals = [Metric("east", "Wh", counter=True), Metric("west", "kWh", counter=True)]
    await plant.write(
        "PV1", [*totals, Metric("active_power", "kW")], {times[0]: [500.0, 7.0, 9.0], times[6]: [2_500.0, 8.0, 9.0]}
    )
    await set_template(plant, "PV2", await add_template(plant.database, ac="pv_power"))
    await plant.write("PV2", [Metric("ac", "W", minimum=0.0, maximum=1e3)], {time: [6_000.0] for time in times})
    meter = await add_template(plant.database, taken="energy_imported", given="energy_exported")
    await set_template(plant, "GRID", meter)
    await plant.write(
        "GRID", [Metric("taken", "kWh", True), Metric("given", "MWh", True)], {times[0]: [5, 1.0], times[6]: [6, 1.0045]}
    )
    assert await energy(plant) == EnergyOfDay("2026-11-20", 9.0, 1.0, 4.5, 50.0)


async def test_a_counter_starts_from_its_last_reading_within_the_hour_before_midnight(plant: RecordedPlant) -> None:
    readings = {
        MIDNIGHT - timedelta(minutes=61): [None, 80.0],
        MIDNIGHT - timedelta(minutes=40): [None, 90.0],
        MIDNIGHT - timedelta(minutes=10): [None, 95.0],
        MIDNIGHT + timedelta(minutes=10): [None, 100.0],
        MIDNIGHT + timedelta(days=1): [None, 500.0],
    }
    await plant.write("PV1", PRODUCED, readings)
    await plant.write("PV2", PRODUCED, {MIDNIGHT - timedelta(minutes=61): [None, 1.0], MIDNIGHT + MINUTE: [None, 3.0]})
    assert (await energy(plant)).produced == 5.0


async def test_power_stands_in_for_a_missing_counter(plant: RecordedPlant) -> None:
    times = [MIDNIGHT + n * 10 * MINUTE for n in range(7)]
    await plant.write("PV1", ["active_power"], {time: [6.0] for time in times})
    await plant.write("PV2", PRODUCED, {time: [3.0, None] for time in times})
    powers = [4.0, 4.0, 4.0, 0.0, -2.0, -2.0, -2.0]
    await plant.write("GRID", ["active_power"], {time: [power] for time, power in zip(times, powers, strict=True)})
    assert await energy(plant) == EnergyOfDay("2026-11-20", 9.0, 1.667, 0.833, 90.74)


async def test_the_grids_directions_are_found_separately(plant: RecordedPlant) -> None:
    times = [MIDNIGHT + n * 10 * MINUTE for n in range(3)]
    metrics = [Metric("active_power", "W"), Metric("energy_imported", "Wh", counter=True)]
    await plant.write("GRID", metrics, dict(zip(times, ([-3e3, 1e6], [-3e3, 1.002e6], [-3e3, 1.0025e6]), strict=True)))
    found = await energy(plant)
    assert (found.imported, found.exported) == (2.5, 1.0)


async def test_resets_and_dips_add_nothing(plant: RecordedPlant) -> None:
    readings = [1000.0, 1001.0, 0.0, 1002.0, 3.0, 4.0, 3.9, 4.5]
    await plant.write("PV1", PRODUCED, {MIDNIGHT + n * MINUTE: [None, value] for n, value in enumerate(readings)})
    assert (await energy(plant)).produced == 3.5


async def test_a_counter_that_ended_before_midnight_leaves_the_day_to_power(plant: RecordedPlant) -> None:
    await plant.write("PV1", PRODUCED, {MIDNIGHT - 20 * MINUTE: [6.0, 100.0]})
    await plant.write("PV1", ["active_power"], {MIDNIGHT + n * 10 * MINUTE: [6.0] for n in range(7)})
    assert (await energy(plant)).produced == 6.0


async def test_a_dip_at_midnight_adds_nothing(plant: RecordedPlant) -> None:
    readings = {-3: 1000.0, -2: 1010.0, -1: 990.0, 1: 1012.0, 2: 1015.0}
    await plant.write("PV1", PRODUCED, {MIDNIGHT + n * MINUTE: [None, value] for n, value in readings.items()})
    assert (await energy(plant)).produced == 5.0


@pytest.mark.parametrize("misread", [0.0, 1_500.0, 9_000.0])
async def test_a_counter_that_was_misread_before_midnight_starts_from_the_reading_before(
    plant: RecordedPlant, misread: float
) -> None:
    """A counter that is read hourly: its only reading in the hour before midnight sets the level."""
    readings = {-90: 1_000.0, -30: misread, 30: 1_001.0, 90: 1_003.0}
    await plant.write("PV1", PRODUCED, {MIDNIGHT + n * MINUTE: [None, value] for n, value in readings.items()})
    assert (await energy(plant)).produced == 3.0


@pytest.mark.parametrize(("misread", "unit"), [(5.0, "kWh"), (1_500.0, "kWh"), (9_000.0, "kWh"), (5e-3, "MWh")])
async def test_a_counter_that_is_misread_in_the_morning_starts_from_the_next_reading(
    plant: RecordedPlant, misread: float, unit: str
) -> None:
    """An inverter that sleeps at night has no readings around midnight: its last one in the evening shows the error."""
    size = {"kWh": 1.0, "MWh": 1e-3}[unit]
    readings = {-300: 1_000.0 * size, 300: misread, 301: 1_001.0 * size, 302: 1_003.0 * size}
    await plant.write(
        "PV1", [Metric("energy_produced", unit, True)], {MIDNIGHT + n * MINUTE: [value] for n, value in readings.items()}
    )
    assert (await energy(plant)).produced == 2.0


@pytest.mark.parametrize("reading", [0.0, -1.0])
@pytest.mark.parametrize(("since", "asleep"), [(-8, 12), (2, 6)])
async def test_a_counter_that_reads_nothing_while_its_device_is_switched_off_continues(
    plant: RecordedPlant, since: int, asleep: int, reading: float
) -> None:
    readings = {MIDNIGHT + (since * 60 - 5) * MINUTE: 1_000.0}
    readings |= {MIDNIGHT + since * 60 * MINUTE + n * 10 * MINUTE: reading for n in range(asleep * 6)}
    readings |= {MIDNIGHT + (since + asleep) * 60 * MINUTE: 1_001.0, MIDNIGHT + 10 * 60 * MINUTE: 1_003.0}
    await plant.write("PV1", PRODUCED, {time: [None, value] for time, value in readings.items()})
    assert (await energy(plant)).produced == 3.0


@pytest.mark.parametrize("reading", [4_294_967_295.0, 1_000_000_001.0, 99.0])
@pytest.mark.parametrize(("since", "without"), [(-8, 12), (2, 6)])
async def test_a_counter_continues_after_readings_outside_its_limits(
    plant: RecordedPlant, since: int, without: int, reading: float
) -> None:
    readings = {MIDNIGHT + (since * 60 - 5) * MINUTE: 999_997_000.0}
    readings |= {MIDNIGHT + since * 60 * MINUTE + n * 10 * MINUTE: reading for n in range(without * 6)}
    readings |= {MIDNIGHT + (since + without) * 60 * MINUTE: 999_998_000.0, MIDNIGHT + 10 * 60 * MINUTE: 1_000_000_000.0}
    await plant.write("PV1", LIMITED, {time: [None, value] for time, value in readings.items()})
    assert (await energy(plant)).produced == 3.0


async def test_readings_are_compared_with_the_limits_of_their_layout(plant: RecordedPlant) -> None:
    in_kwh = [Metric("energy_produced", "kWh", True, maximum=1e4)]
    readings = [9_000.0, 9_001.0, 4_294_967.0, 4_294_967.0, 4_294_967.0, 9_002.0]
    await plant.write("PV1", in_kwh, {MIDNIGHT + n * MINUTE: [value] for n, value in enumerate(readings)})
    readings = [9_003e3, 4_294_967_295.0, 4_294_967_295.0, 9_004e3]
    await plant.write("PV1", LIMITED, {MIDNIGHT + n * MINUTE: [None, value] for n, value in enumerate(readings, 10)})
    readings = [9_005.0, 2e4, 2e4]
    unlimited = [Metric("energy_produced", "kWh", True)]
    await plant.write("PV1", unlimited, {MIDNIGHT + n * MINUTE: [value] for n, value in enumerate(readings, 20)})
    assert (await energy(plant)).produced == 11_000.0


async def test_powers_outside_their_limits_are_integrated(plant: RecordedPlant) -> None:
    await plant.write("PV1", LIMITED, {MIDNIGHT + n * 10 * MINUTE: [6_000.0, None] for n in range(7)})
    assert (await energy(plant)).produced == 6.0


@pytest.mark.parametrize("zeros_since", [-70, 1])
async def test_a_counter_whose_device_was_switched_off_for_days_begins_at_its_first_reading(
    plant: RecordedPlant, zeros_since: int
) -> None:
    """Also if its gateway was switched off too, and reads zero until it reaches the device."""
    readings = {MIDNIGHT - 72 * 60 * MINUTE: 9_000.0}
    readings |= {MIDNIGHT + n * 60 * MINUTE: 0.0 for n in range(zeros_since, 3)}
    readings |= {MIDNIGHT + 3 * 60 * MINUTE: 9_001.0, MIDNIGHT + 4 * 60 * MINUTE: 9_003.0}
    await plant.write("PV1", PRODUCED, {time: [None, value] for time, value in readings.items()})
    assert (await energy(plant)).produced == 2.0


async def test_a_new_counter_begins_at_zero(plant: RecordedPlant) -> None:
    readings = {-50: 0.0, -10: 0.0, 50: 0.0, 60: 4.0, 70: 6.0}
    await plant.write("PV1", PRODUCED, {MIDNIGHT + n * MINUTE: [None, value] for n, value in readings.items()})
    assert (await energy(plant)).produced == 6.0


async def test_a_day_over_several_layouts_and_a_replaced_device_counts_whole(plant: RecordedPlant) -> None:
    await plant.write("PV1", PRODUCED, {MIDNIGHT: [1.0, 10.0], MIDNIGHT + MINUTE: [1.0, 12.0]})
    await plant.write("PV1", [Metric("energy_produced", "kWh", counter=True)], {MIDNIGHT + 2 * MINUTE: [15.0]})
    await plant.delete_device("PV1")
    await plant.add_device("PV1")
    await plant.write("PV1", PRODUCED, {MIDNIGHT + 3 * MINUTE: [1.0, 0.0], MIDNIGHT + 4 * MINUTE: [1.0, 2.0]})
    assert (await energy(plant)).produced == 7.0


async def test_readings_in_watt_hours_have_no_further_digits_in_kilowatt_hours(plant: RecordedPlant) -> None:
    await plant.write("PV1", [Metric("energy_produced", "Wh", counter=True)], {MIDNIGHT: [413.0], MIDNIGHT + MINUTE: [900.0]})
    async with plant.database.transaction() as db:
        [pv1] = await plant_sources(db, plant.org, plant.id, keys=["energy_produced"])
        readings = await read_in_kilo(db, pv1, "energy_produced", MIDNIGHT, NOW)
    assert list(readings.values) == [0.413, 0.9]


@pytest.mark.parametrize("largest", [1e200, 1.7976931348623157e308])
@pytest.mark.parametrize("unit", ["W", "kW", "MW"])
async def test_powers_of_any_size_give_finite_energies(plant: RecordedPlant, unit: str, largest: float) -> None:
    times = [MIDNIGHT + n * 10 * MINUTE for n in range(90)]
    powers = {time: [largest * (-1) ** (n // 2)] for n, time in enumerate(times)}
    for device in ("PV1", "PV2", "GRID"):
        await plant.write(device, [Metric("active_power", unit)], powers)
    found = await energy(plant)
    for value in (found.produced, found.imported, found.exported):
        assert 1e190 < value < inf
    assert 0 <= found.self_consumption_pct <= 100


async def test_counters_of_any_size_give_finite_energies(plant: RecordedPlant) -> None:
    readings = [-1.7e308, 1.7e308, 5e-324, 5e-324, -5e-324, 1.7e308, 1.7e308, 0.0, 0.0, 1.7e308]
    for device, metrics in (("PV1", PRODUCED), ("PV2", PRODUCED), ("GRID", METERED)):
        await plant.write(device, metrics, {MIDNIGHT + n * MINUTE: [value, value] for n, value in enumerate(readings)})
    found = await energy(plant)
    assert 1e307 < found.produced < inf
    assert 1e307 < found.exported < inf


async def test_an_edited_unit_makes_no_energy(plant: RecordedPlant) -> None:
    """5,000,000 Wh, 5,000,500 Wh, then the template is edited: 5,000.6 kWh."""
    in_wh, in_kwh = ([Metric("energy_produced", unit, counter=True)] for unit in ("Wh", "kWh"))
    await plant.write("PV1", in_wh, {MIDNIGHT: [5_000_000.0], MIDNIGHT + MINUTE: [5_000_500.0]})
    await plant.write("PV1", in_kwh, {MIDNIGHT + 2 * MINUTE: [5_000.6]})
    await plant.write("PV2", ["active_power"], {MIDNIGHT + n * 10 * MINUTE: [6.0] for n in range(4)})
    await plant.write(
        "PV2", [Metric("active_power", "W")], {MIDNIGHT + n * 10 * MINUTE: [6_000.0] for n in range(4, 7)}
    )  # fmt: skip
    assert (await energy(plant)).produced == 6.6


async def test_of_two_units_at_one_time_the_newer_layout_counts(plant: RecordedPlant) -> None:
    in_wh, in_kwh = ([Metric("energy_produced", unit, counter=True)] for unit in ("Wh", "kWh"))
    await plant.write("PV1", in_wh, {MIDNIGHT: [1_000.0], MIDNIGHT + MINUTE: [9_000_000.0]})
    await plant.write("PV1", in_kwh, {MIDNIGHT + MINUTE: [2.0], MIDNIGHT + 2 * MINUTE: [3.0]})
    assert (await energy(plant)).produced == 2.0


async def test_a_day_has_one_reading_a_second_at_most(plant: RecordedPlant) -> None:
    # A plant may send any number of readings. A day with ten million of them would block the API for seconds.
    first = MIDNIGHT + timedelta(hours=1)
    quick = [first + n * timedelta(milliseconds=10) for n in range(1_000)]
    await plant.write("PV1", PRODUCED, {time: [1.0, 100.0 + n] for n, time in enumerate(quick)})
    async with plant.database.transaction() as db:
        pv1 = next(source for source in await plant_sources(db, plant.org, plant.id) if source.external_id == "PV1")
        readings = await read_in_kilo(db, pv1, "energy_produced", MIDNIGHT, NOW)
    assert list(readings.values) == [199.0 + 100 * second for second in range(10)]
    assert list(readings.times) == [microseconds(quick[99]) + 1_000_000 * second for second in range(10)]
    assert (await energy(plant)).produced == 900.0


async def test_a_plant_with_very_many_readings_has_the_energies_of_its_hours(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day of 100 devices that measure every second was read for minutes, also after the client had given up."""
    monkeypatch.setattr(today, "MOST_SECONDS", 0.1, raising=False)
    read_values = today.read_values
    reads = 0

    async def slowly(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0.06)
        return await read_values(*arguments)

    monkeypatch.setattr(today, "read_values", slowly)
    plant, now = await RecordedPlant.create(database), utc_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(10):
        await plant.add_device(f"PV{number}")
        await plant.write(f"PV{number}", PRODUCED, {midnight: [1.0, 5.0], now: [1.0, 7.0]})
    async with database.transaction() as db:
        found = await energy_of_day(db, plant.org, plant.id, now + MILLISECOND)
    assert (found.date, found.produced) == (midnight.date().isoformat(), 20.0)
    assert reads < 5


async def test_a_device_whose_day_takes_long_to_read_has_the_energies_of_its_hours(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight million values of a device, 100 in each second, took longer than a statement may: the response was an error 500."""
    monkeypatch.setattr(today, "MOST_SECONDS", 0.2)

    async def endlessly(db: Connection, *_: Any) -> None:
        await db.execute("SELECT pg_sleep(60)")

    monkeypatch.setattr(today, "read_values", endlessly)
    plant, now = await RecordedPlant.create(database), utc_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    await plant.add_device("PV1")
    await plant.write("PV1", PRODUCED, {midnight: [1.0, 5.0], now: [1.0, 7.0]})
    async with database.transaction() as db:
        assert (await energy_of_day(db, plant.org, plant.id, now + MILLISECOND)).produced == 2.0
        cursor = await db.execute("SHOW statement_timeout")
        assert await cursor.fetchone() == ("30s",)


async def test_another_organisations_plant_is_not_found(plant: RecordedPlant) -> None:
    other = await RecordedPlant.create(plant.database)
    async with plant.database.transaction() as db:
        with pytest.raises(PlantNotFound):
            await energy_of_day(db, member(other.organization_id), plant.id, NOW)
