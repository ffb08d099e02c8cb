"""Energy over time: kept energies of plants and fleets, compared with the frames and with each other."""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import chain, pairwise
from math import inf
from time import monotonic
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from gridfleet.domains.device_templates.catalogue import create_template, update_template
from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.device_templates.models import DeviceType, Signal, SignalRole, TemplateChanges, TemplateLevel
from gridfleet.domains.plants import lifecycle, registry
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.sub_devices.models import SubDeviceChanges
from gridfleet.domains.plants.sub_devices.registry import delete_sub_device, update_sub_device
from gridfleet.domains.telemetry.energy import hours, readings, recomputation, series
from gridfleet.domains.telemetry.energy import store as energy_store
from gridfleet.domains.telemetry.energy.models import DirtyHour, EnergyOverTime
from gridfleet.domains.telemetry.energy.periods import EnergyBucket
from gridfleet.domains.telemetry.energy.recomputation import keep_energy
from gridfleet.domains.telemetry.energy.series import EnergyQuery, energy_of_fleet, energy_of_plant
from gridfleet.domains.telemetry.energy.today import energy_of_day
from gridfleet.domains.telemetry.roles import role_metrics
from gridfleet.domains.telemetry.rollups.recomputation import close_hour, roll_up
from gridfleet.domains.telemetry.units import in_kilo
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import ValidationFailed
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.signal_roles import SYSTEM, add_template, set_template
from support.builders.telemetry_records import RecordedPlant, add_plant, member, work

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
TODAY = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MIDNIGHT = TODAY - timedelta(days=2)
"""The beginning of a day whose hours are closed."""
PRODUCED = [Metric("active_power", "kW"), Metric("energy_produced", "kWh", counter=True)]
METERED = [Metric("energy_imported", "kWh", counter=True), Metric("energy_exported", "kWh", counter=True)]
LIMITED = [Metric("active_power", "W", minimum=0.0, maximum=4e3), Metric("energy_produced", "Wh", True, 100.0, 1e9)]
NAMES = ("produced", "imported", "exported", "charged", "discharged")


async def add_site(database: Database, organization_id: UUID | None = None) -> RecordedPlant:
    """Return a plant with PV and a meter at the grid."""
    if organization_id is None:
        plant = await RecordedPlant.create(database)
    else:
        plant = RecordedPlant(database, organization_id, await add_plant(database, organization_id))
    for external_id in ("PV1", "GRID"):
        await plant.add_device(external_id)
    return plant


@pytest.fixture
async def site(database: Database) -> RecordedPlant:
    return await add_site(database)


def range_of(bucket: EnergyBucket, days: int = 1, zone: str = "UTC", start: datetime = MIDNIGHT) -> EnergyQuery:
    return EnergyQuery(start, start + timedelta(days=days), bucket, zone)


async def of_plant(plant: RecordedPlant, query: EnergyQuery) -> EnergyOverTime:
    async with plant.database.transaction() as db:
        return await energy_of_plant(db, plant.org, plant.id, query, utc_now())


async def of_fleet(database: Database, org: OrgScope, query: EnergyQuery) -> EnergyOverTime:
    async with database.transaction() as db:
        return await energy_of_fleet(db, org, query, "UTC")


def column(found: EnergyOverTime, name: str) -> list[Any]:
    return [getattr(bucket, name) for bucket in found.buckets]


async def counted(plant: RecordedPlant, readings: dict[datetime, float], device: str = "PV1") -> None:
    """Write readings of the counter of production."""
    await plant.write(device, PRODUCED, {time: [None, value] for time, value in readings.items()})


def administrator(organization_id: UUID) -> OrgScope:
    admin = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    return OrgScope(organization_id, OrgRole.ORG_ADMIN, admin)


async def move(plant: RecordedPlant, organization_id: UUID) -> None:
    async with plant.database.transaction() as db:
        changes = PlantChanges(organization_id=organization_id)
        await registry.update_plant(db, administrator(plant.organization_id), plant.id, changes)


async def check_totals(database: Database, *organizations: UUID) -> None:
    """Check that the totals of each organisation are the sums of its plants, hour by hour."""
    async with database.transaction() as db:
        for organization_id in organizations:
            cursor = await db.execute(
                "SELECT e.hour, e.energies FROM plant_energy e JOIN plant p ON p.id = e.plant_id WHERE p.organization_id = %s",
                (organization_id,),
            )
            sums: dict[datetime, list[int]] = {}
            for hour, energies in await cursor.fetchall():
                kinds = [[value or 0 for value in energies[n : n + 4]] for n in range(0, 20, 4)]
                produced, _, _, charged, discharged = kinds
                own = [p + d - c for p, d, c in zip(produced, discharged, charged, strict=True)]
                is_metered = any(value is not None for value in energies[4:12])
                metered = [*own, *produced] if is_metered else [0] * 8
                values = [*chain.from_iterable(kinds), *metered]
                sums[hour] = [a + b for a, b in zip(sums.get(hour, [0] * 28), values, strict=True)]
            cursor = await db.execute("SELECT hour, energies FROM fleet_energy WHERE organization_id = %s", (organization_id,))
            totals = {hour: [value or 0 for value in values] for hour, values in await cursor.fetchall()}
            assert {hour: values for hour, values in totals.items() if any(values)} == {
                hour: values for hour, values in sums.items() if any(values)
            }


@pytest.mark.parametrize("is_meter_first", [False, True])
async def test_readings_are_in_order_whatever_the_plan(database: Database, is_meter_first: bool) -> None:
    """PostgreSQL may group the readings of several counters by sorting, which changed their order within a counter."""
    plant = await add_site(database)
    times = [MIDNIGHT + number * 4 * MINUTE for number in range(45)]
    for is_meter in (is_meter_first, not is_meter_first):
        if is_meter:
            await plant.write("GRID", METERED, {time: [200.0 + 2 * number, 5.0] for number, time in enumerate(times)})
        else:
            await counted(plant, {time: 100.0 + number for number, time in enumerate(times)})
    of_night = [DirtyHour(plant.id, MIDNIGHT + hour * HOUR) for hour in range(3)]
    async with database.transaction() as db:
        await db.execute("SELECT set_config(name, 'off', true) FROM unnest('{enable_nestloop,enable_hashagg}'::text[]) AS name")
        found = await hours.energies_of_hours(db, await role_metrics(db, [plant.id]), of_night)
    assert not any(kept.falls for kept in found.values())
    energies = [kept.energies for kept in found.values()]
    assert sum(value or 0 for one in energies for value in one[:4]) == 44_000_000
    assert sum(value or 0 for one in energies for value in one[4:8]) == 88_000_000


async def test_a_day_has_the_energy_of_the_day(site: RecordedPlant) -> None:
    """With resets, dips and gaps, and with the same rules."""
    readings = {
        -50: 90.0,
        -5: 100.0,
        10: 101.0,
        59: 104.0,
        61: 0.5,
        80: 1.5,
        130: 1.2,
        190: 1.4,
        200: 3.0,
        700: 9.0,
        720: 8.0,
        1400: 11.0,
    }
    await counted(site, {MIDNIGHT + minute * MINUTE: value for minute, value in readings.items()})
    powers = {MIDNIGHT + n * 10 * MINUTE: [5.0 - n % 20] for n in range(140)}
    await site.write("GRID", ["active_power"], powers)
    async with site.database.transaction() as db:
        day = await energy_of_day(db, site.org, site.id, MIDNIGHT + 20 * HOUR)
    live = await of_plant(site, range_of(EnergyBucket.DAY))

    await work(site.database)

    for bucket in EnergyBucket:
        found = await of_plant(site, range_of(bucket))
        total = found.total
        assert total.produced == pytest.approx(day.produced, abs=2e-3)
        assert total.imported == pytest.approx(day.imported, abs=2e-3)
        assert total.exported == pytest.approx(day.exported, abs=2e-3)
        for name in NAMES:
            known = [value for value in column(found, name) if value is not None]
            assert (sum(known) if known else None) == (
                None if (whole := getattr(total, name)) is None else pytest.approx(whole, abs=1e-9)
            )
    assert live.total.produced is None, "hours of earlier days are computed by the job"
    assert (await of_fleet(site.database, site.org, range_of(EnergyBucket.DAY))).total == found.total


async def test_open_hours_count_at_once(site: RecordedPlant) -> None:
    now = utc_now()
    start = now - 90 * MINUTE
    await counted(site, {start + n * 10 * MINUTE: 10.0 + n for n in range(10)})
    query = EnergyQuery(now - timedelta(days=1), now + HOUR, EnergyBucket.DAY, "UTC")
    assert (await of_plant(site, query)).total.produced == 9
    await work(site.database)
    assert (await of_plant(site, query)).total.produced == 9
    fleet = await of_fleet(site.database, site.org, query)
    assert fleet.as_of <= now
    assert fleet.total.produced is None or fleet.total.produced <= 9


