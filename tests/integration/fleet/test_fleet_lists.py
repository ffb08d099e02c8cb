"""Every filter, sort order and page of a fleet selects what a plain comparison does; totals are plain sums."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.fleet.places import places_as_geojson
from gridfleet.domains.fleet.plants.listing import decode_position, list_fleet
from gridfleet.domains.fleet.plants.models import (
    AlertCondition,
    FleetFilter,
    FleetPaging,
    FleetPlant,
    FleetSort,
    SortOrder,
)
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.fleet.totals.summary import fleet_summary
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_organization
from support.builders.telemetry_records import RecordedPlant, add_plant, member

SEVERITIES: Final = [Severity.INFO, Severity.WARNING, Severity.CRITICAL, Severity.EMERGENCY]
NAMES: Final = ["Roof", "roof 2", "Grün", "GRÜN 7", "a_b", "100%", "Cellar\\"]
POWERS: Final = ("pv", "battery", "grid", "load")


@dataclass
class Made:
    """A plant as it was stored."""

    id: UUID
    org: UUID
    name: str
    serial: str
    status: PlantStatus
    lifecycle: Lifecycle
    template: UUID | None
    templates: set[UUID]
    seen: datetime | None
    created: datetime
    power: dict[str, float | None] | None
    measured: datetime | None
    fresh: bool
    soc: float | None
    capacity: float | None
    today: float | None
    alerts: list[Severity]
    group: bool
    refused: datetime | None

    @property
    def worst(self) -> int | None:
        return max((SEVERITIES.index(one) for one in self.alerts), default=None)


@dataclass
class World:
    """Two organisations with plants."""

    database: Database
    ours: UUID
    theirs: UUID
    group: UUID
    templates: list[UUID]
    plants: list[Made]

    @property
    def first(self) -> Made:
        """The plant of our organisation that has imported 5 kWh yesterday."""
        return next(one for one in self.plants if one.org == self.ours)

    def of(self, scope: OrgScope) -> list[Made]:
        return [
            one
            for one in self.plants
            if one.org == scope.organization_id and (scope.plant_ids is None or one.id in scope.plant_ids)
        ]


async def make_world(database: Database) -> World:
    """Store plants of every kind."""
    chance = random.Random(7)
    ours, theirs = (await add_organization(database)).id, (await add_organization(database)).id
    world = World(database, ours, theirs, new_id(), [new_id(), new_id()], [])
    now = datetime.now(UTC)
    async with database.transaction() as db:
        await db.execute("INSERT INTO plant_group (id, organization_id, name) VALUES (%s, %s, 'G')", (world.group, ours))
        for number, template in enumerate(world.templates):
            await db.execute(
                "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
                " VALUES (%s, %s, 'METER', 'PLANT', 1, '[]', '[]')",
                (template, f"T{number}"),
            )
        for number in range(70):
            one = _plant(chance, world, now, number)
            world.plants.append(one)
            await _insert(db, world, one, chance)
        yesterday = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(hours=1)
        energies = [None, None, None, None, 1_000_000, 2_000_000, None, 2_000_000, *[None] * 12]
        for table, owner in (("plant_energy", world.first.id), ("fleet_energy", ours)):
            columns = "plant_id, hour, energies, falls" if table == "plant_energy" else "organization_id, hour, energies"
            await db.execute(
                f"INSERT INTO {table} ({columns}) VALUES (%s, %s, %s{', false' * (table == 'plant_energy')})".encode(),
                (owner, yesterday, energies),
            )
    return world


def _plant(chance: random.Random, world: World, now: datetime, number: int) -> Made:
    status = chance.choice(list(PlantStatus))
    measured = None if chance.random() < 0.2 else now - timedelta(minutes=chance.choice([1, 10, 20, 500]))
    template = chance.choice([None, *world.templates])
    some = [None, -5.5, 0.0, 3.25, 1e12]
    counted = chance.random() < 0.6 and measured is not None
    return Made(
        new_id(),
        world.ours if number % 5 else world.theirs,
        chance.choice(NAMES),
        f"SN-{number}",
        status,
        chance.choice(list(Lifecycle)),
        template,
        {template} - {None} | {one for one in world.templates if chance.random() < 0.2},  # type: ignore[arg-type]
        chance.choice([None, now, now - timedelta(days=chance.randrange(3))]),
        now - timedelta(minutes=chance.randrange(5)),
        None if measured is None else {power: chance.choice(some) for power in POWERS},
        measured,
        status is PlantStatus.ONLINE and measured is not None and now - measured < timedelta(minutes=15),
        chance.choice([None, 0.0, 40.0, 100.0]) if measured else None,
        chance.choice([None, 10.0]) if measured else None,
        chance.choice([0.0, 12.5]) if counted else None,
        [chance.choice(SEVERITIES) for _ in range(chance.choice([0, 0, 1, 3]))],
        chance.random() < 0.3 and number % 5 != 0,
        chance.choice([None, None, now - timedelta(minutes=2), now - timedelta(hours=23)]),
    )


async def _insert(db: Any, world: World, one: Made, chance: random.Random) -> None:
    await db.execute(
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, status, lifecycle_status, template_id,"
        " last_seen_at, created_at) VALUES (%s, %s, %s, %s, 'GATEWAY', 'TOKEN', %s, %s, %s, %s, %s)",
        (one.id, one.org, one.name, one.serial, one.status, one.lifecycle, one.template, one.seen, one.created),
    )
    for template in one.templates - {one.template}:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type, template_id)"
            " VALUES (%s, %s, %s, %s, '', 'METER', %s)",
            (new_id(), one.org, one.id, f"D{new_id().hex[-8:]}", template),
        )
    if one.measured is not None:
        assert one.power is not None
        today = "(now() AT TIME ZONE 'UTC')::date"
        await db.execute(
            "INSERT INTO plant_power (plant_id, measured_at, pv_kw, battery_kw, grid_kw, load_kw, soc, capacity_kwh,"
            " energy_day, produced_kwh, imported_kwh, exported_kwh, charged_kwh, discharged_kwh)"
            f" SELECT %s, %s, %s, %s, %s, %s, %s, %s, CASE WHEN %s THEN {today} ELSE {today} - 60 END,"
            " e.today, e.today, 0, 0, 0 FROM (VALUES (%s::float8)) AS e (today)",
            (
                *(one.id, one.measured, *one.power.values(), one.soc, one.capacity, one.today is not None),
                9.0 if one.today is None else one.today,
            ),
        )
    for number, severity in enumerate((*one.alerts, Severity.EMERGENCY)):
        await db.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at)"
            " VALUES (%s, %s, %s, %s, %s, '', 'm', 1, now())",
            (
                new_id(),
                one.org,
                one.id,
                severity,
                chance.choice(["ACTIVE", "ACKNOWLEDGED"]) if number < len(one.alerts) else "RESOLVED",
            ),
        )
    if one.group:
        await db.execute("INSERT INTO plant_group_member (plant_group_id, plant_id) VALUES (%s, %s)", (world.group, one.id))
    # Also what is too old to be shown, and what the plant sent when it was another organisation's.
    stranger = world.theirs if one.org == world.ours else world.ours
    now = datetime.now(UTC)
    refusals = [(one.org, now - timedelta(hours=25)), (stranger, now), *[(one.org, one.refused)] * 2]
    for org, received in refusals:
        if received is not None:
            await db.execute(
                "INSERT INTO refused_message (id, plant_id, organization_id, received_at, topic, reason, detail, bytes)"
                " VALUES (%s, %s, %s, %s, '', 'MALFORMED', '', 0)",
                (new_id(), one.id, org, received),
            )


def matches(world: World, one: Made, which: FleetFilter) -> bool:
    """Whether a plant is to be found."""
    text = (which.search or "").lower()
    worst = -1 if one.worst is None else one.worst
    wanted = {
        None: True,
        AlertCondition.ANY: worst >= 0,
        AlertCondition.NONE: worst < 0,
        **{AlertCondition(severity.value): worst >= index for index, severity in enumerate(SEVERITIES)},
    }
    return (
        (text in one.name.lower() or text in one.serial.lower())
        and (not which.statuses or one.status in which.statuses)
        and (not which.lifecycles or one.lifecycle in which.lifecycles)
        and (which.group_id is None or (which.group_id == world.group and one.group))
        and (which.template_id is None or which.template_id in one.templates)
        and wanted[which.alert]
        and which.refused in (None, one.refused is not None)
    )


def key_of(one: Made, sort: FleetSort) -> Any:
    """What a plant is sorted by."""
    match sort:
        case FleetSort.NAME:
            return one.name.lower().encode()
        case FleetSort.SERIAL_NUMBER:
            return one.serial.lower().encode()
        case FleetSort.STATUS:
            return one.status.encode()
        case FleetSort.LAST_SEEN_AT:
            return one.seen
        case FleetSort.CREATED_AT:
            return one.created
        case FleetSort.SOC:
            return one.soc if one.fresh else None
        case FleetSort.ENERGY_TODAY:
            return one.today
        case FleetSort.ALERT:
            return one.worst
    return one.power[sort.value] if one.fresh and one.power else None


def in_order(plants: Sequence[Made], sort: FleetSort, order: SortOrder) -> list[UUID]:
    """Return ids: those without a value last, equal ones by id."""
    by_id = sorted(plants, key=lambda one: one.id)
    valued = sorted(
        (one for one in by_id if key_of(one, sort) is not None),
        key=lambda one: key_of(one, sort),
        reverse=order is SortOrder.DESC,
    )
    return [one.id for one in (*valued, *(one for one in by_id if key_of(one, sort) is None))]


FILTERS = st.builds(
    FleetFilter,
    search=st.none()
    | st.sampled_from(["roof", "ROOF 2", "ü", "Ü", "%", "_", "\\", "sn-1", "'"])
    | st.text("aO1 %", max_size=3),
    statuses=st.frozensets(st.sampled_from(PlantStatus)),
    lifecycles=st.frozensets(st.sampled_from(Lifecycle)),
    alert=st.none() | st.sampled_from(AlertCondition),
    refused=st.none() | st.booleans(),
)


def test_every_combination_selects_and_sorts_as_a_plain_comparison_does(database_url: str) -> None:
    with asyncio.Runner() as runner:
        opened = open_database(database_url, name="test", size=2)
        world = runner.run(make_world(runner.run(opened.__aenter__())))
        ours = [one.id for one in world.plants if one.org == world.ours]
        scopes = [
            member(world.ours),
            member(world.theirs),
            member(world.ours, frozenset(ours[:20])),
            member(world.ours, frozenset()),
        ]

        async def pages(scope: OrgScope, which: FleetFilter, paging: FleetPaging) -> tuple[list[FleetPlant], set[int]]:
            found: list[FleetPlant] = []
            totals = set()
            while True:
                async with world.database.transaction() as db:
                    page = await list_fleet(db, scope, which, paging)
                found += page.data
                totals.add(page.meta.total)
                assert len(page.data) <= paging.limit
                if page.meta.next_cursor is None:
                    return found, totals
                paging = replace(paging, after=decode_position(page.meta.next_cursor))

        @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
        @given(
            FILTERS,
            st.sampled_from([None, world.group, new_id()]),
            st.sampled_from([None, *world.templates, new_id()]),
            st.sampled_from(scopes),
            st.sampled_from(FleetSort),
            st.sampled_from(SortOrder),
            st.sampled_from([3, 7, 500]),
        )
        def compare(
            some: FleetFilter,
            group: UUID | None,
            template: UUID | None,
            scope: OrgScope,
            sort: FleetSort,
            order: SortOrder,
            limit: int,
        ) -> None:
            which = replace(some, group_id=group, template_id=template)
            found, totals = runner.run(pages(scope, which, FleetPaging(sort, order, limit)))
            expected = [one for one in world.of(scope) if matches(world, one, which)]
            assert [one.id for one in found] == in_order(expected, sort, order)
            assert totals == {len(expected)}

        try:
            compare()
            shown, _ = runner.run(pages(scopes[0], FleetFilter(), FleetPaging()))
            assert_rows_show_what_is_stored(world, shown)
            for scope in scopes:
                assert_totals_are_sums(world.of(scope), runner.run(_summary(world, scope)), world.first)
        finally:
            runner.run(opened.__aexit__(None, None, None))


async def _summary(world: World, scope: OrgScope) -> FleetSummary:
    async with world.database.transaction() as db:
        return await fleet_summary(db, scope)


def assert_rows_show_what_is_stored(world: World, shown: Sequence[FleetPlant]) -> None:
    """Compare each row with its plant."""
    by_id = {one.id: one for one in world.plants}
    for row in shown:
        one = by_id[row.id]
        assert (row.name, row.serial_number, row.status, row.lifecycle_status) == (
            one.name,
            one.serial,
            one.status,
            one.lifecycle,
        )
        assert (row.template_id, row.last_seen_at, row.created_at) == (one.template, one.seen, one.created)
        assert (row.open_alerts, row.worst_alert) == (len(one.alerts), None if one.worst is None else SEVERITIES[one.worst])
        assert (None if row.energy_today is None else row.energy_today.produced) == one.today
        assert (row.soc, row.last_refused_at) == (one.soc, one.refused)
        if row.power is None:
            assert one.power is None
        else:
            power = row.power
            assert one.power == dict(zip(POWERS, (power.pv_kw, power.battery_kw, power.grid_kw, power.load_kw), strict=True))
            assert (power.measured_at, power.fresh) == (one.measured, one.fresh)


def assert_totals_are_sums(plants: Sequence[Made], found: FleetSummary, first: Made) -> None:
    """Compare the totals with plain sums."""

    def number(condition: Any) -> int:
        return sum(1 for one in plants if condition(one))

    def sums(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    fresh = [one for one in plants if one.fresh]
    stored = [one for one in fresh if one.soc is not None and one.capacity is not None]
    assert found.plants == len(plants)
    assert [found.status.online, found.status.offline, found.status.unknown] == [
        number(lambda one, s=status: one.status is s) for status in PlantStatus
    ]
    assert found.offline_in_use == number(
        lambda one: one.status is PlantStatus.OFFLINE and one.lifecycle is not Lifecycle.DECOMMISSIONED
    )
    lifecycles = found.lifecycle_status
    assert [lifecycles.pending, lifecycles.active, lifecycles.suspended, lifecycles.decommissioned] == [
        number(lambda one, s=lifecycle: one.lifecycle is s) for lifecycle in Lifecycle
    ]
    alerts = found.alerts
    assert [alerts.info, alerts.warning, alerts.critical, alerts.emergency] == [
        sum(one.alerts.count(severity) for one in plants) for severity in SEVERITIES
    ]
    assert alerts.plants == number(lambda one: one.alerts)
    power = found.power
    assert [power.pv_kw, power.battery_kw, power.grid_kw, power.load_kw] == [
        sums([one.power[name] for one in fresh if one.power]) for name in POWERS
    ]
    assert (power.fresh_plants, power.stale_plants) == (
        len(fresh),
        number(lambda one: one.measured and not one.fresh and one.lifecycle is not Lifecycle.DECOMMISSIONED),
    )
    assert (found.storage.stored_kwh, found.storage.usable_kwh, found.storage.plants) == (
        sum((one.soc or 0) / 100 * (one.capacity or 0) for one in stored),
        sum(one.capacity or 0 for one in stored),
        len(stored),
    )
    assert found.energy_today.produced == sum(one.today or 0 for one in plants)
    before = 5 if first in plants and found.as_of.day > 1 else 0
    assert found.energy_month is not None
    assert found.energy_month.imported == found.energy_today.imported + before
    assert found.energy_month.produced == found.energy_today.produced


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu"])
async def test_the_day_and_its_month_are_those_of_the_organisations_zone(database: Database, zone: str) -> None:
    """At any time one of the first two has another day than UTC."""
    plants = [await RecordedPlant.create(database)]
    plants += [RecordedPlant(database, plants[0].organization_id, await add_plant(database, plants[0].organization_id))]
    now = datetime.now(ZoneInfo(zone))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    async with database.transaction() as db:
        await db.execute("UPDATE organization SET time_zone = %s WHERE id = %s", (zone, plants[0].organization_id))
        for plant, day in zip(plants, (now.date(), now.date() - timedelta(days=1)), strict=True):
            await db.execute(
                "INSERT INTO plant_power (plant_id, energy_day, produced_kwh, imported_kwh, exported_kwh, charged_kwh,"
                " discharged_kwh) VALUES (%s, %s, 7, 0, 0, 0, 0)",
                (plant.id, day),
            )
        for hours in (-2, 1):
            await db.execute(
                "INSERT INTO fleet_energy (organization_id, hour, energies) VALUES (%s, date_trunc('hour', %s), %s)",
                (plants[0].organization_id, midnight + hours * timedelta(hours=1), [1_000_000] * 20),
            )
    async with database.transaction() as db:
        found = await fleet_summary(db, plants[0].org)
        shown = (await list_fleet(db, plants[0].org, FleetFilter(), FleetPaging())).data
    assert (found.energy_today.produced, found.energy_today.imported) == (7.0, 0.0)
    assert found.energy_month is not None
    before = 4.0 if now.day > 1 else 0.0
    assert (found.energy_month.produced, found.energy_month.imported) == (7.0 + before, before)
    assert {one.id: one.energy_today and one.energy_today.produced for one in shown} == {plants[0].id: 7.0, plants[1].id: None}


async def test_plans_are_made_for_each_organisation(database: Database) -> None:
    """A plan that PostgreSQL keeps is made for organisations of average size, and reads many plants one by one."""
    plant = await RecordedPlant.create(database)
    async with database.transaction() as db:
        await fleet_summary(db, plant.org)
        await list_fleet(db, plant.org, FleetFilter(), FleetPaging(FleetSort.PV))
        await places_as_geojson(db, plant.org, None, 10)
        cursor = await db.execute("SELECT statement FROM pg_prepared_statements")
        assert [row[0] for row in await cursor.fetchall() if "FROM plant" in row[0]] == []
