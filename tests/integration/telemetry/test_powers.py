"""Newest power and energy of plants, from their newest values."""

import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from procrastinate import App
from procrastinate.testing import InMemoryConnector

from gridfleet.domains.device_templates.catalogue import create_template, seed_system_templates
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.models import DeviceType, Signal, SignalRole, TemplateLevel
from gridfleet.domains.telemetry.power.refresh import refresh_all, refresh_power
from gridfleet.jobs.telemetry import add_telemetry_jobs
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from support.builders.telemetry_records import RecordedPlant, work
from support.servers.free_ports import settings_at

SECOND = timedelta(seconds=1)
PV = [Metric("active_power", "W"), Metric("energy_produced", "Wh", counter=True)]
GRID = [Metric("active_power", "kW"), Metric("energy_imported", "kWh", True), Metric("energy_exported", "kWh", True)]
SYSTEM = Actor(ActorType.SYSTEM)


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    plant = await RecordedPlant.create(database)
    for external_id in ("PV1", "PV2", "GRID"):
        await plant.add_device(external_id)
    return plant


async def refresh(plant: RecordedPlant) -> dict[str, Any]:
    """Refresh the plant and return its row."""
    async with plant.database.transaction() as db:
        await refresh_power(db, [plant.id])
    return await row_of(plant.database, plant.id)


async def row_of(database: Database, plant_id: UUID) -> dict[str, Any]:
    async with database.transaction() as db:
        cursor = await db.execute("SELECT * FROM plant_power WHERE plant_id = %s", (plant_id,))
        row = await cursor.fetchone()
        assert cursor.description is not None
        return {} if row is None else dict(zip((column.name for column in cursor.description), row, strict=True))


async def test_powers_and_energies_follow_the_newest_values(plant: RecordedPlant) -> None:
    now = utc_now()
    await plant.write("PV1", PV, {now - 2 * SECOND: [3_000.0, 7e6]})
    await plant.write("GRID", GRID, {now - 2 * SECOND: [-2.5, 10.0, 20.0]})
    row = await refresh(plant)
    assert (row["pv_kw"], row["grid_kw"], row["battery_kw"], row["measured_at"]) == (3.0, -2.5, None, now - 2 * SECOND)
    assert (row["energy_day"], row["produced_kwh"]) == ((now - 2 * SECOND).date(), 0.0)

    await plant.write("PV1", PV, {now: [4_000.0, 7.5e6]})
    await plant.write("PV2", PV, {now: [500.0, 1.0]})
    await plant.write("GRID", GRID, {now - SECOND: [-3.0, 10.0, 24.0]})
    row = await refresh(plant)
    assert (row["pv_kw"], row["grid_kw"], row["measured_at"]) == (4.5, -3.0, now)
    assert (row["produced_kwh"], row["imported_kwh"], row["exported_kwh"]) == (500.0, 0.0, 4.0)
    assert await refresh(plant) == row


async def test_a_counter_continues_after_readings_outside_its_limits(plant: RecordedPlant) -> None:
    """A power outside its limits remains the newest power."""
    now = utc_now()
    limited = [Metric("active_power", "W", minimum=0.0, maximum=4e3), Metric("energy_produced", "Wh", True, 100.0, 1e9)]
    nothing = 4_294_967_295.0
    for place, reading in enumerate([7e6, nothing, nothing, 99.0, nothing, 7.001e6, 7.003e6]):
        await plant.write("PV1", limited, {now + (place - 10) * SECOND: [5_000.0, reading]})
        row = await refresh(plant)
        assert (row["pv_kw"], row["produced_kwh"]) == (5.0, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 3.0][place])