async def test_late_values_fill_their_hours_and_count_once(site: RecordedPlant) -> None:
    """A gap's energy is in the hour in which it ended, until the values of the gap arrive."""
    await counted(site, {MIDNIGHT + 10 * MINUTE: 10.0, MIDNIGHT + 5 * HOUR + MINUTE: 60.0, MIDNIGHT + 8 * HOUR: 70.0})
    await work(site.database)
    hours = await of_plant(site, range_of(EnergyBucket.HOUR))
    assert column(hours, "produced")[:9] == [0, None, None, None, None, 50, None, None, 10]

    await counted(site, {MIDNIGHT + 2 * HOUR + MINUTE: 30.0, MIDNIGHT + 3 * HOUR + MINUTE: 45.0})
    await work(site.database)

    for found in (
        await of_plant(site, range_of(EnergyBucket.HOUR)),
        await of_fleet(site.database, site.org, range_of(EnergyBucket.HOUR)),
    ):
        assert column(found, "produced")[:9] == [0, None, 20, 15, None, 15, None, None, 10]
        assert found.total.produced == 60


async def test_a_reading_at_the_end_of_an_hour_that_the_next_reveals_as_misread(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + 10 * MINUTE: 10.0, MIDNIGHT + 59 * MINUTE: 5_000.0})
    await work(site.database)
    assert (await of_plant(site, range_of(EnergyBucket.DAY))).total.produced == 4_990
    await counted(site, {MIDNIGHT + 100 * MINUTE: 12.0})
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")[:2] == [0, 2]
    await check_totals(site.database, site.organization_id)


async def test_a_counter_that_is_back_after_more_than_a_day_sets_a_new_level(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT - timedelta(days=2): 1.0, MIDNIGHT + HOUR: 100.0, MIDNIGHT + 2 * HOUR: 101.0})
    await work(site.database)
    assert (await of_plant(site, range_of(EnergyBucket.DAY, 3, start=MIDNIGHT - timedelta(days=2)))).total.produced == 1


async def test_power_counts_from_a_day_after_the_last_reading_of_the_counter(site: RecordedPlant) -> None:
    """Whichever hours are computed together: those of a day, or each after its end."""
    last = MIDNIGHT - timedelta(days=1) + HOUR + 30 * MINUTE
    await counted(site, {last: 10.0})
    await site.write("PV1", ["active_power"], {MIDNIGHT + n * 10 * MINUTE: [6.0] for n in range(60)})
    await work(site.database)
    for late in range(2):
        found = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")
        assert found[:9] == [None, None, 6, 6, 6, 6, 6, 6, 6]
        await site.write("PV1", ["active_power"], {MIDNIGHT + 5 * MINUTE + late * HOUR: [6.0]})
        await work(site.database)


async def test_a_device_that_measures_power_every_quarter_of_an_hour_has_energy(site: RecordedPlant) -> None:
    """It is late by some seconds each time. One of its measurements is in the last seconds of an hour."""
    late = timedelta(seconds=10)
    times = [MIDNIGHT + timedelta(seconds=25) + n * (15 * MINUTE + late) for n in range(95)]
    await site.write("PV1", ["active_power"], {time: [6.0] for time in times})
    await work(site.database)
    energy = 6 * ((times[-1] - times[0]) / HOUR)
    assert (await of_plant(site, range_of(EnergyBucket.DAY))).total.produced == pytest.approx(energy, abs=1e-3)
    async with site.database.transaction() as db:
        assert (await energy_of_day(db, site.org, site.id, MIDNIGHT)).produced == pytest.approx(energy, abs=1e-3)


async def test_a_counter_that_is_back_after_more_than_a_day_adds_nothing_before_a_whole_day_is_computed(
    site: RecordedPlant,
) -> None:
    await counted(site, {MIDNIGHT - 2 * HOUR: 10.0, MIDNIGHT + 23 * HOUR + MINUTE: 100.0, MIDNIGHT + 24 * HOUR - MINUTE: 101.0})
    await site.write("GRID", METERED, {MIDNIGHT + n * HOUR: [1.0, 1.0] for n in range(24)})
    await work(site.database)
    assert (await of_plant(site, range_of(EnergyBucket.DAY))).total.produced == 1


async def test_a_counter_that_fell_is_compared_with_its_last_reading_of_the_day_before(site: RecordedPlant) -> None:
    """Also if the hour after the fall is computed alone, and nothing was read in the hour before midnight."""
    await counted(site, {MIDNIGHT - 4 * HOUR: 100.0, MIDNIGHT + 30 * MINUTE: 90.0})
    await work(site.database)
    await counted(site, {MIDNIGHT + 5 * HOUR: 102.0})
    await work(site.database)
    assert (await of_plant(site, range_of(EnergyBucket.DAY))).total.produced == pytest.approx(2)


@pytest.mark.parametrize("at_night", [[], [0.0], [-1.0]])
@pytest.mark.parametrize("misread", [0.0, 5.0, 5_000.0, 30_000.0])
async def test_a_counter_that_was_misread_before_a_night_continues_from_the_reading_before(
    site: RecordedPlant, misread: float, at_night: list[float]
) -> None:
    """Inverters are known to read zero when they switch off, or something else before the zeros of the night."""
    before = [(-9 * HOUR, 9_999.0), (-8 * HOUR, 10_000.0), (-7 * HOUR, misread)]
    before += [(-6.5 * HOUR + n * 20 * MINUTE, value) for value in at_night for n in range(37)]
    await counted(site, {MIDNIGHT + after: value for after, value in before})
    await work(site.database)
    await counted(site, {MIDNIGHT + 6 * HOUR: 10_001.0, MIDNIGHT + 7 * HOUR: 10_003.0})
    await work(site.database)
    found = column(await of_plant(site, range_of(EnergyBucket.HOUR, days=2, start=MIDNIGHT - timedelta(days=1))), "produced")
    produced = {place - 24: value for place, value in enumerate(found) if value}
    assert produced == {-8: 1, 6: 1, 7: 2}, "also of the evening, when it was not known"
    await check_totals(site.database, site.organization_id)
    async with site.database.transaction() as db:
        assert await energy_store.dirty_plants(db) == {}


async def test_a_reading_between_zeros_counts_once(site: RecordedPlant) -> None:
    """A gateway missed the counter once before the night, and when the device woke up."""
    readings = {-10: 9_000.0, -8: 0.0, -7: 9_004.0, 6.1: 0.0, 6.2: 9_005.0, 7: 9_006.0}
    await counted(site, {MIDNIGHT + after * HOUR: value for after, value in readings.items()})
    await work(site.database)
    found = column(await of_plant(site, range_of(EnergyBucket.HOUR, days=2, start=MIDNIGHT - timedelta(days=1))), "produced")
    assert {place - 24: value for place, value in enumerate(found) if value} == {-7: 4, 6: 1, 7: 1}


async def by_the_hour(site: RecordedPlant, start: datetime, hours: int) -> None:
    """Compute the energy of each hour alone."""
    async with site.database.transaction() as db:
        await db.execute("DELETE FROM plant_energy WHERE plant_id = %s", (site.id,))
    for n in range(hours):
        async with site.database.transaction() as db:
            await db.execute("INSERT INTO energy_dirty (plant_id, hour) VALUES (%s, %s)", (site.id, start + n * HOUR))
        await keep_energy(site.database)


async def check_interrupted(site: RecordedPlant, since: int, until: int, produced: int) -> None:
    """Check the energy of a counter that rises by one each ten minutes, but has no value between two hours of the day.

    Args:
        since: The hour without values that comes first, counted from midnight.
        until: The hour of the next value.
        produced: What the return of the values adds.
    """
    await work(site.database)
    day_before = MIDNIGHT - timedelta(days=1)
    together = column(await of_plant(site, range_of(EnergyBucket.HOUR, days=2, start=day_before)), "produced")
    expected = {since - 2: 5, since - 1: 6, until: produced + 5, until + 1: 6}
    assert {n - 24: energy for n, energy in enumerate(together) if energy} == expected
    await check_totals(site.database, site.organization_id)
    await by_the_hour(site, day_before, 48)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR, days=2, start=day_before)), "produced") == together


@pytest.mark.parametrize(
    ("reading", "since", "asleep", "produced"),
    [
        (0.0, -7, 13, 2),
        (0.0, -7, 5, 2),
        (0.0, 3, 5, 2),
        (0.0, -20, 30, 0),
        (-1.0, -7, 13, 2),
        (-2147483648.0, 3, 5, 2),
        (-1.0, -20, 30, 0),
    ],
)
async def test_a_counter_that_reads_nothing_while_its_device_is_switched_off_continues(
    site: RecordedPlant, reading: float, since: int, asleep: int, produced: int
) -> None:
    """For a night it continues from its level. After more than a day, as after any gap of this length, it adds nothing."""
    readings = {MIDNIGHT + since * HOUR - n * 10 * MINUTE: 9_000.0 - n for n in range(1, 13)}
    readings |= {MIDNIGHT + since * HOUR + n * 10 * MINUTE: reading for n in range(asleep * 6)}
    readings |= {MIDNIGHT + (since + asleep) * HOUR + n * 10 * MINUTE: 9_001.0 + n for n in range(12)}
    await counted(site, readings)
    await check_interrupted(site, since, since + asleep, produced)


