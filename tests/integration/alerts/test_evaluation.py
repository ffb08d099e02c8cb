"""From a plant's message to an alert, in the batch's own transaction."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.alerts.actions import acknowledge, resolve
from gridfleet.domains.alerts.deletion import delete_sub_device, revoke_plant
from gridfleet.domains.alerts.models import AlertRule, AlertStatus, Condition, RuleChanges, Severity
from gridfleet.domains.alerts.moves import follow_moves
from gridfleet.domains.alerts.rules.registry import delete_rule, update_rule
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.plants.sub_devices.models import SubDeviceChanges
from gridfleet.domains.plants.sub_devices.registry import update_sub_device
from gridfleet.domains.telemetry.latest.queries import latest_points
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import open_database
from gridfleet.kernel.ids import new_id
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.builders.interleaving import until_blocked
from support.clients.ingest_bench import Bench, BenchPlant


async def say(
    bench: Bench, plant: BenchPlant, seconds_ago: float, fields: dict[str, Any] | None = None, **devices: Any
) -> None:
    """One message of a plant, written."""
    await bench.take(plant.message(snapshot(ago(seconds_ago), fields, **devices)))


async def change_rule(bench: Bench, rule: AlertRule, changes: RuleChanges) -> None:
    """Change a rule, with the running pipeline informed as by the database's notification."""
    async with bench.database.transaction() as db:
        await update_rule(db, operator(rule.organization_id), rule.id, changes)
    bench.pipeline.rule_cache.invalidate(str(rule.organization_id))


async def end_cooldown(bench: Bench, rule: AlertRule) -> None:
    """Move the rule's last alert past its cooldown."""
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET last_triggered_at = now() - interval '1 hour' WHERE id = %s", (rule.id,))


async def statuses(bench: Bench, plant: BenchPlant) -> list[AlertStatus]:
    """Return the statuses of the organisation's alerts, oldest first."""
    return [alert.status for alert in await alerts_of(bench.database, plant.organization_id)]


async def test_a_match_raises_one_alert_that_names_everything(bench: Bench) -> None:
    plant = await bench.plant(["bat1"])
    rule = await add_rule(bench.database, plant.organization_id, severity=Severity.CRITICAL)

    await say(bench, plant, 5, bat1={"soc": 9.5})

    (alert,) = await alerts_of(bench.database, plant.organization_id)
    assert alert.message == "Low battery: bat1.soc of Plant is 9.5, below 10"
    assert (alert.plant_id, alert.status, alert.severity) == (plant.id, AlertStatus.ACTIVE, Severity.CRITICAL)
    ((last,),) = await plant.rows(f"SELECT last_triggered_at FROM alert_rule WHERE id = '{rule.id}' AND %s::uuid IS NOT NULL")
    assert last is not None


@pytest.mark.parametrize(
    ("metric", "raised"),
    [("soc", {"soc", "bat1.soc", "bat2.soc"}), ("bat1.soc", {"bat1.soc"}), ("bat3.soc", set()), ("so", set())],
)
async def test_metrics_are_found_by_key_in_plant_and_devices_or_by_device_and_key(
    bench: Bench, metric: str, raised: set[str]
) -> None:
    found = set()
    for place in ("plant", "bat1", "bat2"):
        plant = await bench.plant(["bat1", "bat2"])
        await add_rule(bench.database, plant.organization_id, metric=metric)
        await say(
            bench,
            plant,
            5,
            {"soc": 5 if place == "plant" else 50},
            **{device: {"soc": 5 if place == device else 50} for device in ("bat1", "bat2")},
        )
        found |= {
            alert.message.split(": ")[1].split(" of ")[0] for alert in await alerts_of(bench.database, plant.organization_id)
        }
    assert found == raised


@pytest.mark.parametrize(
    ("condition", "value", "raises"),
    [("LT", 9, True), ("LT", 10, False), ("GT", 11, True), ("GT", 10, False), ("EQ", 10, True), ("EQ", 10.1, False)],
)
async def test_conditions(bench: Bench, condition: str, value: float, raises: bool) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, condition=Condition(condition))
    await say(bench, plant, 5, {"soc": value})
    assert len(await alerts_of(bench.database, plant.organization_id)) == raises


