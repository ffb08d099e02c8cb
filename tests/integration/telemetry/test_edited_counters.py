"""Energy of counters whose scale, offset, field or unit is edited: the first value after the edit only sets the level."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from gridfleet.domains.device_templates.decoder import Metric, SignalMap, own_metric
from gridfleet.domains.device_templates.models import Signal, SignalKind, SignalRole
from gridfleet.domains.telemetry.energy.hours import energies_of_hours
from gridfleet.domains.telemetry.energy.metering import metered_energy
from gridfleet.domains.telemetry.energy.models import DirtyHour
from gridfleet.domains.telemetry.energy.today import energy_of_day
from gridfleet.domains.telemetry.frames.lookup import used_layouts
from gridfleet.domains.telemetry.power.refresh import refresh_power
from gridfleet.domains.telemetry.roles import role_metrics
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from support.builders.signal_roles import add_template, set_template
from support.builders.telemetry_records import RecordedPlant

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
MIDNIGHT = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
EDIT = MIDNIGHT + 10 * HOUR + 30 * MINUTE

TOTAL: dict[str, Any] = {"key": "energy_produced", "field": "total", "unit": "kWh", "kind": SignalKind.COUNTER}
POWER = Signal(key="active_power", field="power", unit="kW")
CORRECTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"unit": "Wh"}, {}),
    ({}, {"unit": "Wh"}),
    ({"scale": 0.1}, {"scale": 1.0}),
    ({}, {"scale": 0.1}),
    ({}, {"offset": 7_000.0}),
    ({"field": "other"}, {}),
    ({"unit": "Wh", "scale": 0.1}, {"scale": 0.1}),
]


@pytest.fixture
async def plant(database: Database) -> RecordedPlant:
    plant = await RecordedPlant.create(database)
    for external_id in ("PV1", "M1"):
        await plant.add_device(external_id)
    return plant


async def send(plant: RecordedPlant, device: str, signal: Mapping[str, Any], totals: Mapping[datetime, float]) -> None:
    """Store what a device sends with a template that has this signal: its counter `total`, and another one."""
    signals = SignalMap([POWER, Signal(**{**TOTAL, **signal})])
    frames = {time: signals.decode({"total": total, "other": total / 7}) for time, total in totals.items()}
    await plant.write(device, signals.metrics, {time: values for time, values in frames.items() if values is not None})


def rising(start: datetime, minutes: int, first: float = 12_345.0) -> dict[datetime, float]:
    """Return a total of 0.1 kWh more each ten minutes."""
    return {start + number * MINUTE: first + number / 100 for number in range(0, minutes, 10)}


async def of_hours(plant: RecordedPlant, *numbers: int) -> list[float]:
    """Return what was produced in these hours of the day, computed together."""
    async with plant.database.transaction() as db:
        hours = [DirtyHour(plant.id, MIDNIGHT + number * HOUR) for number in numbers]
        found = await energies_of_hours(db, await role_metrics(db, [plant.id]), hours)
    return [sum(value or 0 for value in found[hour].energies[:4]) / 1e6 for hour in hours]


async def of_day(plant: RecordedPlant) -> float:
    async with plant.database.transaction() as db:
        return (await energy_of_day(db, plant.org, plant.id, MIDNIGHT)).produced


async def check_hours(plant: RecordedPlant, most: float) -> float:
    """Check that hours have the same energy computed alone and together, and as the day. Returns the sum."""
    together = await of_hours(plant, *range(24))
    assert [(await of_hours(plant, number))[0] for number in range(24)] == together
    assert sum(together) == pytest.approx(await of_day(plant), abs=1e-3)
    assert max(together) <= most
    return sum(together)


@pytest.mark.parametrize(("before", "after"), CORRECTIONS)
async def test_a_correction_adds_no_energy(plant: RecordedPlant, before: dict[str, Any], after: dict[str, Any]) -> None:
    await send(plant, "PV1", before, rising(MIDNIGHT, 630))
    await send(plant, "PV1", after, rising(EDIT, 600))
    assert await check_hours(plant, 0.61) < 13.0


async def test_the_first_value_after_a_correction_sets_the_level(plant: RecordedPlant) -> None:
    await send(plant, "PV1", {"scale": 0.1}, {EDIT - 20 * MINUTE: 50.0, EDIT - 10 * MINUTE: 60.0})
    await send(plant, "PV1", {}, {EDIT: 70.0, EDIT + 10 * MINUTE: 80.0, EDIT + 40 * MINUTE: 85.0})
    assert await check_hours(plant, 11.0) == pytest.approx(1 + 10 + 5)
    # Late values, one of them of the template before.
    await send(plant, "PV1", {}, {EDIT + 5 * MINUTE: 77.0})
    await send(plant, "PV1", {"scale": 0.1}, {EDIT - 5 * MINUTE: 65.0})
    assert await check_hours(plant, 11.5) == pytest.approx(1.5 + 10 + 5)


async def test_zeros_after_a_correction_set_no_level(plant: RecordedPlant) -> None:
    """A device that is switched off for the night while its template is edited."""
    await send(plant, "PV1", {"unit": "Wh"}, {**rising(MIDNIGHT, 120), **dict.fromkeys(rising(MIDNIGHT + 2 * HOUR, 240), 0.0)})
    await send(plant, "PV1", {}, dict.fromkeys(rising(MIDNIGHT + 6 * HOUR, 240), 0.0))
    await send(plant, "PV1", {}, rising(MIDNIGHT + 10 * HOUR, 120))
    assert await check_hours(plant, 0.61) == pytest.approx(0.0011 + 1.1)


async def test_edits_that_change_no_value_lose_nothing(plant: RecordedPlant) -> None:
    """Limits, a role, a name, other signals; and a unit with the scale that belongs to it."""
    edits: list[dict[str, Any]] = [
        {},
        {"max": 1e9},
        {"label": "Total", "scale": 1.0, "offset": 0.0},
        {"unit": "Wh", "scale": 1_000.0},
        {"unit": "MWh", "scale": 0.001},
    ]
    for number, edit in enumerate(edits):
        start = MIDNIGHT + number * 2 * HOUR
        await send(plant, "PV1", edit, {time: 12_345 + (time - MIDNIGHT) / HOUR for time in rising(start, 120)})
    assert await check_hours(plant, 1.01) == pytest.approx(10 - 1 / 6)


async def test_a_device_that_counts_in_the_new_unit_continues(plant: RecordedPlant) -> None:
    await send(plant, "PV1", {"unit": "Wh"}, {EDIT - 20 * MINUTE: 5_000_000.0, EDIT - 10 * MINUTE: 5_000_500.0})
    await send(plant, "PV1", {}, {EDIT: 5_000.6, EDIT + 10 * MINUTE: 5_001.0})
    await send(plant, "PV1", {"unit": "Wh"}, {EDIT + 20 * MINUTE: 5_001_200.0})
    assert await check_hours(plant, 1.21) == pytest.approx(1.2)


UNITLESS: dict[str, Any] = {"unit": UNSET, "kind": SignalKind.GAUGE}


@pytest.mark.parametrize("signal", [{}, UNITLESS])
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_key_with_and_without_a_template_has_the_devices_own_scale_without(
    plant: RecordedPlant, signal: dict[str, Any], is_first: bool
) -> None:
    scaled = SignalMap([Signal(**{**TOTAL, **signal, "scale": 0.001, "field": "energy_produced"})]).metrics
    sent: list[tuple[Sequence[Metric], list[float]]] = [
        (scaled, [12_345.0, 12_346.0]),
        ([own_metric("energy_produced")], [12_347_000.0, 12_347_001.0]),
    ]
    for number, (metrics, (first, second)) in enumerate(sent if is_first else sent[::-1]):
        start = EDIT + (10 * number - 20) * MINUTE
        await plant.write("PV1", metrics, {start: [first], start + MINUTE: [second]})
    assert await check_hours(plant, 3.0) == pytest.approx(2.0)
    async with plant.database.transaction() as db:
        [own] = (await used_layouts(db, [source := await plant.source("PV1")]))[source]
    assert own.id == await plant.layout(sent[1][0]), "the names that the device sends without a template keep their layout"


@pytest.mark.parametrize(("before", "after"), CORRECTIONS)
async def test_meters_count_no_correction(plant: RecordedPlant, before: dict[str, Any], after: dict[str, Any]) -> None:
    async with plant.database.transaction() as db:
        await db.execute("UPDATE sub_device SET type = 'METER' WHERE plant_id = %s AND external_id = 'M1'", (plant.id,))
    imported = {"key": "energy_imported"}
    await send(plant, "M1", {**imported, **before}, rising(MIDNIGHT, 630))
    await send(plant, "M1", {**imported, **after}, rising(EDIT, 4_000))
    for width in (10, 15, 30, 60):
        async with plant.database.transaction() as db:
            found = metered_energy(db, plant.org, plant.id, MIDNIGHT, MIDNIGHT + 48 * HOUR, width * MINUTE)
            energies = [one.energy async for one in found]
        assert max(energies) <= 0.01 * width + 1e-6
        assert sum(energies) > 3.0 * min(1.0, after.get("scale", 1.0)) * (0.001 if after.get("unit") == "Wh" else 1)


@pytest.mark.parametrize(("before", "after"), CORRECTIONS)
async def test_the_count_of_the_day_adds_no_correction(
    plant: RecordedPlant, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """From one newest value to the next, also while the device reads zero after the edit."""
    now = utc_now().replace(microsecond=0)
    zeros = [] if "offset" in after else [(after, 0.0), (after, 0.0)]
    sent = [(before, 12_345.0), (before, 12_345.1), *zeros, (after, 12_345.2), (after, 12_345.3)]
    produced = []
    for number, (signal, total) in enumerate(sent):
        await send(plant, "PV1", signal, {now + timedelta(seconds=number): total})
        async with plant.database.transaction() as db:
            await refresh_power(db, [plant.id])
            cursor = await db.execute("SELECT produced_kwh FROM plant_power WHERE plant_id = %s", (plant.id,))
            produced += [row[0] for row in await cursor.fetchall()]
    assert max(produced) < 0.21
    assert produced[-1] > produced[-2]


GAUGE: dict[str, Any] = {"key": "total", "kind": SignalKind.GAUGE}
ROLE: dict[str, Any] = {**GAUGE, "role": SignalRole.ENERGY_PRODUCED}


@pytest.mark.parametrize("unit", ["kWh", UNSET, "kwh"])
async def test_an_edit_before_a_signal_is_a_counter_adds_no_energy(plant: RecordedPlant, unit: str | UnsetType) -> None:
    """Its scale is corrected before it gets its role, and with the same edit, which also corrects the unit if it has to."""
    await set_template(plant, "PV1", await add_template(plant.database, total="energy_produced"))
    edits = [{**GAUGE, "scale": 0.001}, {**GAUGE, "scale": 0.1}, ROLE]
    for number, edit in enumerate(edits):
        start = MIDNIGHT + (4 + 4 * number) * HOUR
        is_corrected = unit == "kwh" and edit is ROLE
        await send(plant, "PV1", {**edit, "unit": "kWh" if is_corrected else unit}, rising(start, 200 if number < 2 else 600))
    # A gauge with another unit was no counter.
    before = 0 if unit == "kwh" else 19 * (0.0001 + 0.01)
    assert await check_hours(plant, 0.61) == pytest.approx(before + 59 * 0.1)


async def test_the_night_after_an_edit_that_made_a_signal_a_counter(plant: RecordedPlant) -> None:
    """The energy of the day failed each day at which the device was silent around midnight."""
    await set_template(plant, "PV1", await add_template(plant.database, total="energy_produced"))
    await send(plant, "PV1", {**GAUGE, "unit": "kwh"}, rising(MIDNIGHT - 20 * HOUR, 60))
    await send(plant, "PV1", {**ROLE, "unit": "kWh"}, rising(MIDNIGHT - 10 * HOUR, 60))
    await send(plant, "PV1", {**ROLE, "unit": "kWh"}, rising(MIDNIGHT + 6 * HOUR, 60, 12_345.5))
    assert await check_hours(plant, 0.51) == pytest.approx(0.5)


async def test_a_role_alone_changes_nothing_of_what_a_signal_counts(plant: RecordedPlant) -> None:
    await set_template(plant, "PV1", await add_template(plant.database, total="energy_produced"))
    layouts = set()
    for number, signal in enumerate((GAUGE, ROLE)):
        await send(plant, "PV1", signal, rising(MIDNIGHT + number * 10 * HOUR, 600, 12_345.0 + 6 * number))
        layouts.add(await plant.layout(SignalMap([POWER, Signal(**{**TOTAL, **signal})]).metrics))
    assert await check_hours(plant, 0.61) == pytest.approx(11.9)
    assert len(layouts) == 1


async def test_the_count_of_the_day_adds_no_edit_of_before_a_signal_is_a_counter(plant: RecordedPlant) -> None:
    await set_template(plant, "PV1", await add_template(plant.database, total="energy_produced"))
    now = utc_now().replace(microsecond=0)
    sent = [({**GAUGE, "scale": 0.1}, 12_345.0), (GAUGE, 12_345.1), (ROLE, 12_345.2), (ROLE, 12_345.4)]
    for number, (signal, total) in enumerate(sent):
        await send(plant, "PV1", signal, {now + timedelta(seconds=number): total})
        async with plant.database.transaction() as db:
            await refresh_power(db, [plant.id])
    async with plant.database.transaction() as db:
        cursor = await db.execute("SELECT produced_kwh FROM plant_power WHERE plant_id = %s", (plant.id,))
        assert await cursor.fetchone() == (pytest.approx(0.3),)


async def test_own_names_of_before_the_upgrade_get_their_scaling(plant: RecordedPlant) -> None:
    """Otherwise the layout would get that of a template with the same names and no unit."""
    own = [own_metric("energy_produced")]
    await plant.write("PV1", own, {EDIT - MINUTE: [12_347_000.0]})
    old, source = await plant.layout(own), await plant.source("PV1")
    async with plant.database.transaction() as db:
        await db.execute("UPDATE telemetry_layout SET scalings = NULL WHERE id = %s", (old,))
    async with plant.database.transaction() as db:
        assert [one.id for one in (await used_layouts(db, [source]))[source]] == [old]
    scaled = SignalMap([Signal(**{**TOTAL, **UNITLESS, "scale": 0.001, "field": "energy_produced"})]).metrics
    assert await plant.layout(scaled) != old == await plant.layout(own)


async def test_layouts_of_before_the_upgrade_are_used_further(plant: RecordedPlant) -> None:
    """Their first template after the upgrade takes them. Otherwise each device would get a second row of newest values."""
    signals = SignalMap([POWER, Signal(**TOTAL, scale=0.1)])
    old = await plant.layout([*signals.metrics])
    async with plant.database.transaction() as db:
        await db.execute("UPDATE telemetry_layout SET scalings = NULL WHERE id = %s", (old,))
    assert await plant.layout(signals.metrics) == old
    assert await plant.layout(signals.metrics) == old
    edited = SignalMap([POWER, Signal(**TOTAL, scale=0.2)]).metrics
    assert await plant.layout(edited) == await plant.layout(edited) != old


async def test_layouts_with_some_scalings_get_the_others(plant: RecordedPlant) -> None:
    """Earlier releases stored those of counters only."""
    signals = [
        Signal(**TOTAL, scale=0.1),
        Signal(key="today", field="today", unit="kWh", scale=0.1),
        Signal(key="state", field="s"),
    ]
    old = await plant.layout(SignalMap(signals).metrics)
    async with plant.database.transaction() as db:
        await db.execute("UPDATE telemetry_layout SET scalings[2:3] = ARRAY[NULL, NULL]::text[] WHERE id = %s", (old,))
    assert await plant.layout(SignalMap(signals).metrics) == old
    signals[1] = Signal(key="today", field="today", unit="kWh", scale=0.2)
    assert await plant.layout(SignalMap(signals).metrics) != old


async def test_templates_that_use_an_old_layout_at_once_get_one_each(plant: RecordedPlant) -> None:
    old = await plant.layout([*SignalMap([Signal(**TOTAL, max=7.0)]).metrics])
    async with plant.database.transaction() as db:
        await db.execute("UPDATE telemetry_layout SET scalings = NULL WHERE id = %s", (old,))
    every = [SignalMap([Signal(**TOTAL, max=7.0, scale=float(number))]).metrics for number in range(1, 9)]
    found = await asyncio.gather(*(plant.layout(metrics) for metrics in every))
    assert old in found
    assert len(set(found)) == len(every)
    assert [await plant.layout(metrics) for metrics in every] == found