@pytest.mark.parametrize("reading", [0.0, -1.0])
@pytest.mark.parametrize(("since", "asleep"), [(-7, 13), (3, 5)])
async def test_a_counter_that_loses_its_last_readings_when_its_device_is_switched_off_continues(
    site: RecordedPlant, reading: float, since: int, asleep: int
) -> None:
    """A device that stores its counter now and then comes back slightly below its level."""
    readings = {MIDNIGHT + since * HOUR - n * 10 * MINUTE: 9_000.0 - n for n in range(1, 13)}
    readings |= {MIDNIGHT + since * HOUR + n * 10 * MINUTE: reading for n in range(asleep * 6)}
    readings |= {MIDNIGHT + (since + asleep) * HOUR + n * 10 * MINUTE: 8_980.0 + n for n in range(12)}
    await counted(site, readings)
    await check_interrupted(site, since, since + asleep, 0)


@pytest.mark.parametrize("reading", [4_294_967_295.0, 99.0])
@pytest.mark.parametrize(("since", "without", "produced"), [(-7, 13, 2), (3, 5, 2), (-20, 30, 0)])
async def test_a_counter_continues_after_readings_outside_its_limits(
    site: RecordedPlant, reading: float, since: int, without: int, produced: int
) -> None:
    """For up to a day, as after zeros."""
    readings = {MIDNIGHT + since * HOUR - n * 10 * MINUTE: 9e6 - n * 1e3 for n in range(1, 13)}
    readings |= {MIDNIGHT + since * HOUR + n * 10 * MINUTE: reading for n in range(without * 6)}
    readings |= {MIDNIGHT + (since + without) * HOUR + n * 10 * MINUTE: 9.001e6 + n * 1e3 for n in range(12)}
    await site.write("PV1", LIMITED, {time: [None, value] for time, value in readings.items()})
    await check_interrupted(site, since, since + without, produced)


@pytest.mark.parametrize("misread", [1.0, 88_888.0])
@pytest.mark.parametrize("minutes", [50, 60, 70, 120])
async def test_a_misread_value_of_a_counter_that_jitters_adds_nothing(
    site: RecordedPlant, misread: float, minutes: int
) -> None:
    """The readings around it are slightly below the level; each hour gives the same when it is computed alone."""
    readings = {MIDNIGHT + n * 10 * MINUTE: 9_000.0 - 0.01 * (n % 2) for n in range(36)}
    await counted(site, readings | {MIDNIGHT + minutes * MINUTE: misread})
    await work(site.database)
    together = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")
    assert sum(filter(None, together)) == 0
    await by_the_hour(site, MIDNIGHT, 24)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced") == together


async def test_powers_outside_their_limits_are_integrated(site: RecordedPlant) -> None:
    await site.write("PV1", LIMITED, {MIDNIGHT + n * 10 * MINUTE: [6_000.0, None] for n in range(7)})
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.DAY)), "produced") == [6.0]


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_device_that_is_registered_again_while_it_is_switched_off_continues(site: RecordedPlant, is_new: bool) -> None:
    """Its source is new, but that of the former sub-device with its external id had values before the zeros."""
    if not is_new:
        before = {MIDNIGHT - n * 10 * MINUTE: 9_000.0 - n for n in range(1, 13)}
        await counted(site, {**before, MIDNIGHT - 5 * MINUTE: 0.0})
        await site.delete_device("PV1")
        await site.add_device("PV1")
    await counted(site, {MIDNIGHT + n * 10 * MINUTE: 0.0 for n in range(1, 36)})
    await counted(site, {MIDNIGHT + 6 * HOUR: 9_001.0, MIDNIGHT + 7 * HOUR: 9_003.0})
    assert sum(energy or 0 for energy in await produced_by_hour(site)) == (9_003 if is_new else 2)


@pytest.mark.parametrize("misread", [0.0, 150.0, 300.0])
@pytest.mark.parametrize("minutes", [60, 10])
async def test_a_misread_counter_has_the_same_energy_if_each_hour_is_computed_after_its_end(
    site: RecordedPlant, misread: float, minutes: int
) -> None:
    """At any place: the first reading of those that an hour is computed from, or the last one before a fall."""
    readings = {MIDNIGHT + (n * minutes - 180) * MINUTE: 100.0 + n for n in range(12 * 60 // minutes)}
    wrong = dict.fromkeys((MIDNIGHT - HOUR, MIDNIGHT + 5 * HOUR), misread)
    await counted(site, readings | wrong)
    await work(site.database)
    together = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")
    level = max(value for time, value in readings.items() if time < MIDNIGHT and time not in wrong)
    assert sum(filter(None, together)) == max(readings.values()) - level
    async with site.database.transaction() as db:
        await db.execute("DELETE FROM plant_energy WHERE plant_id = %s", (site.id,))
    for n in range(-3, 10):
        async with site.database.transaction() as db:
            await db.execute("INSERT INTO energy_dirty (plant_id, hour) VALUES (%s, %s)", (site.id, MIDNIGHT + n * HOUR))
        await keep_energy(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced") == together


async def delete_before(database: Database, start: datetime) -> None:
    """Delete frames as retention does."""
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_source SET raw_from = %s", (start,))
        await db.execute("DELETE FROM telemetry_frame WHERE time < %s", (start,))


async def test_a_counter_continues_from_a_deleted_reading(site: RecordedPlant) -> None:
    """Of the day before, also when values of another device arrive late."""
    await counted(site, {MIDNIGHT - 2 * HOUR: 100.0, MIDNIGHT + 10 * HOUR: 110.0, MIDNIGHT + 26 * HOUR: 113.0})
    await work(site.database)
    await delete_before(site.database, MIDNIGHT)
    await site.write("GRID", METERED, {MIDNIGHT + hour * HOUR: [hour + 1.0, 0.0] for hour in (5, 10, 23, 25)})
    await work(site.database)
    found = await of_plant(site, range_of(EnergyBucket.HOUR, days=2))
    produced = {place: value for place, value in enumerate(column(found, "produced")) if value}
    assert produced == {10: pytest.approx(10), 26: pytest.approx(3)}
    imported = {place: value for place, value in enumerate(column(found, "imported")) if value}
    assert imported == {10: pytest.approx(5), 23: pytest.approx(13), 25: pytest.approx(2)}
    await check_totals(site.database, site.organization_id)


async def test_a_counter_continues_from_a_deleted_reading_within_its_limits(site: RecordedPlant) -> None:
    readings = {-4: 7e6, -3: 8e6, -2: 4_294_967_295.0, 1: 4_294_967_295.0, 2: 8.001e6, 3: 8.003e6}
    await site.write("PV1", LIMITED, {MIDNIGHT + hour * HOUR: [None, reading] for hour, reading in readings.items()})
    await work(site.database)
    await delete_before(site.database, MIDNIGHT)
    await by_the_hour(site, MIDNIGHT, 4)
    found = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")
    assert {place: value for place, value in enumerate(found) if value} == {2: 1.0, 3: 2.0}


async def test_late_values_after_deleted_ones_count_once(site: RecordedPlant) -> None:
    """A value of a day that is deleted does not count."""
    await counted(site, {MIDNIGHT - 2 * HOUR: 100.0, MIDNIGHT + 30 * MINUTE: 104.0, MIDNIGHT + 10 * HOUR: 110.0})
    await work(site.database)
    await delete_before(site.database, MIDNIGHT)
    await counted(site, {MIDNIGHT - 30 * MINUTE: 103.0, MIDNIGHT + 8 * HOUR: 107.0})
    await site.write("GRID", ["active_power"], {MIDNIGHT + 10 * HOUR + n * 10 * MINUTE: [6.0] for n in range(7)})
    await work(site.database)
    found = await of_plant(site, range_of(EnergyBucket.HOUR))
    produced = {place: value for place, value in enumerate(column(found, "produced")) if value}
    assert produced == {0: pytest.approx(4), 8: pytest.approx(3), 10: pytest.approx(3)}
    assert found.total.imported == pytest.approx(6)
    await check_totals(site.database, site.organization_id)


async def test_a_late_value_of_the_first_hour_that_is_not_deleted_counts_once(site: RecordedPlant) -> None:
    """The counter was read in each hour before, also in the last one that is deleted."""
    await counted(site, {MIDNIGHT + n * 10 * MINUTE: 100.0 + n for n in range(-18, 18)})
    await work(site.database)
    before = await produced_by_hour(site)
    await delete_before(site.database, MIDNIGHT)
    await counted(site, {MIDNIGHT + 15 * MINUTE: 101.5})
    await work(site.database)
    assert await produced_by_hour(site) == before
    await check_totals(site.database, site.organization_id)


async def test_power_counts_where_no_counter_does_and_a_cell_without_values_is_null(site: RecordedPlant) -> None:
    await site.write("PV1", ["active_power"], {MIDNIGHT + n * 10 * MINUTE: [6.0] for n in range(10)})
    await work(site.database)
    found = await of_plant(site, range_of(EnergyBucket.QUARTER_HOUR))
    assert column(found, "produced")[:8] == [1.5] * 6 + [0, None]
    assert found.total.produced == 9
    assert (found.total.consumed, found.total.imported, found.total.self_consumption) == (None, None, None)


async def test_shares_and_consumption(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0})
    await site.write("GRID", METERED, {MIDNIGHT + MINUTE: [0.0, 0.0], MIDNIGHT + 2 * MINUTE: [2.0, 4.0]})
    await work(site.database)
    total = (await of_plant(site, range_of(EnergyBucket.DAY))).total
    assert (total.produced, total.imported, total.exported, total.consumed) == (10, 2, 4, 8)
    assert (total.self_consumption, total.self_sufficiency) == (60, 75)


async def test_a_fleet_consumes_what_its_plants_with_a_meter_at_the_grid_do(site: RecordedPlant) -> None:
    """Also after a plant was moved, and before and after rows of a release that did not know this are completed."""
    without = RecordedPlant(site.database, site.organization_id, await add_plant(site.database, site.organization_id))
    await without.add_device("PV1")
    organization = await add_organization(site.database)
    moved = await add_site(site.database, organization.id)
    for plant in (site, moved):
        await counted(plant, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0})
        await plant.write("GRID", METERED, {MIDNIGHT + MINUTE: [0.0, 0.0], MIDNIGHT + 2 * MINUTE: [2.0, 4.0]})
    await counted(without, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 30.0})
    await work(site.database)
    query = range_of(EnergyBucket.DAY)

    async def check(org: OrgScope, plants: int) -> None:
        total = (await of_fleet(site.database, org, query)).total
        assert (total.produced, total.consumed) == (10 * plants + 30, 8 * plants)
        assert (total.self_consumption, total.self_sufficiency) == (60, 75)

    await check(site.org, plants=1)
    await check(replace(site.org, plant_ids=frozenset({site.id, without.id})), plants=1)

    async with site.database.transaction() as db:
        await db.execute("UPDATE fleet_energy SET energies = energies[1:20]")
    await move(moved, site.organization_id)
    # All plants count until a job completes the row.
    assert (await of_fleet(site.database, site.org, query)).total.consumed == 38
    await work(site.database)
    await check(site.org, plants=2)
    await move(replace(moved, organization_id=site.organization_id), organization.id)
    await work(site.database)
    await check(site.org, plants=1)
    await check_totals(site.database, site.organization_id, organization.id)