@pytest.mark.parametrize(("condition", "raises"), [("LT", False), ("GT", False), ("EQ", True)])
async def test_a_scaled_value_equals_its_decimal(bench: Bench, condition: str, raises: bool) -> None:
    plant = await bench.plant()
    await plant.add_device("BAT1", [{"key": "soc", "field": "s", "unit": "%", "scale": 0.1, "max": 41.3}])
    await add_rule(bench.database, plant.organization_id, condition=Condition(condition), threshold=41.3)
    await bench.take(plant.message(snapshot(ago(1), BAT1={"s": 413})))
    assert bool(await alerts_of(bench.database, plant.organization_id)) is raises
    async with bench.database.transaction() as db:
        [point] = await latest_points(db, operator(plant.organization_id), plant.id)
    assert (point.value, point.metadata) == (41.3, {"subDevice": "BAT1"})


async def test_old_points_other_plants_disabled_rules_and_strangers_raise_nothing(bench: Bench) -> None:
    plant, other = await bench.plant(), await bench.plant()
    await add_rule(bench.database, plant.organization_id)
    await say(bench, plant, 16 * 60, {"soc": 5})
    await say(bench, other, 5, {"soc": 5})
    assert await alerts_of(bench.database, plant.organization_id) == []
    assert await alerts_of(bench.database, other.organization_id) == []
    await add_rule(bench.database, other.organization_id, enabled=False)
    bench.pipeline.rule_cache.invalidate_all()
    await say(bench, other, 4, {"soc": 5})
    assert await alerts_of(bench.database, other.organization_id) == []


async def test_the_cooldown_is_the_rules_and_ends(bench: Bench) -> None:
    plant = await bench.plant(["a", "b"])
    rule = await add_rule(bench.database, plant.organization_id, cooldown_minutes=1)
    await say(bench, plant, 5, a={"soc": 5})
    await say(bench, plant, 4, b={"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET last_triggered_at = now() - interval '61 seconds' WHERE id = %s", (rule.id,))
    await say(bench, plant, 3, b={"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 2


async def test_a_batch_that_is_rolled_back_and_written_again_raises_once(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id)
    batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), {"soc": 5}))])
    with contextlib.suppress(RuntimeError):
        async with bench.database.transaction() as db:
            await bench.pipeline.store(db, batch)
            raise RuntimeError("the process was killed")
    assert await alerts_of(bench.database, plant.organization_id) == []
    async with bench.database.transaction() as db:
        await bench.pipeline.store(db, batch)
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1


async def test_four_workers_and_a_thousand_matching_points_make_one_alert(bench: Bench) -> None:
    plants = [await bench.plant(["bat"]) for _ in range(4)]
    organization_id = plants[0].organization_id
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant SET organization_id = %s", (organization_id,))
        await db.execute("UPDATE sub_device SET organization_id = %s", (organization_id,))
    rules = [await add_rule(bench.database, organization_id, name=f"rule {number}") for number in range(3)]

    async def work(plant: BenchPlant) -> None:
        async with open_database(bench.database.url, name="worker", size=2) as database:
            own = Bench(database, bench.keyring)
            for start in range(0, 250, 25):
                await own.take(*(plant.message(snapshot(ago(300 - n), bat={"soc": n % 10})) for n in range(start, start + 25)))

    await asyncio.gather(*map(work, plants))
    alerts = await alerts_of(bench.database, organization_id)
    assert sorted(alert.message.split(":")[0] for alert in alerts) == [rule.name for rule in rules]


async def test_a_condition_must_hold_for_its_time_across_batches_and_processes(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, for_seconds=60)

    async def raised_after(*readings: tuple[float, float]) -> int:
        for seconds_ago, value in readings:
            bench.pipeline = bench.another_process()
            await say(bench, plant, seconds_ago, {"soc": value})
        return len(await alerts_of(bench.database, plant.organization_id))

    assert await raised_after((300, 5), (250, 5), (235, 5)) == 1
    assert "for 60 s" in (await alerts_of(bench.database, plant.organization_id))[0].message