async def test_converted_powers_have_no_further_digits(plant: RecordedPlant) -> None:
    """413 * 0.001 is 0.41300000000000003, 4.1 / 1000 is 0.0040999999999999995, and 2.01 * 1000 is 2009.9999999999998."""
    now = utc_now()
    await plant.write("GRID", [Metric("active_power", "W")], {now: [413.0]})
    await plant.write("PV1", PV, {now: [100.0, 0.0]})
    await plant.write("PV2", PV, {now: [200.0, 0.0]})
    row = await refresh(plant)
    assert (row["grid_kw"], row["pv_kw"]) == (0.413, 0.3)
    await plant.write("GRID", [Metric("active_power", "W")], {now + SECOND: [4.1]})
    assert (await refresh(plant))["grid_kw"] == 0.0041
    await plant.write("GRID", [Metric("active_power", "MW")], {now + 2 * SECOND: [2.01]})
    assert (await refresh(plant))["grid_kw"] == 2010.0


async def test_late_values_change_nothing(plant: RecordedPlant) -> None:
    now = utc_now()
    await plant.write("PV1", PV, {now: [4_000.0, 7.5e6]})
    row = await refresh(plant)
    await plant.write("PV1", PV, {now - timedelta(hours=1): [9_000.0, 1e6]})
    assert await refresh(plant) == row


async def test_a_deleted_device_no_longer_counts(plant: RecordedPlant) -> None:
    now = utc_now()
    await plant.write("PV1", PV, {now: [4_000.0, 7e6]})
    await plant.write("PV2", PV, {now: [1_000.0, 7e6]})
    assert (await refresh(plant))["pv_kw"] == 5.0
    await plant.delete_device("PV2")
    assert (await refresh(plant))["pv_kw"] == 4.0


async def test_edited_roles_apply_to_the_values_that_are_there(plant: RecordedPlant) -> None:
    await plant.write("PV1", PV, {utc_now(): [4_000.0, 7e6]})
    assert (await refresh(plant))["pv_kw"] == 4.0
    signals = [Signal(key="active_power", field="p", unit="W", role=SignalRole.BATTERY_POWER)]
    async with plant.database.transaction() as db:
        template = await create_template(
            db,
            SYSTEM,
            name="X",
            type=DeviceType.INVERTER,
            level=TemplateLevel.SUB_DEVICE,
            version=1,
            signals=signals,
            actions=[],
        )
        await db.execute("UPDATE sub_device SET template_id = %s WHERE external_id = 'PV1'", (template.id,))
    row = await refresh(plant)
    assert (row["pv_kw"], row["battery_kw"]) == (None, 4.0)


@pytest.mark.parametrize(
    ("unit", "capacity"), [("kWh", 12.5), ("Wh", 0.0125), ("MWh", 12_500.0), ("", 12.5), ("Ah", None), ("%", None)]
)
async def test_batteries_of_the_system_template_have_their_capacity(
    plant: RecordedPlant, unit: str, capacity: float | None
) -> None:
    await plant.add_device("BAT1")
    async with plant.database.transaction() as db:
        await seed_system_templates(db)
        await db.execute(
            "UPDATE sub_device SET type = 'BATTERY', template_id = '00000000-0000-7000-8000-000000000005'"
            " WHERE external_id = 'BAT1'"
        )
    metrics = [Metric("active_power", "kW"), Metric("soc", "%"), Metric("capacity", unit)]
    await plant.write("BAT1", metrics, {utc_now(): [-2.0, 40.0, 12.5]})
    row = await refresh(plant)
    assert (row["battery_kw"], row["soc"], row["capacity_kwh"]) == (-2.0, 40.0, capacity)


async def test_values_of_an_edited_template_are_the_newest_of_both_layouts(plant: RecordedPlant) -> None:
    now = utc_now()
    await plant.write("PV1", PV, {now - SECOND: [4_000.0, 7e6]})
    await plant.write("PV1", [Metric("active_power", "kW")], {now: [5.0]})
    assert (await refresh(plant))["pv_kw"] == 5.0
    await plant.write("PV1", PV, {now + SECOND: [6_000.0, 7e6]})
    assert (await refresh(plant))["pv_kw"] == 6.0