@pytest.mark.parametrize("has_exported", [True, False])
async def test_a_fleet_consumes_what_its_plant_does_while_its_meter_at_the_grid_is_not_read(
    site: RecordedPlant, has_exported: bool
) -> None:
    """The rise of the counter is in the hour in which it is read again. Before that, nothing shows that it will be."""
    meter = METERED if has_exported else METERED[:1]
    await counted(site, {MIDNIGHT + number * HOUR + MINUTE: 10.0 * number for number in range(7)})
    await site.write("GRID", meter, {MIDNIGHT + number * MINUTE: [float(number), 0.0][: len(meter)] for number in (1, 2)})
    await work(site.database)
    found = await of_fleet(site.database, site.org, range_of(EnergyBucket.HOUR))
    assert column(found, "imported")[:7] == [1, None, None, None, None, None, None]
    assert (found.total.produced, found.total.consumed) == (60, 1)

    await site.write("GRID", meter, {MIDNIGHT + 5 * HOUR + 3 * MINUTE: [52.0, 0.0][: len(meter)]})
    await work(site.database)
    for org in (site.org, replace(site.org, plant_ids=frozenset({site.id}))):
        found = await of_fleet(site.database, org, range_of(EnergyBucket.HOUR))
        assert column(found, "imported")[:7] == [1, 0, 0, 0, 0, 50, None]
        assert column(found, "consumed")[:7] == [1, 10, 10, 10, 10, 60, None]
        assert (found.total.produced, found.total.consumed) == (60, 101)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "imported")[:7] == [1, 0, 0, 0, 0, 50, None]
    await check_totals(site.database, site.organization_id)


async def test_hours_without_any_reading_have_no_energy_at_the_grid(site: RecordedPlant) -> None:
    """A plant that was offline, with a counter that continues."""
    await counted(site, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 5 * HOUR + MINUTE: 50.0})
    await site.write("GRID", METERED, {MIDNIGHT + MINUTE: [0.0, 0.0], MIDNIGHT + 5 * HOUR + MINUTE: [20.0, 0.0]})
    for _ in range(2):
        await work(site.database)
        found = await of_plant(site, range_of(EnergyBucket.HOUR))
        assert column(found, "imported")[:6] == [0, None, None, None, None, 20]
        assert found.total.consumed == 70
        await counted(site, {MIDNIGHT + 5 * HOUR + 2 * MINUTE: 50.0})


async def test_a_deleted_meter_at_the_grid_displaces_no_other_after_its_last_value(site: RecordedPlant) -> None:
    """Whichever hours are computed together. A counter that fell in its time adds nothing until it is back at its level."""
    await counted(site, {MIDNIGHT + 2 * HOUR: 100.0, MIDNIGHT + 4 * HOUR: 90.0, MIDNIGHT + 8 * HOUR: 102.0})
    await site.write("GRID", METERED, {MIDNIGHT + number * HOUR: [10.0 + number, 0.0] for number in range(1, 6)})
    await site.delete_device("GRID")
    await site.add_device("MAIN")
    await set_template(site, "MAIN", await add_template(site.database, energy_imported="energy_imported"))
    await site.write("MAIN", METERED, {MIDNIGHT + number * HOUR: [100.0 * number, 0.0] for number in range(4, 10)})
    for late in range(2):
        await work(site.database)
        found = await of_plant(site, range_of(EnergyBucket.HOUR))
        assert column(found, "imported")[:11] == [None, 0, 1, 1, 1, 1, 100, 100, 100, 100, None]
        assert found.total.produced == pytest.approx(2)
        await site.write("MAIN", METERED, {MIDNIGHT + (7 + late) * HOUR + MINUTE: [100.0 * (7 + late), 0.0]})
    await check_totals(site.database, site.organization_id)


async def silent_at_the_grid(site: RecordedPlant, hours: int) -> None:
    """Write hours of two meters, of which GRID has no values after the first four; it displaces MAIN until it goes."""
    await site.add_device("MAIN")
    for external_id in ("GRID", "MAIN"):
        await set_template(site, external_id, await add_template(site.database, energy_imported="energy_imported"))
    await site.write("GRID", METERED, {MIDNIGHT + number * HOUR: [10.0 + number, 0.0] for number in range(4)})
    await site.write("MAIN", METERED, {MIDNIGHT + number * HOUR: [100.0 * number, 0.0] for number in range(hours)})
    await work(site.database)


@pytest.mark.parametrize("then", ["deleted", "another template"])
async def test_a_silent_meter_that_goes_displaces_no_other_after_its_last_value(site: RecordedPlant, then: str) -> None:
    """In hours that were closed before, more of them than a change of a reading affects."""
    await silent_at_the_grid(site, hours=40)
    query = range_of(EnergyBucket.HOUR, days=2)
    assert column(await of_plant(site, query), "imported")[:40] == [0, 1, 1, 1, *[None] * 36]
    if then == "deleted":
        async with site.database.transaction() as db:
            await delete_sub_device(db, administrator(site.organization_id), site.id, "GRID")
    else:
        await change_template(site, "GRID", await add_template(site.database, charge="soc"))
    await work(site.database)
    assert column(await of_plant(site, query), "imported")[:40] == [0, 1, 1, 1, *[100] * 36]
    await check_totals(site.database, site.organization_id)


@pytest.mark.parametrize("is_computed_first", [True, False])
async def test_hours_that_are_computed_while_a_silent_meter_goes_are_computed_again(
    site: RecordedPlant, monkeypatch: pytest.MonkeyPatch, is_computed_first: bool
) -> None:
    await silent_at_the_grid(site, hours=10)
    async with site.database.transaction() as db:
        await energy_store.log_dirty(db, [DirtyHour(site.id, MIDNIGHT + number * HOUR) for number in range(4, 10)])
    compute, began, goes_on = recomputation.energies_of_hours, asyncio.Event(), asyncio.Event()

    async def compute_later(*arguments: Any) -> Any:
        began.set()
        await goes_on.wait()
        return await compute(*arguments)

    monkeypatch.setattr(recomputation, "energies_of_hours", compute_later)
    async with site.database.transaction() as db, asyncio.TaskGroup() as tasks:
        if is_computed_first:
            tasks.create_task(keep_energy(site.database))
            await began.wait()
        await delete_sub_device(db, administrator(site.organization_id), site.id, "GRID")
        goes_on.set()
        if not is_computed_first:
            tasks.create_task(keep_energy(site.database))
            await asyncio.wait([asyncio.create_task(began.wait())], timeout=2)  # it waits for the end of the deletion
            await db.commit()
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "imported")[:10] == [0, 1, 1, 1, *[100] * 6]
    await check_totals(site.database, site.organization_id)


