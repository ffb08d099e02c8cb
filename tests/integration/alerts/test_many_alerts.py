"""A rule that has raised many alerts."""

import asyncio

from gridfleet.domains.alerts.rules.registry import delete_rule
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.clients.ingest_bench import Bench


async def test_a_rule_is_deleted_without_a_change_of_its_alerts(bench: Bench) -> None:
    """A change of every alert would take seconds, for which ingest would wait when the rule raises another."""
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id)
    await bench.take(plant.message(snapshot(ago(5), {"soc": 5})))
    (alert,) = await alerts_of(bench.database, plant.organization_id)
    async with bench.database.transaction() as held:
        await held.execute("SELECT FROM alert WHERE id = %s FOR UPDATE", (alert.id,))
        async with asyncio.timeout(20), bench.database.transaction() as db:
            await delete_rule(db, operator(plant.organization_id), rule.id)
    assert await plant.rows("SELECT FROM alert_rule WHERE %s::uuid IS NOT NULL") == []
    assert await alerts_of(bench.database, plant.organization_id) == [alert]