async def test_every_plant_is_refreshed_and_a_bad_one_alone_is_left_out(plant: RecordedPlant) -> None:
    others = [await RecordedPlant.create(plant.database) for _ in range(3)]
    for one in (plant, *others):
        if one is not plant:
            await one.add_device("PV1")
        await one.write("PV1", PV, {utc_now(): [1_000.0, 7e6]})
    await refresh(others[1])
    async with plant.database.transaction() as db:
        await db.execute("UPDATE plant_power SET pv_kw = NULL, energy_state = '[]' WHERE plant_id = %s", (others[1].id,))
    await refresh_all(plant.database)
    found = [(await row_of(plant.database, one.id))["pv_kw"] for one in (plant, *others)]
    assert found == [1.0, 1.0, None, 1.0]


async def test_a_plant_that_takes_too_long_is_left_out(plant: RecordedPlant) -> None:
    plants = [plant, *[await RecordedPlant.create(plant.database) for _ in range(2)]]
    for one in plants:
        if one is not plant:
            await one.add_device("PV1")
        await one.write("PV1", PV, {utc_now(): [1_000.0, 1.0]})
    waits = "'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'"
    slow = f"CREATE TRIGGER slow BEFORE INSERT ON plant_power FOR EACH ROW WHEN (NEW.plant_id = '{plants[1].id}')"
    async with plant.database.transaction() as db:
        await db.execute(f"CREATE FUNCTION wait_long() RETURNS trigger LANGUAGE plpgsql AS {waits}".encode())
        await db.execute(f"{slow} EXECUTE FUNCTION wait_long()".encode())
    try:
        await refresh_all(plant.database)
    finally:
        async with plant.database.transaction() as db:
            await db.execute("DROP FUNCTION wait_long CASCADE")
    rows = [await row_of(plant.database, one.id) for one in plants]
    assert [row.get("pv_kw") for row in rows] == [1.0, None, 1.0]


async def test_a_deleted_plant_has_no_row(plant: RecordedPlant) -> None:
    await plant.write("PV1", PV, {utc_now(): [4_000.0, 7e6]})
    assert (await refresh(plant))["pv_kw"] == 4.0
    async with plant.database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (plant.id,))
    assert await refresh(plant) == {}


async def test_what_a_refresh_holds_does_not_grow_with_other_names(database: Database) -> None:
    """200 plants with 500 devices of 200 names each made a refresh hold 20 million values, and their names, at once."""
    plants = []
    for others in (0, 198):
        plant = await RecordedPlant.create(database)
        await plant.add_device("GRID")
        for number in range(50):
            await plant.add_device(f"PV{number}")
            names = [Metric(f"own-{number}-{other}", "") for other in range(others)]
            await plant.write(f"PV{number}", [*PV, *names], {utc_now(): [1_000.0, 1.0, *([2.0] * others)]})
        plants.append(plant)
        await refresh(plant)
    held = []
    for plant in plants:
        tracemalloc.start()
        try:
            row = await refresh(plant)
            held.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert row["pv_kw"] == 50.0
    assert held[1] < 2 * held[0]


@pytest.mark.parametrize(("devices", "least"), [(2_000, 450.0), (400, 400.0)])
async def test_a_plant_with_many_devices_is_read_in_part(plant: RecordedPlant, devices: int, least: float) -> None:
    """An edit of the template gives each device a second layout: the newest of each device is read first."""
    async with plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), %s, %s, 'PV' || n, '', 'INVERTER' FROM generate_series(3, %s) n",
            (plant.organization_id, plant.id, devices),
        )
    edited = [Metric("active_power", "W", minimum=-10.0), PV[1]]
    layouts = [await plant.layout(PV), await plant.layout(edited)]
    await plant.source("PV1")
    for seconds, layout in enumerate(layouts):
        async with plant.database.transaction() as db:
            await db.execute(
                "INSERT INTO telemetry_latest (source_id, layout_id, time, vals, absent)"
                " SELECT id, %s, now() + make_interval(secs => %s), '{1000,1}', ''"
                " FROM telemetry_source WHERE plant_id = %s AND starts_with(external_id, 'PV')",
                (layout, seconds, plant.id),
            )
    assert least <= (await refresh(plant))["pv_kw"] <= 500