async def test_the_totals_are_exactly_the_sums_whatever_happens(database: Database) -> None:
    """Late values, moves and deletions; of organisations that do not see each other."""
    plants = [await add_site(database) for _ in range(2)]
    ours, theirs = (plant.organization_id for plant in plants)
    plants += [await add_site(database, ours) for _ in range(2)]
    for number, plant in enumerate(plants):
        await counted(plant, {MIDNIGHT + n * 30 * MINUTE: n * (number + 1) / 7 for n in range(20)})
    await work(database)
    await check_totals(database, ours, theirs)
    before = (await of_fleet(database, member(theirs), range_of(EnergyBucket.DAY))).total.produced

    await counted(plants[2], {MIDNIGHT + 25 * MINUTE: 0.3, MIDNIGHT + 9 * HOUR + 45 * MINUTE: 500.0})
    await work(database)
    await check_totals(database, ours, theirs)
    assert (await of_fleet(database, member(theirs), range_of(EnergyBucket.DAY))).total.produced == before

    await move(plants[2], theirs)
    await counted(plants[3], {MIDNIGHT + 12 * HOUR: 77.0})
    async with database.transaction() as db:
        await lifecycle.delete_plant(db, administrator(ours), plants[0].id)
    await work(database)

    await check_totals(database, ours, theirs)
    async with database.transaction() as db:
        with pytest.raises(PlantNotFound):
            await energy_of_plant(db, member(ours), plants[2].id, range_of(EnergyBucket.DAY), utc_now())
        for table in ("plant_energy", "energy_account", "energy_dirty"):
            cursor = await db.execute(f"SELECT count(*) FROM {table} WHERE plant_id = %s".encode(), (plants[0].id,))
            assert await cursor.fetchone() == (0,)
    moved = (await of_fleet(database, member(theirs), range_of(EnergyBucket.DAY))).total.produced
    alone = [
        (await of_plant(RecordedPlant(database, theirs, plant.id), range_of(EnergyBucket.DAY))).total.produced
        for plant in plants[1:3]
    ]
    assert moved == pytest.approx(sum(value for value in alone if value is not None), abs=1e-9)


async def test_an_organisation_that_is_deleted_before_its_totals_follow_delays_no_energy(
    site: RecordedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many other plants were moved before this one."""
    await counted(site, {MIDNIGHT: 1.0, MIDNIGHT + HOUR: 4.0})
    await work(site.database)
    owner = (await add_organization(site.database)).id
    await move(site, owner)
    async with site.database.transaction() as db:
        await db.execute("DELETE FROM organization WHERE id = %s", (site.organization_id,))
    moved = RecordedPlant(site.database, owner, site.id)
    await counted(moved, {MIDNIGHT + 2 * HOUR: 9.0})
    with monkeypatch.context() as patch:
        patch.setattr(recomputation, "SHARE_OF_MOVES", 0.0)
        await work(site.database)
    assert (await of_plant(moved, range_of(EnergyBucket.DAY))).total.produced == 8
    await work(site.database)
    await check_totals(site.database, owner)


async def test_hours_that_a_clock_ahead_has_closed_are_open_again(site: RecordedPlant) -> None:
    now = utc_now()
    await counted(site, {now - 3 * HOUR: 10.0, now - 2 * HOUR: 14.0})
    await work(site.database)
    async with site.database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = sealed_before + interval '400 days'")
    await counted(site, {now - MINUTE: 15.0})
    await work(site.database)

    await counted(site, {now: 16.0})
    query = EnergyQuery(now - timedelta(days=1), now + HOUR, EnergyBucket.DAY, "UTC")
    assert (await of_plant(site, query)).total.produced == 6
    assert (await of_fleet(site.database, site.org, query)).as_of <= utc_now()
    await check_totals(site.database, site.organization_id)


async def test_a_limited_key_sees_its_plants_only(database: Database) -> None:
    plants = [await add_site(database)]
    plants.append(await add_site(database, plants[0].organization_id))
    for number, plant in enumerate(plants):
        await counted(plant, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0**number})
    stranger = await add_site(database)
    await counted(stranger, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 500.0})
    await work(database)

    allowed = frozenset({plants[1].id, stranger.id})
    found = await of_fleet(database, member(plants[0].organization_id, allowed), range_of(EnergyBucket.DAY))
    assert found.total.produced == 10
    whole = await of_fleet(database, member(plants[0].organization_id), range_of(EnergyBucket.DAY))
    assert whole.total.produced == 11
    many = frozenset(new_id() for _ in range(10_000))
    with pytest.raises(ValidationFailed):
        await of_fleet(database, member(plants[0].organization_id, many), range_of(EnergyBucket.DAY, 6))


async def test_hours_from_before_an_upgrade_are_computed_from_their_frames(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + n * HOUR: float(n) for n in range(24)})
    await work(site.database)
    expected = await of_plant(site, range_of(EnergyBucket.HOUR))
    async with site.database.transaction() as db:
        await db.execute("TRUNCATE plant_energy, fleet_energy, energy_dirty, energy_account")
        await db.execute(
            "INSERT INTO energy_account (plant_id, organization_id, missing_from) VALUES (%s, %s, %s)",
            (site.id, site.organization_id, MIDNIGHT - 5 * HOUR),
        )

    await keep_energy(site.database)

    found = await of_plant(site, range_of(EnergyBucket.HOUR))
    assert found.buckets == expected.buckets
    await check_totals(site.database, site.organization_id)
    assert await keep_energy(site.database) == 0


async def test_wrong_energies_of_the_past_are_corrected_after_the_upgrade(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + n * HOUR: float(n) for n in range(24)})
    await work(site.database)
    expected = await of_plant(site, range_of(EnergyBucket.HOUR))
    steps = [
        import_module(f"gridfleet.kernel.db.migrations.versions.{name}").STEP
        for name in ("0154_energies_computed_again", "0156_energies_of_this_release")
    ]
    async with site.database.transaction() as db:
        await db.execute("UPDATE plant_energy SET energies = array_fill(NULL::bigint, '{20}'), falls = true")
        await db.execute("UPDATE fleet_energy SET energies = array_fill(NULL::bigint, '{28}')")
        for step in steps:
            await db.execute(step)
        # During a rolling upgrade the job of the previous release may compute the hours, as wrongly as before.
        await db.execute("UPDATE energy_account SET missing_from = NULL")

    await keep_energy(site.database)

    assert (await of_plant(site, range_of(EnergyBucket.HOUR))).buckets == expected.buckets
    await check_totals(site.database, site.organization_id)
    assert await keep_energy(site.database) == 0


async def test_hours_from_before_an_upgrade_are_computed_in_short_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All roll-ups wait while one of them runs, and an upgrade may compute the hours of all plants again."""
    plants = [await add_site(database)]
    plants += [await add_site(database, plants[0].organization_id) for _ in range(9)]
    for plant in plants:
        await counted(plant, {MIDNIGHT + n * HOUR: float(n) for n in range(24)})
    await work(database)
    async with database.transaction() as db:
        await db.execute("UPDATE plant_energy SET energies = array_fill(NULL::bigint, '{20}')")
        await db.execute("UPDATE fleet_energy SET energies = array_fill(NULL::bigint, '{28}')")
        await db.execute("UPDATE energy_account SET recompute_from = %s", (MIDNIGHT,))
    lasted: list[float] = []

    async def slowly(db: Connection, metrics: Any, some: list[DirtyHour], until: float = inf, *others: Any) -> Any:
        """Take 20 ms for each hour."""
        began = monotonic()
        try:
            for _ in some:
                await asyncio.sleep(0.02)
                if monotonic() > until:
                    raise readings.TookTooLong
            return await hours.energies_of_hours(db, metrics, some, until, *others)
        finally:
            lasted.append(monotonic() - began)

    monkeypatch.setattr(recomputation, "energies_of_hours", slowly)
    monkeypatch.setattr(recomputation, "SECONDS_OF_SEVERAL", 0.5)

    await keep_energy(database, seconds=120.0)

    assert max(lasted) < 3.0
    assert [(await of_plant(plant, range_of(EnergyBucket.DAY))).total.produced for plant in plants] == [23.0] * 10
    await check_totals(database, plants[0].organization_id)
    assert await keep_energy(database) == 0


async def test_a_plant_that_fails_is_postponed_and_the_others_continue(database: Database) -> None:
    plants = [await add_site(database)]
    plants += [await add_site(database, plants[0].organization_id) for _ in range(3)]
    for plant in plants:
        await counted(plant, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0})
    async with database.transaction() as db:
        refused = f"ALTER TABLE plant_energy ADD CONSTRAINT refused CHECK (plant_id <> '{plants[1].id}')"
        await db.execute(refused.encode())

    await work(database)

    assert (await of_fleet(database, plants[0].org, range_of(EnergyBucket.DAY))).total.produced == 30
    async with database.transaction() as db:
        await db.execute("ALTER TABLE plant_energy DROP CONSTRAINT refused")
    assert await keep_energy(database) == 0, "it waits"
    async with database.transaction() as db:
        await db.execute("UPDATE energy_account SET retry_at = now() WHERE retry_at IS NOT NULL")
    assert await keep_energy(database) == 1
    assert (await of_fleet(database, plants[0].org, range_of(EnergyBucket.DAY))).total.produced == 40
    await check_totals(database, plants[0].organization_id)


