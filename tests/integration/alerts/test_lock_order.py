"""States of rules are locked in one order, by batches and by users. None of them ends in a deadlock, or waits for long."""

import asyncio
from uuid import UUID

import pytest

from gridfleet.domains.alerts.deletion import delete_sub_device
from gridfleet.domains.alerts.models import AlertRule, RuleChanges
from gridfleet.domains.alerts.rules import registry
from gridfleet.domains.alerts.rules.registry import delete_rule, update_rule
from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.lifecycle import delete_plant
from support.builders.alerting import add_rule, ago, operator, snapshot
from support.builders.interleaving import until_blocked
from support.clients.ingest_bench import Bench, BenchPlant


async def devices_of(plant: BenchPlant) -> list[str]:
    """Return the plant's devices in the order of their sources."""
    await plant.bench.take(plant.message(snapshot(ago(200), D1={"other": 1}, D2={"other": 1}, D3={"other": 1})))
    rows = await plant.rows(
        "SELECT external_id FROM telemetry_source WHERE plant_id = %s AND external_id IS NOT NULL ORDER BY id"
    )
    return [row[0] for row in rows]


async def change(bench: Bench, what: str, organization_id: UUID, rule: AlertRule, plant_id: UUID) -> None:
    """Change or delete a rule, or delete the device D1."""
    org = operator(organization_id)
    if what == "device":
        await delete_sub_device(bench.database, org, plant_id, "D1")
        return
    async with bench.database.transaction() as db:
        if what == "deleted rule":
            await delete_rule(db, org, rule.id)
        else:
            await update_rule(db, org, rule.id, RuleChanges(threshold=9.0, auto_resolve=False))


@pytest.mark.parametrize("what", ["deleted rule", "changed rule", "device"])
async def test_a_batch_and_a_change_of_its_states_do_not_deadlock(bench: Bench, what: str) -> None:
    plant = await bench.plant(["D1", "D2", "D3"])
    # The states of one rule at three devices, or those of three rules at one device.
    first, second, third = await devices_of(plant)
    if what == "device":
        rules = [await add_rule(bench.database, plant.organization_id, auto_resolve=True, metric=metric) for metric in "abc"]
        messages = [{"D1": {metric: 5}} for metric in "abc"]
        last = {"D1": {"a": 5, "c": 50}}
    else:
        rules = [await add_rule(bench.database, plant.organization_id, for_seconds=300, auto_resolve=True)]
        messages = [{device: {"soc": 5}} for device in (first, second, third)]
        last = {first: {"soc": 5}, third: {"soc": 50}}
    for message in messages:
        await bench.take(plant.message(snapshot(ago(60), **message)))
    async with bench.database.transaction() as holding:
        # The change waits for the second state, with the first one locked. The batch deletes the last and updates the first.
        await holding.execute(
            "SELECT FROM alert_state WHERE (rule_id, source_id) ="
            " (SELECT rule_id, source_id FROM alert_state ORDER BY rule_id, source_id OFFSET 1 LIMIT 1) FOR UPDATE"
        )
        changing = asyncio.create_task(change(bench, what, plant.organization_id, rules[0], plant.id))
        await until_blocked(bench.database)
        storing = asyncio.create_task(bench.take(plant.message(snapshot(ago(10), **last))))
        await until_blocked(bench.database, 2)
    await changing
    await storing
    assert len(await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL")) == 0


async def test_states_with_and_without_an_alert_are_deleted_in_one_order(bench: Bench) -> None:
    plant = await bench.plant(["D1", "D2", "D3"])
    first, second, third = await devices_of(plant)
    rule = await add_rule(bench.database, plant.organization_id, for_seconds=60, auto_resolve=True)
    await bench.take(plant.message(snapshot(ago(130), **{first: {"soc": 5}})))
    await bench.take(plant.message(snapshot(ago(60), **{device: {"soc": 5} for device in (first, second, third)})))
    assert await plant.rows("SELECT alert_id IS NULL FROM alert_state WHERE %s::uuid IS NOT NULL ORDER BY source_id") == [
        (False,),
        (True,),
        (True,),
    ]
    async with bench.database.transaction() as holding:
        await holding.execute("SELECT FROM alert_state WHERE alert_id IS NOT NULL FOR UPDATE")
        changing = asyncio.create_task(change(bench, "changed rule", plant.organization_id, rule, plant.id))
        await until_blocked(bench.database)
        # Nothing else is locked while the change waits for the first.
        await holding.execute("SELECT FROM alert_state WHERE alert_id IS NULL FOR UPDATE NOWAIT")
    await changing
    assert await plant.rows("SELECT FROM alert_state WHERE %s::uuid IS NOT NULL") == []


async def test_a_batch_with_an_unregistered_device_and_the_deletion_of_its_plant_do_not_deadlock(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, auto_resolve=True)

    def named(soc: int, seconds: int) -> Delivery:
        return plant.message(snapshot(ago(seconds), {"soc": soc}, NEW={"a": 1}))

    async def delete() -> None:
        async with bench.database.transaction() as db:
            await delete_plant(db, operator(plant.organization_id), plant.id)

    await bench.take(named(50, 60))
    async with bench.database.transaction() as holding:
        # The batch has recorded the device again, and has not raised the alert yet, when the deletion begins.
        await holding.execute("LOCK TABLE alert_state")
        storing = asyncio.create_task(bench.take(named(5, 10)))
        await until_blocked(bench.database)
        deleting = asyncio.create_task(delete())
        await until_blocked(bench.database, 2)
    batch = await storing
    await deleting
    assert (len(batch.plants_seen), len(batch.alerts)) == (0, 1)
    assert await plant.rows("SELECT FROM plant WHERE id = %s") == []


async def test_a_batch_does_not_wait_for_the_unit_of_a_changed_rule(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds in a large fleet. After five seconds the batch failed, with the messages of all plants."""
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id, name="Soc", metric="soc")
    reading, found = asyncio.Event(), asyncio.Event()

    async def measured_unit(*_: object) -> str | None:
        reading.set()
        await found.wait()
        return "kW"

    async def changed(changes: RuleChanges) -> AlertRule:
        async with bench.database.transaction() as db:
            return await update_rule(db, operator(plant.organization_id), rule.id, changes)

    monkeypatch.setattr(registry, "measured_unit", measured_unit)
    changing = asyncio.create_task(changed(RuleChanges(metric="power")))
    await reading.wait()
    batch = await bench.take(plant.message(snapshot(ago(10), {"soc": 5})))
    assert len(batch.alerts) == 1
    await changed(RuleChanges(plant_id=plant.id))
    found.set()
    # The unit was that of all plants. Ingest gives the rule the unit of the next value of its plant.
    rule = await changing
    assert (rule.metric, rule.plant_id, rule.unit) == ("power", plant.id, None)
    assert (await changed(RuleChanges(metric="current"))).unit == "kW"