async def test_the_energy_of_the_day_includes_what_arrives_late(plant: RecordedPlant) -> None:
    """A power is integrated as it arrives; the past of a new plant arrives after its first live value."""
    now = utc_now()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if not timedelta(hours=2) < now - midnight < timedelta(hours=23, minutes=55):
        pytest.skip("no hour of the day is closed yet, or the next values are of the next day")
    power = [Metric("active_power", "kW")]
    await plant.write("PV1", power, {now: [6.0]})
    assert (await refresh(plant))["produced_kwh"] == 0.0
    await work(plant.database)
    await plant.write("PV1", power, {midnight + minutes * 60 * SECOND: [6.0] for minutes in range(0, 61, 10)})
    await work(plant.database)
    assert (await refresh(plant))["produced_kwh"] == 0.0

    await refresh_all(plant.database)
    assert (await row_of(plant.database, plant.id))["produced_kwh"] == pytest.approx(6.0)
    await plant.write("PV1", power, {now + 60 * SECOND: [6.0]})
    assert (await refresh(plant))["produced_kwh"] == pytest.approx(6.1)
    await refresh_all(plant.database)
    assert (await row_of(plant.database, plant.id))["produced_kwh"] == pytest.approx(6.1)


async def test_the_job_that_keeps_late_energies_adds_them_to_the_energy_of_the_day(plant: RecordedPlant, home: Path) -> None:
    """Not the next refresh of all plants, some minutes later."""
    now = utc_now()
    # It is about noon there, so the day has closed hours.
    zone = f"Etc/GMT{now.hour - 12:+d}"
    async with plant.database.transaction() as db:
        await db.execute("UPDATE organization SET time_zone = %s WHERE id = %s", (zone, plant.organization_id))
    await plant.write("PV1", PV, {now: [0.0, 9_000.0]})
    await work(plant.database)
    await plant.write("PV1", PV, {now - number * timedelta(hours=1): [0.0, 9_000.0 - 1_000 * number] for number in (3, 4, 5)})
    assert (await refresh(plant))["produced_kwh"] == 0.0

    app = App(connector=InMemoryConnector())
    add_telemetry_jobs(app, plant.database, settings_at(home))
    await app.tasks["telemetry.roll_up"](timestamp=0)
    assert (await row_of(plant.database, plant.id))["produced_kwh"] == pytest.approx(2.0)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
async def test_the_day_is_that_of_the_organisation(plant: RecordedPlant, zone: str) -> None:
    async with plant.database.transaction() as db:
        await db.execute("UPDATE organization SET time_zone = %s WHERE id = %s", (zone, plant.organization_id))
    now = utc_now()
    await plant.write("PV1", PV, {now: [4_000.0, 7e6]})
    assert (await refresh(plant))["energy_day"] == now.astimezone(ZoneInfo(zone)).date()


async def test_a_state_of_the_previous_release_continues(plant: RecordedPlant) -> None:
    now = utc_now()
    await plant.write("PV1", PV, {now - 2 * SECOND: [3_000.0, 7e6]})
    await refresh(plant)
    async with plant.database.transaction() as db:
        await db.execute("UPDATE plant_power SET energy_state = energy_state - 'time_zone' - 'hours'")
    await plant.write("PV1", PV, {now: [3_000.0, 7.5e6]})
    row = await refresh(plant)
    assert (row["energy_day"], row["produced_kwh"]) == (now.date(), 500.0)