async def test_a_break_begins_the_time_anew(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, for_seconds=60)
    for seconds_ago, value in [(300, 5), (250, 5), (245, 50), (240, 5), (190, 5)]:
        await say(bench, plant, seconds_ago, {"soc": value})
    assert await alerts_of(bench.database, plant.organization_id) == []
    await say(bench, plant, 180, {"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1


async def test_an_alert_clears_at_its_threshold_and_may_come_again(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, clear_threshold=20.0, auto_resolve=True, cooldown_minutes=1)

    async def after(seconds_ago: float, value: float) -> list[AlertStatus]:
        async with bench.database.transaction() as db:
            await db.execute("UPDATE alert_rule SET last_triggered_at = now() - interval '1 hour' WHERE id = %s", (rule.id,))
        await say(bench, plant, seconds_ago, {"soc": value})
        return [alert.status for alert in await alerts_of(bench.database, plant.organization_id)]

    active, resolved = AlertStatus.ACTIVE, AlertStatus.RESOLVED
    assert await after(100, 5) == [active]
    assert await after(90, 15) == [active]
    assert await after(80, 5) == [active]
    assert await after(70, 20) == [resolved]
    assert await after(60, 15) == [resolved]
    assert await after(50, 9) == [resolved, active]
    assert await after(55, 50) == [resolved, active], "what came late clears nothing newer"
    assert await after(40, 25) == [resolved, resolved]


async def test_a_late_value_does_not_clear_an_alert_whose_condition_still_holds(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    for seconds_ago, value in [(100, 5), (60, 5), (80, 50)]:
        await say(bench, plant, seconds_ago, {"soc": value})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE]
    await say(bench, plant, 50, {"soc": 50})
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]


async def test_a_run_within_one_batch_counts_like_many_batches(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await bench.take(plant.message([snapshot(ago(100 - n), {"soc": value}) for n, value in enumerate([50, 5, 5, 50])]))
    (alert,) = await alerts_of(bench.database, plant.organization_id)
    assert alert.status is AlertStatus.RESOLVED


async def test_one_that_a_person_resolved_may_come_again(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})
    (alert,) = await alerts_of(bench.database, plant.organization_id)
    async with bench.database.transaction() as db:
        first = await resolve(db, operator(plant.organization_id), alert.id)
        await db.execute("UPDATE alert_rule SET last_triggered_at = NULL WHERE id = %s", (rule.id,))
    async with bench.database.transaction() as db:
        again = await resolve(db, operator(plant.organization_id), alert.id)
        late = await acknowledge(db, operator(plant.organization_id), alert.id)
    assert first == again == late
    assert first.acknowledged_at is not None
    await say(bench, plant, 90, {"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 2


async def test_one_that_a_person_resolves_while_a_batch_is_stored_may_come_again(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})
    (alert,) = await alerts_of(bench.database, plant.organization_id)
    async with bench.database.transaction() as holding:
        await holding.execute("SELECT FROM plant WHERE id = %s FOR UPDATE", (plant.id,))
        storing = asyncio.create_task(say(bench, plant, 90, {"soc": 5}))
        await until_blocked(bench.database)
        async with bench.database.transaction() as db:
            await resolve(db, operator(plant.organization_id), alert.id)
    await storing
    await end_cooldown(bench, rule)
    await say(bench, plant, 80, {"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED, AlertStatus.ACTIVE]


async def test_changed_rules_start_afresh_and_deleted_ones_leave_their_alerts(bench: Bench) -> None:
    plant = await bench.plant()
    org = operator(plant.organization_id)
    rule = await add_rule(bench.database, plant.organization_id, for_seconds=60)
    await say(bench, plant, 200, {"soc": 5})
    async with bench.database.transaction() as db:
        await update_rule(db, org, rule.id, RuleChanges(threshold=8.0))
    bench.pipeline.rule_cache.invalidate(str(plant.organization_id))
    await say(bench, plant, 130, {"soc": 5})
    assert await alerts_of(bench.database, plant.organization_id) == []
    await say(bench, plant, 60, {"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1
    async with bench.database.transaction() as db:
        await delete_rule(db, org, rule.id)
    await say(bench, plant, 50, {"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1


@pytest.mark.parametrize(
    "changes",
    [
        RuleChanges(name="Renamed", severity=Severity.CRITICAL, cooldown_minutes=2),
        RuleChanges(threshold=8.0, for_seconds=0),
        RuleChanges(clear_threshold=20.0),
        RuleChanges(enabled=True),
    ],
)
async def test_an_open_alert_of_a_changed_rule_is_not_repeated_and_resolves(bench: Bench, changes: RuleChanges) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})

    await change_rule(bench, rule, changes)
    await end_cooldown(bench, rule)
    await say(bench, plant, 90, {"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE], "the metric has an open alert"

    await say(bench, plant, 80, {"soc": 50})
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]


async def test_an_open_alert_resolves_by_the_changed_condition(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})
    await change_rule(bench, rule, RuleChanges(threshold=3.0))
    await say(bench, plant, 90, {"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]


async def test_a_rule_that_is_off_for_a_while_resolves_its_open_alert_afterwards(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})
    await change_rule(bench, rule, RuleChanges(enabled=False))
    await say(bench, plant, 90, {"soc": 50})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE]
    await change_rule(bench, rule, RuleChanges(enabled=True))
    await say(bench, plant, 80, {"soc": 50})
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]


async def test_a_metric_that_is_watched_again_keeps_its_open_alert(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 100, {"soc": 5})
    await change_rule(bench, rule, RuleChanges(metric="voltage"))
    await change_rule(bench, rule, RuleChanges(metric="soc"))
    await end_cooldown(bench, rule)
    await say(bench, plant, 90, {"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE]


async def test_a_rule_that_no_longer_latches_repeats_after_its_cooldown(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, for_seconds=5, auto_resolve=True)
    for seconds_ago in (100, 90):
        await say(bench, plant, seconds_ago, {"soc": 5})
    await change_rule(bench, rule, RuleChanges(auto_resolve=False))
    await end_cooldown(bench, rule)
    for seconds_ago in (80, 70):
        await say(bench, plant, seconds_ago, {"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE, AlertStatus.ACTIVE]


@pytest.mark.parametrize(
    ("changes", "raised"),
    [
        (RuleChanges(name="Renamed", threshold=10.0, metric="soc"), 1),
        (RuleChanges(for_seconds=65), 1),
        (RuleChanges(threshold=8.0), 0),
        (RuleChanges(enabled=False), 0),
    ],
)
async def test_only_a_change_of_the_condition_restarts_its_time(bench: Bench, changes: RuleChanges, raised: int) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, for_seconds=60)
    await say(bench, plant, 200, {"soc": 5})
    await change_rule(bench, rule, changes)
    await change_rule(bench, rule, RuleChanges(enabled=True))
    await say(bench, plant, 130, {"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == raised


async def test_a_plant_that_moves_takes_its_alerts_and_rules_along(bench: Bench) -> None:
    plant, other = await bench.plant(), await bench.plant()
    await add_rule(bench.database, plant.organization_id, plant_id=plant.id)
    await say(bench, plant, 100, {"soc": 5})
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (other.organization_id, plant.id))
    assert await alerts_of(bench.database, plant.organization_id) == []
    await follow_moves(bench.database)
    assert len(await alerts_of(bench.database, other.organization_id)) == 1
    assert await plant.rows("SELECT organization_id FROM alert_rule WHERE plant_id = %s") == [(other.organization_id,)]


async def test_a_long_silence_breaks_a_run(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, for_seconds=60)
    await say(bench, plant, 10, {"soc": 5})
    async with bench.database.transaction() as db:
        away = timedelta(minutes=20)
        await db.execute(
            "UPDATE alert_state SET since = since - %s, seen_at = seen_at - %s WHERE rule_id = %s", (away, away, rule.id)
        )
    await say(bench, plant, 5, {"soc": 5})
    assert await alerts_of(bench.database, plant.organization_id) == []


async def test_rules_that_change_while_a_batch_is_examined_still_watch_it(bench: Bench) -> None:
    known, new = await bench.plant(), await bench.plant()
    await add_rule(bench.database, known.organization_id)
    await say(bench, known, 10, {"soc": 50})
    async with bench.database.transaction() as db:
        await db.execute("LOCK TABLE alert_rule")  # the rules of the new plant's places wait here
        reading = asyncio.create_task(
            bench.take(known.message(snapshot(ago(5), {"soc": 5})), new.message(snapshot(ago(5), {"soc": 5})))
        )
        await bench.waiting_for("alert_rule")
        bench.pipeline.rule_cache.invalidate(str(known.organization_id))
    await reading
    assert len(await alerts_of(bench.database, known.organization_id)) == 1


async def test_a_late_match_before_a_value_that_did_not_match_starts_no_time(bench: Bench) -> None:
    plant = await bench.plant(["bat1"])
    await add_rule(bench.database, plant.organization_id, for_seconds=60)
    for seconds_ago, value in [(300, 50), (330, 5), (290, 5), (260, 5)]:
        bench.pipeline = bench.another_process()
        await say(bench, plant, seconds_ago, bat1={"soc": value})
    assert await alerts_of(bench.database, plant.organization_id) == [], "the condition has held for 30 s"
    await say(bench, plant, 225, bat1={"soc": 5})
    assert len(await alerts_of(bench.database, plant.organization_id)) == 1


async def move(bench: Bench, plant: BenchPlant, organization_id: UUID) -> None:
    """Move a plant as a SuperAdmin does, with the running pipeline not yet informed."""
    caller = UserCaller(new_id(), new_id(), "root@example.com", "Root", True, None)
    org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)
    async with bench.database.transaction() as db:
        await update_plant(db, org, plant.id, PlantChanges(organization_id=organization_id))


async def test_a_plant_that_moves_leaves_the_states_of_its_old_organisations_rules_behind(bench: Bench) -> None:
    plant, other = await bench.plant(), await bench.plant()
    await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    own = await add_rule(bench.database, plant.organization_id, auto_resolve=True, plant_id=plant.id)
    await say(bench, plant, 100, {"soc": 5})
    await move(bench, plant, other.organization_id)
    async with bench.database.transaction() as db:
        cursor = await db.execute("SELECT rule_id FROM alert_state")
        assert await cursor.fetchall() == [(own.id,)], "the plant's own rule moves along"


@pytest.mark.parametrize("for_seconds", [0, 60])
async def test_a_batch_that_waits_while_its_plant_moves_raises_and_clears_nothing(bench: Bench, for_seconds: int) -> None:
    plant, other = await bench.plant(), await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True, for_seconds=for_seconds)
    for seconds_ago in (200, 130):
        await say(bench, plant, seconds_ago, {"soc": 5})
    await end_cooldown(bench, rule)
    second = await add_rule(bench.database, plant.organization_id, name="Second", for_seconds=for_seconds)
    bench.pipeline.rule_cache.invalidate(str(plant.organization_id))
    cleared = await bench.pipeline.prepare([plant.message(snapshot(ago(50), {"soc": 50}))])
    raised = await bench.pipeline.prepare([plant.message(snapshot(ago(40), {"soc": 5}))])
    await move(bench, plant, other.organization_id)

    for batch in (cleared, raised):
        async with bench.database.transaction() as db:
            await bench.pipeline.store(db, batch)

    await follow_moves(bench.database)
    assert await statuses(bench, other) == [AlertStatus.ACTIVE], "the one that moved along"
    assert await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL") == []
    assert await plant.rows(f"SELECT last_triggered_at FROM alert_rule WHERE id = '{second.id}' AND %s::uuid IS NOT NULL") == [
        (None,)
    ]


async def test_a_boolean_of_a_signal_meets_a_rule(bench: Bench) -> None:
    plant = await bench.plant()
    await plant.add_device("relay", [{"key": "closed", "field": "closed"}])
    await add_rule(bench.database, plant.organization_id, metric="closed", condition=Condition.EQ, threshold=1.0, name="Relay")

    await say(bench, plant, 5, relay={"closed": True})

    (alert,) = await alerts_of(bench.database, plant.organization_id)
    assert alert.message == "Relay: relay.closed of Plant is 1, equal to 1"


async def test_a_batch_and_the_deletion_of_a_rule_do_not_deadlock(bench: Bench) -> None:
    plant = await bench.plant(["D1", "D2"])
    rule = await add_rule(bench.database, plant.organization_id, auto_resolve=True, for_seconds=60)
    for seconds_ago in (130, 60):
        await say(bench, plant, seconds_ago, D1={"soc": 5})

    async def delete() -> None:
        async with bench.database.transaction() as db:
            await delete_rule(db, operator(plant.organization_id), rule.id)

    async with bench.database.transaction() as holding:
        await holding.execute("SELECT FROM alert_state FOR UPDATE")
        storing = asyncio.create_task(say(bench, plant, 10, D1={"soc": 50}, D2={"soc": 5}))
        await until_blocked(bench.database)
        deleting = asyncio.create_task(delete())
        await until_blocked(bench.database, 2)
    await storing
    await deleting
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]
    assert await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL") == []


async def test_a_deleted_sub_device_resolves_its_alerts_with_auto_resolve(bench: Bench) -> None:
    plant = await bench.plant(["D1", "D2"])
    rules = [
        await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric="D1.soc"),
        await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric="D2.soc"),
        await add_rule(bench.database, plant.organization_id, metric="D1.soc", clear_threshold=20.0),
    ]
    await say(bench, plant, 60, D1={"soc": 5}, D2={"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE] * 3
    await delete_sub_device(bench.database, operator(plant.organization_id), plant.id, "D1")
    found = dict(await plant.rows("SELECT rule_id, status FROM alert WHERE plant_id = %s"))
    assert [found[rule.id] for rule in rules] == ["RESOLVED", "ACTIVE", "ACTIVE"]
    assert len(await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL")) == 1


@pytest.mark.parametrize("for_seconds", [0, 60])
async def test_values_that_were_read_before_their_sub_device_was_deleted_raise_no_alert(bench: Bench, for_seconds: int) -> None:
    plant = await bench.plant(["D1", "D2"])
    rules = [
        await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric=f"{name}.soc", for_seconds=for_seconds)
        for name in ("D1", "D2")
    ]
    plain = await add_rule(bench.database, plant.organization_id, metric="D1.soc")
    messages = [plant.message(snapshot(ago(seconds), D1={"soc": 5}, D2={"soc": 5})) for seconds in (90, 5)]
    batch = await bench.pipeline.prepare(messages)
    await delete_sub_device(bench.database, operator(plant.organization_id), plant.id, "D1")
    async with bench.database.transaction() as db:
        await bench.pipeline.store(db, batch)
    found = dict(await plant.rows("SELECT rule_id, status FROM alert WHERE plant_id = %s"))
    assert found == {rules[1].id: "ACTIVE"}
    assert plain.id not in found
    assert await plant.rows("SELECT rule_id FROM alert_state WHERE %s::uuid IS NOT NULL") == [(rules[1].id,)]


async def test_the_deletion_of_a_sub_device_resolves_an_alert_that_is_being_raised(bench: Bench) -> None:
    plant = await bench.plant(["D1"])
    await add_rule(bench.database, plant.organization_id, auto_resolve=True)
    await say(bench, plant, 10, D1={"soc": 50})  # the next message does not lock the sub-device to write its presence
    batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), D1={"soc": 5}))])
    async with bench.database.transaction() as db:
        await bench.pipeline.store(db, batch)
        deleting = asyncio.create_task(delete_sub_device(bench.database, operator(plant.organization_id), plant.id, "D1"))
        await until_blocked(bench.database)
    await deleting
    assert await statuses(bench, plant) == [AlertStatus.RESOLVED]
    assert await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL") == []


async def test_a_change_of_a_sub_device_does_not_keep_its_alert_away(bench: Bench) -> None:
    plant = await bench.plant(["D1"])
    await add_rule(bench.database, plant.organization_id)
    await say(bench, plant, 10, D1={"soc": 50})  # the next message does not lock the sub-device to write its presence
    async with bench.database.transaction() as db:
        await update_sub_device(db, operator(plant.organization_id), plant.id, "D1", SubDeviceChanges(name="Battery"))
        await say(bench, plant, 5, D1={"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE]


async def test_an_alert_from_before_auto_resolve_was_set_stays_open(bench: Bench) -> None:
    plant = await bench.plant(["D1"])
    rule = await add_rule(bench.database, plant.organization_id)
    await say(bench, plant, 60, D1={"soc": 5})
    await change_rule(bench, rule, RuleChanges(auto_resolve=True))
    await end_cooldown(bench, rule)
    await say(bench, plant, 50, D1={"soc": 5})
    await say(bench, plant, 40, D1={"soc": 50})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE, AlertStatus.RESOLVED]


async def test_a_revoked_plant_resolves_its_alerts_with_auto_resolve(bench: Bench) -> None:
    plant = await bench.plant(["D1"])
    rules = [
        await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric="D1.soc"),
        await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric="soc", threshold=30),
        await add_rule(bench.database, plant.organization_id, metric="D1.soc", clear_threshold=20.0),
    ]
    await say(bench, plant, 60, {"soc": 25}, D1={"soc": 5})
    assert await statuses(bench, plant) == [AlertStatus.ACTIVE] * 3
    async with bench.database.transaction() as db:
        await revoke_plant(db, operator(plant.organization_id), plant.id)
    found = dict(await plant.rows("SELECT rule_id, status FROM alert WHERE plant_id = %s"))
    assert [found[rule.id] for rule in rules] == ["RESOLVED", "RESOLVED", "ACTIVE"]
    assert await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL") == []


async def test_values_that_were_read_before_their_plant_was_revoked_change_nothing_at_it(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric="soc")
    batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), {"soc": 5}))])
    async with bench.database.transaction() as db:
        await revoke_plant(db, operator(plant.organization_id), plant.id)
    async with bench.database.transaction() as db:
        await bench.pipeline.store(db, batch)
    assert await statuses(bench, plant) == []
    assert await plant.rows("SELECT status FROM plant WHERE id = %s") == [("UNKNOWN",)]
