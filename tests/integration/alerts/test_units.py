"""Rules whose measurement changes its unit by an edit of its template."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from gridfleet.domains.alerts.models import AlertRule, Condition, RuleChanges
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.registry import get_rule, update_rule
from gridfleet.domains.notifications.models import Channel, Severity
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.domains.telemetry.units import converted
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Connection
from support.builders.accounts import add_member, add_user
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.clients.ingest_bench import Bench, BenchPlant


class Inverter:
    """A plant with one sub-device that measures `x` in a unit which can be edited."""

    def __init__(self, bench: Bench, plant: BenchPlant, template_id: UUID | None) -> None:
        self.bench = bench
        self.plant = plant
        self.template_id = template_id

    @classmethod
    async def create(cls, bench: Bench, unit: str) -> "Inverter":
        plant = await bench.plant()
        user = await add_user(bench.database)
        await add_member(bench.database, plant.organization_id, user.id, OrgRole.OPERATOR)
        return cls(bench, plant, await plant.add_device("inv", [{"key": "x", "field": "x", "unit": unit}]))

    async def edit(self, unit: str) -> None:
        """Change the unit in the template."""
        async with self.bench.database.transaction() as db:
            await db.execute(
                "UPDATE device_template SET version = version + 1, signals = %s WHERE id = %s",
                (Jsonb([{"key": "x", "field": "x", "unit": unit}]), self.template_id),
            )
        self.bench.pipeline.plant_cache.invalidate_all()

    async def say(self, seconds_ago: float, value: float) -> None:
        """One value; the pipeline knows of no rule that has changed meanwhile, so it forgets them."""
        self.bench.pipeline.rule_cache.invalidate_all()
        await self.bench.take(self.plant.message(snapshot(ago(seconds_ago), inv={"x": value})))

    async def rule(self, **changes: Any) -> AlertRule:
        return await add_rule(self.bench.database, self.plant.organization_id, metric="x", name="Rule", **changes)

    async def change(self, rule: AlertRule, **changes: Any) -> None:
        async with self.bench.database.transaction() as db:
            await update_rule(db, operator(self.plant.organization_id), rule.id, RuleChanges(**changes))

    async def unit_of(self, rule: AlertRule) -> str | None:
        async with self.bench.database.transaction() as db:
            return (await get_rule(db, operator(self.plant.organization_id), rule.id)).unit

    async def messages(self) -> list[str]:
        return [alert.message for alert in await alerts_of(self.bench.database, self.plant.organization_id)]

    async def notices(self) -> list[tuple[str]]:
        return await self.plant.rows(
            "SELECT DISTINCT body FROM notification_log WHERE subject LIKE 'Alert rule%%' AND %s::uuid IS NOT NULL"
        )


async def test_a_rule_keeps_its_unit_and_is_compared_in_the_measurements(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "W")
    await inverter.say(100, 900)
    rule = await inverter.rule(threshold=50.0)
    assert rule.unit == "W"
    await inverter.edit("kW")
    await inverter.say(90, 0.9)
    assert await inverter.messages() == [], "900 W are not below 50 W"
    await inverter.say(80, 0.04)
    assert await inverter.messages() == ["Rule: inv.x of Plant is 0.04 kW, below 0.05 kW"]
    assert await inverter.notices() == []


@pytest.mark.parametrize("condition", list(Condition))
async def test_a_converted_threshold_is_the_decimal_that_was_written(bench: Bench, condition: Condition) -> None:
    """2.01 × 1000 is 2009.9999999999998, and 16.1 × 1000 is 16100.000000000002."""
    inverter = await Inverter.create(bench, "W")
    threshold = 2.01 if condition is Condition.GT else 16.1
    await inverter.rule(threshold=threshold, condition=condition, unit="kW")
    await inverter.say(90, round(threshold * 1_000))
    expected = ["Rule: inv.x of Plant is 16100 W, equal to 16100 W"] if condition is Condition.EQ else []
    assert await inverter.messages() == expected


async def test_an_alert_clears_at_its_converted_threshold(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "W")
    await inverter.say(100, 900)
    await inverter.rule(threshold=50.0, clear_threshold=100.0, auto_resolve=True)
    await inverter.say(90, 40)
    await inverter.edit("kW")
    await inverter.say(80, 0.09)
    assert [alert.status for alert in await alerts_of(bench.database, inverter.plant.organization_id)] == ["ACTIVE"]
    await inverter.say(70, 0.1)
    assert [alert.status for alert in await alerts_of(bench.database, inverter.plant.organization_id)] == ["RESOLVED"]


async def test_a_rule_without_a_conversion_raises_nothing_and_its_members_are_notified_once(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "°C")
    await inverter.say(100, 20)
    rule = await inverter.rule(threshold=40.0, condition=Condition.GT)
    await inverter.edit("K")
    for seconds_ago in (90, 80):
        await inverter.say(seconds_ago, 293)
    assert await inverter.messages() == []
    ((body,),) = await inverter.notices()
    assert body.startswith("inv.x of Plant is measured in K, but the thresholds of the rule Rule are in °C")
    await inverter.change(rule, unit="K", threshold=313.0)
    await inverter.say(70, 320)
    assert await inverter.messages() == ["Rule: inv.x of Plant is 320 K, above 313 K"]


async def test_the_members_are_notified_of_a_unit_although_warnings_have_used_up_their_half_of_the_hour(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification is claimed once, so it would never be sent."""
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AN_HOUR", dict.fromkeys(Channel, 4))
    inverter = await Inverter.create(bench, "°C")
    await inverter.say(100, 20)
    await inverter.rule(threshold=40.0, condition=Condition.GT, severity=Severity.WARNING)
    warning = NotificationContent("warning", "body", {})
    async with bench.database.transaction() as db:
        assert await notify_each(db, [Notification(inverter.plant.organization_id, warning, None, Severity.WARNING)] * 4) == 2
    await inverter.edit("K")
    await inverter.say(90, 293)
    assert len(await inverter.notices()) == 1
    channels = await inverter.plant.rows(
        "SELECT channel FROM notification_log JOIN membership USING (user_id) WHERE organization_id ="
        " (SELECT organization_id FROM plant WHERE id = %s) AND subject LIKE 'Alert rule%%'"
    )
    assert channels == [("EMAIL",)], "by the channels that its recipients want for the rule's severity"


