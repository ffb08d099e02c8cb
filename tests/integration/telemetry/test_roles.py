"""Metrics of plants by their role, and the sources that measure their energy."""

import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.models import TemplateLevel
from gridfleet.domains.telemetry.roles import energy_meters, role_metrics
from gridfleet.kernel.db import Database
from support.builders.signal_roles import add_template, set_template
from support.builders.telemetry_records import RecordedPlant

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
POWER_AND_ENERGY = [Metric("active_power", "kW"), Metric("energy_produced", "kWh", counter=True)]
GRID = [Metric("active_power", "kW"), Metric("energy_imported", "kWh", True), Metric("energy_exported", "kWh", True)]


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    return await RecordedPlant.create(database)


async def found(plant: RecordedPlant) -> set[tuple[str | None, str, str]]:
    async with plant.database.transaction() as db:
        metrics = (await role_metrics(db, [plant.id])).get(plant.id, [])
    return {(one.source.external_id, one.key, str(one.role)) for one in metrics}


async def meters(plant: RecordedPlant) -> list[Any]:
    async with plant.database.transaction() as db:
        metrics = (await role_metrics(db, [plant.id])).get(plant.id, [])
    return sorted((str(one.energy), one.source.external_id, one.counters, one.powers) for one in energy_meters(metrics))


async def test_without_roles_the_standard_keys_of_pv_and_grid_count(plant: RecordedPlant) -> None:
    for external_id in ("PV1", "GRID", "BAT1"):
        await plant.add_device(external_id)
        await plant.write(external_id, [*GRID, Metric("energy_produced", "kWh", True), "soc"], {NOW: [1.0, 2.0, 3.0, 4.0, 5.0]})
    await plant.write(None, ["active_power", "soc"], {NOW: [1.0, 50.0]})

    assert await found(plant) == {
        ("PV1", "active_power", "pv_power"),
        ("PV1", "energy_produced", "energy_produced"),
        ("GRID", "active_power", "grid_power"),
        ("GRID", "energy_imported", "energy_imported"),
        ("GRID", "energy_exported", "energy_exported"),
    }


async def test_declared_roles_replace_the_standard_keys_also_of_earlier_values(plant: RecordedPlant) -> None:
    await plant.add_device("PV1")
    await plant.write("PV1", [*POWER_AND_ENERGY, "p"], {NOW: [1.0, 2.0, 3.0]})
    await set_template(plant, "PV1", await add_template(plant.database, p="battery_power", never="soc"))

    assert await found(plant) == {("PV1", "p", "battery_power")}


async def test_a_template_without_roles_leaves_the_standard_keys(plant: RecordedPlant) -> None:
    await plant.add_device("PV1")
    await plant.write("PV1", POWER_AND_ENERGY, {NOW: [1.0, None]})
    await set_template(plant, "PV1", await add_template(plant.database))

    assert await found(plant) == {("PV1", "active_power", "pv_power")}


async def test_a_deleted_device_has_the_roles_of_its_successor(plant: RecordedPlant) -> None:
    await plant.add_device("X")
    await plant.write("X", ["p"], {NOW: [1.0]})
    await plant.delete_device("X")
    assert await found(plant) == set()
    await plant.add_device("X")
    await set_template(plant, "X", await add_template(plant.database, p="load_power"))

    assert await found(plant) == {("X", "p", "load_power")}


async def test_only_grid_measures_the_grid_beside_other_meters(plant: RecordedPlant) -> None:
    template = await add_template(plant.database, active_power="grid_power", energy_imported="energy_imported")
    for external_id in ("HEATPUMP", "GRID"):
        await plant.add_device(external_id)
        await set_template(plant, external_id, template)
        await plant.write(external_id, GRID, {NOW: [1.0, 2.0, None]})

    assert await meters(plant) == [
        ("exported", "GRID", (), ("active_power",)),
        ("imported", "GRID", ("energy_imported",), ("active_power",)),
    ]


async def test_the_plants_own_power_counts_unless_devices_have_counters(plant: RecordedPlant) -> None:
    own = await add_template(plant.database, TemplateLevel.PLANT, pv="pv_power", bat="battery_power")
    await set_template(plant, None, own)
    await plant.write(None, ["pv", "bat"], {NOW: [1.0, 2.0]})
    await plant.add_device("PV1")
    await plant.write("PV1", POWER_AND_ENERGY, {NOW: [1.0, 2.0]})
    await plant.add_device("BAT1")
    await set_template(plant, "BAT1", await add_template(plant.database, p="battery_power"))
    await plant.write("BAT1", ["p"], {NOW: [1.0]})

    assert await meters(plant) == [
        ("charged", None, (), ("bat",)),
        ("discharged", None, (), ("bat",)),
        ("produced", "PV1", ("energy_produced",), ("active_power",)),
    ]


async def test_what_is_held_does_not_grow_with_the_names_of_other_metrics(database: Database) -> None:
    """A plant may have 100,000 names, and the energies of 50 plants are computed at once."""
    held = []
    for others in (0, 198):
        plant = await RecordedPlant.create(database)
        for number in range(50):
            await plant.add_device(f"PV{number}")
            names = [Metric(f"own-{number}-{other}", "") for other in range(others)]
            await plant.write(f"PV{number}", [*POWER_AND_ENERGY, *names], {NOW: [1.0] * (2 + others)})
        async with database.transaction() as db:
            await role_metrics(db, [])
            tracemalloc.start()
            try:
                metrics = (await role_metrics(db, [plant.id]))[plant.id]
                held.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        assert len(metrics) == 100
    assert held[1] < 2 * held[0]