async def test_days_begin_at_midnight_of_the_zone(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + n * 15 * MINUTE: float(n) for n in range(96)})
    await work(site.database)
    for zone in ("Asia/Kathmandu", "America/St_Johns", "Europe/Prague"):
        days = await of_plant(site, range_of(EnergyBucket.DAY, 3, zone, MIDNIGHT - timedelta(days=1)))
        hours = await of_plant(site, range_of(EnergyBucket.HOUR, 3, zone, MIDNIGHT - timedelta(days=1)))
        assert days.total == hours.total
        assert days.total.produced == 95
        for day in days.buckets:
            inside = [
                hour.produced for hour in hours.buckets if day.start <= hour.start < day.end and hour.produced is not None
            ]
            assert sum(inside) == pytest.approx(day.produced or 0, abs=1e-9)
        assert all(first.end == second.start for first, second in pairwise(days.buckets))


async def test_ranges_that_are_refused(site: RecordedPlant) -> None:
    start = MIDNIGHT
    for end, bucket in (
        (start, EnergyBucket.DAY),
        (start - HOUR, EnergyBucket.DAY),
        (start + timedelta(days=32), EnergyBucket.QUARTER_HOUR),
        (datetime(9999, 12, 31, tzinfo=UTC), EnergyBucket.DAY),
    ):
        async with site.database.transaction() as db:
            with pytest.raises(ValidationFailed):
                await energy_of_plant(db, site.org, site.id, EnergyQuery(start, end, bucket, None), utc_now())
    long = EnergyQuery(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), EnergyBucket.MONTH, None)
    assert len((await of_plant(site, long)).buckets) == 230 * 12


async def fill(plant: RecordedPlant, devices: int, start: datetime, hours: int) -> None:
    """Store readings of each second of PV counters."""
    for number in range(devices):
        await plant.add_device(f"PV{number}")
        readings = {start: [None, 0.0], start + hours * HOUR - timedelta(seconds=1): [None, 36.0 * hours]}
        await plant.write(f"PV{number}", PRODUCED, readings)
        source, layout = await plant.source(f"PV{number}"), await plant.layout(PRODUCED)
        async with plant.database.transaction() as db:
            await db.execute(
                "INSERT INTO telemetry_frame (source_id, layout_id, time, vals)"
                " SELECT %s, %s, t, ARRAY[NULL, extract(epoch FROM t - %s)::float8 / 100]"
                " FROM generate_series(%s::timestamptz + interval '1 second', %s, '1 second') AS t",
                (source, layout, start, start, start + hours * HOUR - timedelta(seconds=2)),
            )
            await db.execute(
                "INSERT INTO telemetry_dirty SELECT %s, t FROM generate_series(%s::timestamptz, %s, '1 hour') AS t",
                (source, start, start + (hours - 1) * HOUR),
            )


async def test_a_plant_with_many_frames_delays_no_plant_of_another_organisation(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever has its turn first: the slow plant's energies are written last."""
    slow, quick = await RecordedPlant.create(database), [await add_site(database) for _ in range(3)]
    await fill(slow, 5, MIDNIGHT, 25)
    for plant in quick:
        await counted(plant, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0})
    monkeypatch.setattr(recomputation, "SECONDS_OF_SEVERAL", 0.0)
    while await close_hour(database, timedelta(0)):
        pass
    await roll_up(database)

    await keep_energy(database)

    async with database.transaction() as db:
        cursor = await db.execute("SELECT plant_id, min(xmin::text::bigint) FROM plant_energy GROUP BY 1 ORDER BY 2")
        order = [row[0] for row in await cursor.fetchall()]
    assert (order[-1], set(order)) == (slow.id, {slow.id, *(plant.id for plant in quick)})
    assert (await of_plant(slow, range_of(EnergyBucket.DAY))).total.produced == pytest.approx(5 * 864, abs=0.1)