async def test_a_rule_that_is_older_than_its_first_value_takes_that_values_unit(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "W")
    rule = await inverter.rule(threshold=50.0)
    assert rule.unit is None
    await inverter.say(100, 900)
    assert await inverter.unit_of(rule) == "W"
    await inverter.edit("kW")
    await inverter.say(90, 0.9)
    assert await inverter.messages() == []


async def test_a_rule_gets_its_unit_after_the_pause_of_its_organisation(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It got none for as long as its devices sent the same fields."""
    inverter = await Inverter.create(bench, "W")
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.SLOW_ADOPT_SECONDS", 0.0)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.ADOPT_PAUSE_SECONDS", 4.0)
    first = await inverter.rule(threshold=50.0)
    await inverter.say(100, 900)
    second = await inverter.rule(threshold=60.0)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET unit = NULL WHERE id = %s", (second.id,))  # as that of an earlier rule
    bench.pipeline.rule_cache.invalidate_all()
    await inverter.say(95, 900)
    assert [await inverter.unit_of(rule) for rule in (first, second)] == ["W", None]
    await asyncio.sleep(4)
    await bench.take(inverter.plant.message(snapshot(ago(90), inv={"x": 900})))
    assert await inverter.unit_of(second) == "W"


async def test_units_that_take_long_to_find_do_not_delay_other_organisations_again_and_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An organisation may have a million layouts of devices, and any number of new rules."""
    slow, other = await Inverter.create(bench, "W"), await Inverter.create(bench, "W")
    tried: list[UUID] = []

    async def look_up(db: Connection, rules: Sequence[AlertRule]) -> dict[UUID, set[str]]:
        tried.extend(rule.organization_id for rule in rules)
        if rules[0].organization_id == slow.plant.organization_id:
            await db.execute("SELECT pg_sleep(30)")
        return {}

    monkeypatch.setattr("gridfleet.domains.alerts.rules.store.layout_units", look_up)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.MOST_ADOPT_SECONDS", 0.6)
    for seconds_ago in (100, 90):
        rules = [await one.rule(threshold=50.0) for one in (slow, other)]
        async with bench.database.transaction() as db:
            await db.execute("UPDATE alert_rule SET unit = NULL")  # as that of a rule older than its first value
        bench.pipeline.rule_cache.invalidate_all()
        await bench.take(*(one.plant.message(snapshot(ago(seconds_ago), inv={"x": 900})) for one in (slow, other)))
        assert [await one.unit_of(rule) for one, rule in zip((slow, other), rules, strict=True)] == [None, "W"]
    assert tried.count(slow.plant.organization_id) == 1
    assert (
        len(await slow.plant.rows("SELECT FROM telemetry_frame JOIN telemetry_source ON id = source_id WHERE plant_id = %s"))
        == 2
    )


async def test_a_unit_that_is_not_read_in_time_is_read_after_a_pause(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    inverter = await Inverter.create(bench, "W")
    look_up, tries = store.layout_units, itertools.count()

    async def look_up_late(db: Connection, rules: Sequence[AlertRule]) -> dict[UUID, set[str]]:
        if next(tries) == 0:
            await db.execute("SELECT pg_sleep(30)")
        return await look_up(db, rules)

    monkeypatch.setattr("gridfleet.domains.alerts.rules.store.layout_units", look_up_late)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.MOST_ADOPT_SECONDS", 0.6)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.ADOPT_PAUSE_SECONDS", 8.0)
    rule = await inverter.rule(threshold=50.0)
    await inverter.say(100, 900)
    assert await inverter.unit_of(rule) is None
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.MOST_ADOPT_SECONDS", 20.0)
    await asyncio.sleep(8)
    await bench.take(inverter.plant.message(snapshot(ago(90), inv={"x": 900})))
    assert await inverter.unit_of(rule) == "W"


async def test_a_batch_waits_for_the_units_of_one_organization_at_most(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    inverters = [await Inverter.create(bench, "W") for _ in range(3)]
    tried: list[UUID] = []

    async def look_up(db: Connection, rules: Sequence[AlertRule]) -> dict[UUID, set[str]]:
        tried.extend({rule.organization_id for rule in rules})
        await db.execute("SELECT pg_sleep(30)")
        return {}

    monkeypatch.setattr("gridfleet.domains.alerts.rules.store.layout_units", look_up)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.MOST_ADOPT_SECONDS", 0.1)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.ADOPT_PAUSE_SECONDS", 15.0)
    for inverter in inverters:
        await inverter.rule(threshold=50.0)
    await bench.take(*(one.plant.message(snapshot(ago(100), inv={"x": 900})) for one in inverters))
    assert len(tried) == 3, "all of them are new"
    await asyncio.sleep(15)
    for number in range(1, 4):
        await asyncio.sleep(1)
        await bench.take(inverters[0].plant.message(snapshot(ago(90 - number), inv={"x": 900})))
        assert len(tried) == 3 + number
    assert sorted(tried[3:]) == sorted(tried[:3])


async def test_a_deleted_rule_is_not_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    inverter = await Inverter.create(bench, "W")
    tried: list[UUID] = []

    async def look_up(db: Connection, rules: Sequence[AlertRule]) -> dict[UUID, set[str]]:
        tried.extend(rule.id for rule in rules)
        await db.execute("SELECT pg_sleep(30)")
        return {}

    monkeypatch.setattr("gridfleet.domains.alerts.rules.store.layout_units", look_up)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.MOST_ADOPT_SECONDS", 0.1)
    monkeypatch.setattr("gridfleet.domains.alerts.rule_cache.ADOPT_PAUSE_SECONDS", 1.0)
    deleted, kept = [await inverter.rule(threshold=threshold) for threshold in (50.0, 60.0)]
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET unit = NULL")
    bench.pipeline.rule_cache.invalidate_all()
    await inverter.say(100, 900)
    assert set(tried) == {deleted.id, kept.id}
    async with bench.database.transaction() as db:
        await db.execute("DELETE FROM alert_rule WHERE id = %s", (deleted.id,))
    bench.pipeline.rule_cache.invalidate(str(inverter.plant.organization_id))
    for seconds_ago in (95, 90):
        await asyncio.sleep(2)
        await bench.take(inverter.plant.message(snapshot(ago(seconds_ago), inv={"x": 900})))
    assert set(tried[2:]) == {kept.id}


async def test_measurements_of_several_units_are_compared_as_numbers(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "W")
    await inverter.plant.add_device("old", [{"key": "x", "field": "x", "unit": "kW"}])
    await inverter.say(100, 900)
    await bench.take(inverter.plant.message(snapshot(ago(95), old={"x": 900})))
    rule = await inverter.rule(threshold=50.0)
    assert rule.unit is None
    await inverter.say(90, 40)
    assert await inverter.unit_of(rule) is None
    assert await inverter.messages() == ["Rule: inv.x of Plant is 40 W, below 50 W"]


async def test_a_measurement_without_a_unit_is_compared_as_a_number(bench: Bench) -> None:
    inverter = await Inverter.create(bench, "")
    await inverter.say(100, 900)
    rule = await inverter.rule(threshold=50.0)
    assert rule.unit is None
    await inverter.edit("W")
    await inverter.say(90, 40)
    assert await inverter.messages() == ["Rule: inv.x of Plant is 40 W, below 50 W"]
    assert await inverter.unit_of(rule) == "W"


@pytest.mark.parametrize(
    ("value", "unit", "to", "expected"),
    [
        (900.0, "W", "kW", 0.9),
        (0.57, "MW", "kW", 570.0),
        (2.01, "MW", "kW", 2010.0),
        (-1e-07, "kW", "W", -0.0001),
        (4.1, "W", "kW", 0.0041),
        (1e308, "MWh", "Wh", 1.7976931348623157e308),
        (1.0, "W", "Wh", None),
        (1.0, "°C", "K", None),
        (1.0, "%", "%", 1.0),
    ],
)
def test_conversions(value: float, unit: str, to: str, expected: float | None) -> None:
    assert converted(value, unit, to) == expected
