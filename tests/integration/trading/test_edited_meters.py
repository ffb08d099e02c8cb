"""Meter rows of a meter whose template gains or loses a counter."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from support.builders.telemetry_records import RecordedPlant, work
from support.clients.plants_over_http import Fleet

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
BOTH = [Metric(f"energy_{way}", "kWh", counter=True, scaling=f"{way} 1.0 0.0") for way in ("imported", "exported")]
IMPORTED = BOTH[:1]
EDIT = 30
"""Minutes after `START` at which the template is edited."""


def signals(metrics: list[Metric]) -> list[dict[str, Any]]:
    return [{"key": one.key, "field": one.key.removeprefix("energy_"), "unit": one.unit, "kind": "counter"} for one in metrics]


async def metered(fleet: Fleet, metrics: list[Metric]) -> tuple[RecordedPlant, str]:
    """Return a plant with a meter, and the id of the meter's template, which declares these metrics."""
    plant = await fleet.plant()
    body: dict[str, Any] = {"name": str(plant["id"]), "type": "METER", "signals": signals(metrics), "actions": []}
    status, template = await fleet.call("POST", "/device-templates", body, headers=fleet.super_admin)
    assert status == 201, template
    meter = {"externalId": "GRID", "name": "GRID", "type": "METER", "templateId": template["id"]}
    assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", meter))[0] == 201
    recorded = RecordedPlant(fleet.service.state.database, UUID(plant["organizationId"]), UUID(plant["id"]))
    return recorded, template["id"]


async def edited(fleet: Fleet, before: list[Metric], after: list[Metric]) -> RecordedPlant:
    """Return a plant with a meter that imports 0.5 kWh and exports 0.25 kWh a minute, as far as its template declares it."""
    recorded, template_id = await metered(fleet, before)
    for metrics, minutes in ((before, range(-5, EDIT)), (after, range(EDIT, 71))):
        readings = {START + timedelta(minutes=n): (100 + n * 0.5, 40 + n * 0.25)[: len(metrics)] for n in minutes}
        await recorded.write("GRID", metrics, readings)
    change = {"signals": signals(after)}
    assert (await fleet.call("PATCH", f"/device-templates/{template_id}", change, headers=fleet.super_admin))[0] == 200
    return recorded


async def energies(fleet: Fleet, plant: RecordedPlant, hour: int = 10) -> dict[str, float]:
    path = f"/trading/plants/{plant.id}/meters?from=2026-11-20T{hour:02}:00:00Z&to=2026-11-20T{hour + 1:02}:00:00Z"
    return {row["time"][14:16]: row["energy"] for row in (await fleet.call("GET", path))[1]}


async def test_a_counter_that_the_template_no_longer_declares_hides_no_later_row(fleet: Fleet) -> None:
    plant = await edited(fleet, BOTH, IMPORTED)
    net = {f"{minute:02d}": 1.25 for minute in range(0, EDIT - 5, 5)}
    assert await energies(fleet, plant) == net | {f"{minute}": 2.5 for minute in range(EDIT, 60, 5)}


async def test_a_counter_that_the_template_did_not_declare_yet_hides_no_earlier_row(fleet: Fleet) -> None:
    plant = await edited(fleet, IMPORTED, BOTH)
    earlier = {START - timedelta(minutes=n): (100 - n * 0.5,) for n in range(5, 65)}
    await plant.write("GRID", IMPORTED, earlier)
    await work(plant.database)
    assert await energies(fleet, plant, 9) == {f"{minute:02d}": 2.5 for minute in range(0, 60, 5)}
    assert (await energies(fleet, plant))["30"] == pytest.approx(1.25)


async def test_a_counter_that_the_meter_did_not_send_yet_hides_no_earlier_row(fleet: Fleet) -> None:
    """Its template has always declared both; it imported for hours before it first exported."""
    plant, _ = await metered(fleet, BOTH)
    only_imported = {f"{minute:02d}": 2.5 for minute in range(0, 60, 5)}
    await plant.write("GRID", BOTH, {START + timedelta(minutes=n): (100 + n * 0.5, None) for n in range(-125, 0)})
    await work(plant.database)

    await plant.write("GRID", BOTH, {START + timedelta(minutes=n): (100 + n * 0.5, 40 + n * 0.25) for n in range(71)})
    assert await energies(fleet, plant, 8) == await energies(fleet, plant, 9) == only_imported
    await work(plant.database)
    assert await energies(fleet, plant, 8) == await energies(fleet, plant, 9) == only_imported
    assert await energies(fleet, plant) == {f"{minute:02d}": 1.25 for minute in range(0, 60, 5)}

    # This late reading waits for its roll-up.
    await plant.write("GRID", BOTH, {START - timedelta(minutes=90, seconds=30): (54.75, None)})
    assert await energies(fleet, plant, 9) == only_imported