async def test_the_energy_of_a_plant_with_many_frames_is_that_of_the_roll_ups(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = await RecordedPlant.create(database)
    now = utc_now()
    hour = now.replace(minute=0, second=0, microsecond=0)
    await fill(plant, 3, hour - 20 * HOUR, 20)
    await work(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO energy_dirty SELECT %s, t FROM generate_series(%s::timestamptz, %s, '1 hour') AS t",
            (plant.id, hour - 20 * HOUR, hour - HOUR),
        )
    query = EnergyQuery(hour - 20 * HOUR, hour + HOUR, EnergyBucket.HOUR, "UTC")
    monkeypatch.setattr(series, "MOST_SECONDS", 25.0)
    before = await of_plant(plant, query)
    monkeypatch.setattr(series, "MOST_SECONDS", 0.0)
    after = await of_plant(plant, query)
    assert after.total == before.total
    assert before.as_of >= now
    async with database.transaction() as db:
        assert after.as_of == await energy_store.watermark(db)

    async def endlessly(db: Connection, *_: Any) -> None:
        await db.execute("SELECT pg_sleep(60)")

    monkeypatch.setattr(series, "MOST_SECONDS", 0.2)
    monkeypatch.setattr(energy_store, "readings", endlessly)
    assert await of_plant(plant, query) == after


async def test_deleted_plants_do_not_delay_the_energies_of_others(site: RecordedPlant) -> None:
    await counted(site, {MIDNIGHT + MINUTE: 0.0, MIDNIGHT + 2 * MINUTE: 10.0})
    while await close_hour(site.database, timedelta(0)):
        pass
    await roll_up(site.database)
    async with site.database.transaction() as db:
        await db.execute(
            "INSERT INTO energy_account (plant_id, organization_id) SELECT gen_random_uuid(), %s FROM generate_series(1, 1000)",
            (site.organization_id,),
        )
    await keep_energy(site.database, seconds=2.0)
    assert (await of_fleet(site.database, site.org, range_of(EnergyBucket.DAY))).total.produced == 10


async def test_many_values_of_several_layouts_are_merged_in_a_thread(
    site: RecordedPlant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device decides with each message which of its signals it sends, and thus how many layouts its values have."""
    elsewhere: list[float] = []

    def noted(value: float, size: int) -> float:
        if threading.get_ident() != own:
            elsewhere.append(value)
        return in_kilo(value, size)

    own = threading.get_ident()
    monkeypatch.setattr(readings, "in_kilo", noted)
    counter = Metric("energy_produced", "Wh", counter=True)
    for first, metrics in enumerate(([counter], [counter, Metric("voltage", "V")])):
        times = [MIDNIGHT + second * timedelta(seconds=2) for second in range(first, 3_000, 2)]
        await site.write("PV1", metrics, [(time, [2_000.0 * (time - MIDNIGHT) / HOUR, 1.0][: len(metrics)]) for time in times])
    async with site.database.transaction() as db:
        measured = await role_metrics(db, [site.id])
        [found] = (await hours.energies_of_hours(db, measured, [DirtyHour(site.id, MIDNIGHT)])).values()
    assert sum(value or 0 for value in found.energies[:4]) == pytest.approx(2_000_000, rel=1e-2)
    assert len(elsewhere) >= 2_000


async def test_energy_that_arrives_late_is_counted_once_before_its_hours_are_kept(site: RecordedPlant) -> None:
    """A plant that was offline reports its counter, and after the end of that hour what it has kept."""
    end = utc_now().replace(minute=0, second=0, microsecond=0) - HOUR
    start = end - 10 * HOUR
    await counted(site, {start - MINUTE: 100.0, end + MINUTE: 110.0})
    await work(site.database)
    query = EnergyQuery(start, end + HOUR, EnergyBucket.HOUR, "UTC")
    assert column(await of_plant(site, query), "produced") == [None] * 10 + [10.0]

    await counted(site, {start + number * HOUR + 30 * MINUTE: 100.5 + number for number in range(10)})
    right = [0.5, *([1.0] * 9), 0.5]
    assert column(await of_plant(site, query), "produced") == pytest.approx(right), "before the roll-ups"
    await roll_up(site.database)
    assert column(await of_plant(site, query), "produced") == pytest.approx(right), "before the energies are kept"
    await keep_energy(site.database)
    assert column(await of_plant(site, query), "produced") == pytest.approx(right)


@pytest.mark.parametrize("external_id", ["INV1", "PV2"])
async def test_a_deleted_device_keeps_the_energy_of_its_time(site: RecordedPlant, external_id: str) -> None:
    """Also in hours that are computed again after its deletion, and after another device has its external id."""
    await site.add_device(external_id)
    await set_template(site, external_id, await add_template(site.database, yield_total="energy_produced"))
    total = [Metric("yield_total", "kWh", counter=True)]
    await site.write(external_id, total, {MIDNIGHT + number * HOUR: [100.0 + number] for number in range(8)})
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")[:8] == [0, *[1] * 7]
    async with site.database.transaction() as db:
        await delete_sub_device(db, administrator(site.organization_id), site.id, external_id)
    await counted(site, {MIDNIGHT + 4 * HOUR: 50.0, MIDNIGHT + 5 * HOUR: 52.0})
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")[:8] == [0, 1, 1, 1, 1, 3, 1, 1]
    await site.add_device(external_id)
    await set_template(site, external_id, await add_template(site.database, lifetime="energy_produced"))
    await counted(site, {MIDNIGHT + 6 * HOUR: 55.0})
    await work(site.database)
    assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")[:8] == [0, 1, 1, 1, 1, 3, 4, 1]
    await check_totals(site.database, site.organization_id)


@pytest.mark.parametrize("external_id", ["INV1", "PV2", None])
async def test_a_device_keeps_the_energy_of_its_former_templates(site: RecordedPlant, external_id: str | None) -> None:
    """Also in hours that are computed again after the change, and without keys of a template that it had by mistake."""
    level = TemplateLevel.PLANT if external_id is None else TemplateLevel.SUB_DEVICE
    templates = [
        await add_template(site.database, level, **{key: "energy_produced"})
        for key in ("first", "mistaken", "third", "renewed")
    ]

    def readings(number: int, *minutes: int) -> dict[datetime, list[float | None]]:
        return {MIDNIGHT + 2 * number * HOUR + minute * MINUTE: [100.0 + minute / 60] for minute in minutes}

    first, mistaken, *others = templates
    counters = [[Metric(key, "kWh", counter=True)] for key in ("first", "third", "renewed")]
    if external_id is not None:
        await site.add_device(external_id)
    await change_template(site, external_id, first)
    for number, template_id in enumerate([first, *others]):
        if number:
            await change_template(site, external_id, mistaken)
            await change_template(site, external_id, template_id)
        await site.write(external_id, counters[number], readings(number, 0, 60, 119))
        await work(site.database)
    for number in range(3):
        await site.write(external_id, counters[number], readings(number, 30, 90))
    await work(site.database)
    produced = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")
    assert [sum(produced[hour : hour + 2]) for hour in (0, 2, 4)] == pytest.approx([119 / 60] * 3)
    async with site.database.transaction() as db:
        known = await role_metrics(db, [site.id])
    assert {one.key for one in known[site.id]} == {"first", "third", "renewed"}
    await check_totals(site.database, site.organization_id)


async def change_template(site: RecordedPlant, external_id: str | None, template_id: UUID | None) -> None:
    """Give a sub-device, or the plant itself if `external_id` is None, another template as a user does."""
    org = administrator(site.organization_id)
    async with site.database.transaction() as db:
        if external_id is None:
            await registry.update_plant(db, org, site.id, PlantChanges(template_id=template_id))
        else:
            assert template_id is not None
            await update_sub_device(db, org, site.id, external_id, SubDeviceChanges(template_id=template_id))


def powers(first: int, end: int, power: float) -> dict[datetime, list[float | None]]:
    """Return a power every ten minutes of the hours from `first` to before `end`."""
    return {MIDNIGHT + number * 10 * MINUTE: [power] for number in range(6 * first, 6 * end)}


async def produced_by_hour(site: RecordedPlant) -> list[Any]:
    """Return what was produced in the first eight hours."""
    await work(site.database)
    await check_totals(site.database, site.organization_id)
    return column(await of_plant(site, range_of(EnergyBucket.HOUR)), "produced")[:8]


async def test_a_device_that_gets_a_template_without_roles_has_the_standard_keys(site: RecordedPlant) -> None:
    await set_template(site, "PV1", await add_template(site.database, yield_total="energy_produced"))
    total = [Metric("yield_total", "kWh", counter=True)]
    await site.write("PV1", total, {MIDNIGHT + number * HOUR: [100.0 + number] for number in range(4)})
    await work(site.database)
    await change_template(site, "PV1", await add_template(site.database))
    await counted(site, {MIDNIGHT + number * HOUR: 5.0 + 2 * number for number in range(4, 8)})
    assert await produced_by_hour(site) == [0, 1, 1, 1, 0, 2, 2, 2]


async def test_a_counter_of_a_former_template_leaves_the_following_hours_to_power(site: RecordedPlant) -> None:
    await site.add_device("INV1")
    await set_template(site, "INV1", await add_template(site.database, former="pv_power", total="energy_produced"))
    both = [Metric("former", "kW"), Metric("total", "kWh", counter=True)]
    await site.write("INV1", both, {MIDNIGHT + number * 10 * MINUTE: [2.0, 100.0 + number / 3] for number in range(18)})
    await work(site.database)
    await change_template(site, "INV1", await add_template(site.database, renewed="pv_power"))
    await site.write("INV1", ["renewed"], powers(3, 8, 2.0))
    assert await produced_by_hour(site) == pytest.approx([2] * 8, abs=0.4)


@pytest.mark.parametrize(("external_id", "level"), [(None, TemplateLevel.PLANT), ("PV1", TemplateLevel.SUB_DEVICE)])
async def test_a_template_that_changes_back_and_forth_has_each_hour_computed_once(
    site: RecordedPlant, external_id: str | None, level: TemplateLevel
) -> None:
    """A script of one organisation could otherwise log hours faster than they are computed, until the disk is full."""
    measured = await add_template(site.database, level, own="pv_power")
    another = await add_template(site.database, level, renewed="pv_power")
    await set_template(site, external_id, measured)
    await site.write(external_id, ["own"], powers(0, 3, 2.0))
    await work(site.database)
    logged = []
    for _ in range(3):
        await change_template(site, external_id, another)
        await change_template(site, external_id, measured)
        async with site.database.transaction() as db:
            cursor = await db.execute("SELECT count(*), count(DISTINCT hour) FROM energy_dirty WHERE plant_id = %s", (site.id,))
            logged += await cursor.fetchall()
    [(count, hours)] = set(logged)
    assert count == hours > 24


@pytest.mark.parametrize("has_another", [True, False])
async def test_what_the_plant_measured_with_a_former_template_displaces_no_device_later(
    site: RecordedPlant, has_another: bool
) -> None:
    """The hours before the change keep their energy, also if the plant has no template afterwards."""
    await set_template(site, None, await add_template(site.database, TemplateLevel.PLANT, own="pv_power"))
    await site.write(None, ["own"], powers(0, 3, 2.0))
    await work(site.database)
    another = await add_template(site.database, TemplateLevel.PLANT, load="load_power")
    await change_template(site, None, another if has_another else None)
    await site.write("PV1", ["active_power"], powers(3, 8, 3.0))
    await site.write(None, ["own"], {MIDNIGHT + 65 * MINUTE: [2.0]})
    if not has_another:  # the plant still sends the field
        await site.write(None, [Metric("own", "")], powers(3, 8, 2.0))
    assert await produced_by_hour(site) == pytest.approx([2, 2, 2, 3, 3, 3, 3, 3], abs=0.6)


@pytest.mark.parametrize("then", ["kept", "another template", "deleted"])
async def test_hours_before_a_signal_is_renamed_keep_their_energy(site: RecordedPlant, then: str) -> None:
    """Also beside a signal that keeps its name, and if the device loses the template before they are computed again."""
    await site.add_device("INV1")
    template_id = await add_template(site.database, total="energy_produced", load="load_power")
    await set_template(site, "INV1", template_id)
    former, renamed = ([Metric(key, "kWh", counter=True), Metric("load", "kW")] for key in ("total", "lifetime"))
    await site.write("INV1", former, {MIDNIGHT + number * HOUR: [100.0 + number, 1.0] for number in range(4)})
    await work(site.database)
    await site.write("INV1", former, {MIDNIGHT + 3 * HOUR + 30 * MINUTE: [103.5, 1.0]})
    signals = [
        Signal(key="lifetime", field="total", role=SignalRole.ENERGY_PRODUCED),
        Signal(key="load", field="load", role=SignalRole.LOAD_POWER),
    ]
    async with site.database.transaction() as db:
        await update_template(db, SYSTEM, template_id, TemplateChanges(signals=signals))
    await site.write("INV1", renamed, {MIDNIGHT + number * HOUR: [100.0 + number, 1.0] for number in range(4, 8)})
    if then == "another template":
        await change_template(site, "INV1", await add_template(site.database, other="load_power"))
    elif then == "deleted":
        async with site.database.transaction() as db:
            await delete_sub_device(db, administrator(site.organization_id), site.id, "INV1")
    assert await produced_by_hour(site) == [0, 1, 1, 1.5, 0, 1, 1, 1]


async def test_a_key_that_a_later_template_declares_has_no_former_role(site: RecordedPlant) -> None:
    await site.add_device("INV1")
    templates = [await add_template(site.database, **roles) for roles in ({"total": "energy_produced"}, {"load": "load_power"})]
    await change_template(site, "INV1", templates[0])
    await site.write("INV1", [Metric("total", "kWh", counter=True)], {MIDNIGHT + n * HOUR: [1.0 + n] for n in range(3)})
    await change_template(site, "INV1", templates[1])
    signals = [Signal(key=key, field=key, role=role) for key, role in (("total", UNSET), ("load", SignalRole.LOAD_POWER))]
    async with site.database.transaction() as db:
        name = str(new_id())
        last = await create_template(
            db,
            SYSTEM,
            name=name,
            type=DeviceType.INVERTER,
            level=TemplateLevel.SUB_DEVICE,
            version=1,
            signals=signals,
            actions=[],
        )
    await change_template(site, "INV1", last.id)
    async with site.database.transaction() as db:
        assert await role_metrics(db, [site.id]) == {}


@pytest.mark.parametrize("then", ["kept", "another template", "deleted"])
async def test_a_device_that_gets_its_former_template_back_counts_once(site: RecordedPlant, then: str) -> None:
    """The other template's counter counted the rise since the last value. Two counters of one template both count."""
    first = await add_template(site.database, total="energy_produced", west="energy_produced")
    second = await add_template(site.database, lifetime="energy_produced")
    both = [Metric("total", "kWh", counter=True), Metric("west", "kWh", counter=True)]
    quarters = [MIDNIGHT + number * 15 * MINUTE for number in range(32)]
    await change_template(site, "PV1", first)
    for place, moment in enumerate(quarters[:10]):
        await site.write("PV1", both, {moment: [100 + place, None], moment + MINUTE: [None, 7.0]})
    await work(site.database)
    await change_template(site, "PV1", second)
    await site.write("PV1", [Metric("lifetime", "kWh", counter=True)], {quarters[n]: [100.0 + n] for n in range(10, 22)})
    await work(site.database)
    await change_template(site, "PV1", first)
    for place, moment in enumerate(quarters[22:], 22):
        await site.write("PV1", both, {moment: [100 + place, None], moment + MINUTE: [None, 7.0]})
    if then == "another template":
        await change_template(site, "PV1", await add_template(site.database, other="load_power"))
    elif then == "deleted":
        async with site.database.transaction() as db:
            await delete_sub_device(db, administrator(site.organization_id), site.id, "PV1")
    expected = [3, 4, 3, 4, 4, 3, 4, 4]
    assert await produced_by_hour(site) == expected
    async with site.database.transaction() as db:
        assert (await energy_of_day(db, site.org, site.id, MIDNIGHT + 20 * HOUR)).produced == sum(expected)
        # Each hour computed by itself.
        for number, energy in enumerate(expected):
            hour = DirtyHour(site.id, MIDNIGHT + number * HOUR)
            found = await hours.energies_of_hours(db, await role_metrics(db, [site.id]), [hour])
            assert sum(value or 0 for value in found[hour].energies[:4]) == energy * 1_000_000


@pytest.mark.parametrize(("power", "back"), [({"ac": "pv_power"}, 22), ({}, 20)], ids=["counter and power", "counter"])
async def test_a_device_that_measured_only_power_meanwhile_counts_once(
    site: RecordedPlant, power: dict[str, str], back: int
) -> None:
    """When its counter comes back, the rise since its last reading replaces the energy of power in the hours between."""
    first = await add_template(site.database, total="energy_produced", **power)
    second = await add_template(site.database, ac="pv_power")
    both = [Metric("total", "kWh", counter=True), Metric("ac", "kW")][: 1 + len(power)]
    quarters = [MIDNIGHT + number * 15 * MINUTE for number in range(32)]
    await change_template(site, "PV1", first)
    await site.write("PV1", both, {quarters[n]: [100.0 + n, 4.0][: len(both)] for n in range(6)})
    await work(site.database)
    await change_template(site, "PV1", second)
    await site.write("PV1", [Metric("ac", "kW")], {quarters[n]: [4.0] for n in range(6, back)})
    assert (await produced_by_hour(site))[2:5] == [4, 4, 4 if back > 20 else 3]
    await change_template(site, "PV1", first)
    await site.write("PV1", both, {quarters[n]: [100.0 + n, 4.0][: len(both)] for n in range(back, 32)})
    assert await produced_by_hour(site) == [3, 2, None, None, None, 18, 4, 4]
    async with site.database.transaction() as db:
        assert (await energy_of_day(db, site.org, site.id, MIDNIGHT + 20 * HOUR)).produced == 31


async def test_a_new_meter_displaces_others_from_the_hour_of_its_first_value(database: Database) -> None:
    site = await RecordedPlant.create(database)
    await site.add_device("MAIN")
    await set_template(site, "MAIN", await add_template(database, energy_imported="energy_imported"))
    await site.write("MAIN", METERED, {MIDNIGHT + number * HOUR: [10.0 + number, 0.0] for number in range(6)})
    await work(database)
    await site.add_device("GRID")
    await site.write("GRID", METERED, {MIDNIGHT + number * HOUR: [100.0 + 2 * number, 0.0] for number in range(6, 10)})
    for late in range(2):
        await work(database)
        assert column(await of_plant(site, range_of(EnergyBucket.HOUR)), "imported")[:10] == [0, 1, 1, 1, 1, 1, 0, 2, 2, 2]
        await site.write("MAIN", METERED, {MIDNIGHT + (3 + late) * HOUR + MINUTE: [13.0 + late, 0.0]})
    await check_totals(database, site.organization_id)


@pytest.mark.parametrize("other", ["MAIN", None])
async def test_a_new_meter_with_values_in_open_hours_alone_displaces_no_other_before(
    database: Database, other: str | None
) -> None:
    """Neither the counter of another device nor the power of the plant itself, if their values arrive late meanwhile."""
    site = await RecordedPlant.create(database)
    if other is None:
        template_id = await add_template(database, TemplateLevel.PLANT, active_power="grid_power")
        metrics: list[Any] = ["active_power"]
        values: dict[datetime, list[float | None]] = powers(0, 8, 1.0)
    else:
        await site.add_device(other)
        template_id = await add_template(database, energy_imported="energy_imported")
        metrics, values = METERED, {MIDNIGHT + number * 10 * MINUTE: [number / 6, 0.0] for number in range(48)}
    await set_template(site, other, template_id)
    late = {time: values.pop(time) for time in list(values)[20:24]}
    await site.write(other, metrics, values)
    await work(database)
    async with database.transaction() as db:
        open_from = await energy_store.watermark(db)
    await site.add_device("GRID")
    await site.write("GRID", METERED, {open_from: [100.0, 0.0]})
    await site.write(other, metrics, late)
    await roll_up(database)
    await keep_energy(database)
    imported = column(await of_plant(site, range_of(EnergyBucket.HOUR)), "imported")
    assert imported[1:7] == pytest.approx([1] * 6)
    await check_totals(database, site.organization_id)


@pytest.mark.parametrize("names", [[*PRODUCED], PRODUCED[:1]], ids=["template", "own names"])
async def test_nights_of_late_days_are_computed_again_once(
    site: RecordedPlant, monkeypatch: pytest.MonkeyPatch, names: list[Metric]
) -> None:
    """The hours of three nights are more than a turn has. Two parts of a night must not outdate each other without end.

    If the counter is in each layout, no hour of a night has the energy of power alone, and none is computed again.
    """
    nights = [MIDNIGHT - day * timedelta(days=1) for day in (3, 2, 1, 0)]
    outdated: set[DirtyHour] = set()

    async def log_dirty(db: Connection, logged: set[DirtyHour]) -> None:
        outdated.update(logged)
        await original(db, logged)

    original = energy_store.log_dirty
    monkeypatch.setattr(energy_store, "log_dirty", log_dirty)

    async def write(days: tuple[int, ...]) -> None:
        times = {nights[day] + hour * HOUR: 100.0 + 7 * day + hour - 8 for day in days for hour in range(8, 16)}
        await site.write("PV1", names, {time: [1.0, total][: len(names)] for time, total in times.items()})
        if len(names) == 1:
            await site.write("PV1", PRODUCED[1:], {time: [total] for time, total in times.items()})

    await write((0,))
    await work(site.database)
    await write((1, 2, 3))
    await roll_up(site.database)
    written = await keep_energy(site.database, seconds=5.0)
    async with site.database.transaction() as db:
        assert await energy_store.dirty_plants(db) == {}
    assert (written, len(outdated)) == (24, 0 if len(names) == 2 else 3 * 16)
    assert (await of_plant(site, range_of(EnergyBucket.DAY))).total.produced == 7
