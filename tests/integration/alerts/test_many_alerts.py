"""A rule that has raised many alerts, and many rules that raise one at once."""

import asyncio
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.alerts.retention import delete_resolved
from gridfleet.domains.alerts.rules.registry import delete_rule
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.ids import first_id_at
from support.builders.accounts import add_member, add_user
from support.builders.alerting import add_rule, ago, alerts_of, operator, snapshot
from support.clients.executed_statements import executed_statements
from support.clients.ingest_bench import Bench, BenchPlant


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


async def test_alerts_of_a_batch_are_written_together(bench: Bench) -> None:
    """Alone, each alert took three statements and 3 ms. A message may raise 500, and the messages of all plants wait."""
    taken = []
    for count in (1, 20):
        plant = await bench.plant()
        for _ in range(2):
            await add_member(bench.database, plant.organization_id, (await add_user(bench.database)).id, OrgRole.OPERATOR)
        for _ in range(count):
            await add_rule(bench.database, plant.organization_id, plant_id=plant.id, severity=Severity.CRITICAL)
        batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), {"soc": 5}))])
        async with bench.database.transaction() as db:
            with executed_statements() as statements:
                await bench.pipeline.store(db, batch)
            taken.append(len(statements))
        assert len(await alerts_of(bench.database, plant.organization_id)) == count
        sent = (
            "SELECT count(*), count(DISTINCT metadata->>'alertId') FROM notification_log WHERE metadata->>'plantId' = %s::text"
        )
        assert await plant.rows(sent) == [(2 * count, count)]
    assert taken[0] == taken[1]


async def test_of_too_many_alerts_the_most_severe_are_notified(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.notifications.queue.MOST_AT_ONCE", 2)
    plant = await bench.plant()
    await add_member(bench.database, plant.organization_id, (await add_user(bench.database)).id, OrgRole.OPERATOR)
    severities = [Severity.WARNING, Severity.EMERGENCY, Severity.WARNING, Severity.CRITICAL, Severity.WARNING]
    for severity in severities:
        await add_rule(bench.database, plant.organization_id, plant_id=plant.id, severity=severity)
    await bench.take(plant.message(snapshot(ago(5), {"soc": 5})))
    assert len(await alerts_of(bench.database, plant.organization_id)) == len(severities)
    mailed = "SELECT metadata->>'severity' FROM notification_log WHERE channel = 'EMAIL' AND metadata->>'plantId' = %s::text"
    assert sorted(await plant.rows(mailed)) == [("CRITICAL",), ("EMERGENCY",)]


async def add_alerts(plant: BenchPlant, raised_at: datetime, resolved_at: datetime | None, count: int = 1) -> list[UUID]:
    """Return the ids of new alerts, resolved unless `resolved_at` is None."""
    ids = [UUID(int=first_id_at(raised_at).int + number) for number in range(count)]
    async with plant.bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at,"
            " created_at, resolved_at)"
            " SELECT id, %s, %s, 'WARNING', %s, 'low', 'soc', 9, %s, %s, %s FROM unnest(%s::uuid[]) AS id",
            (
                plant.organization_id,
                plant.id,
                "ACTIVE" if resolved_at is None else "RESOLVED",
                raised_at,
                raised_at,
                resolved_at,
                ids,
            ),
        )
    return ids


async def test_alerts_are_deleted_after_their_time(bench: Bench) -> None:
    """All that are resolved for longer, however many, and no others."""
    plant, other = await bench.plant(), await bench.plant()
    old, end, now = ago(9_000), ago(5_000), ago(0)
    await add_alerts(plant, old, end - timedelta(seconds=1), count=1_001)
    await add_alerts(other, old + timedelta(seconds=2), old + timedelta(seconds=2))
    kept = [
        *await add_alerts(plant, old - timedelta(seconds=2), None),
        *await add_alerts(plant, old + timedelta(seconds=3), end + timedelta(seconds=1)),
        *await add_alerts(plant, now, now),
    ]
    assert await delete_resolved(bench.database, end) == 1_002
    assert [alert.id for alert in await alerts_of(bench.database, plant.organization_id)] == kept
    assert await alerts_of(bench.database, other.organization_id) == []


async def test_a_resolved_alert_whose_metric_has_not_cleared_is_kept(bench: Bench) -> None:
    """A batch that ran at the same time as its resolution may have written the metric's state again."""
    plant = await bench.plant()
    await add_rule(bench.database, plant.organization_id, clear_threshold=20.0)
    await bench.take(plant.message(snapshot(ago(5), {"soc": 5})))
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert SET status = 'RESOLVED', resolved_at = now()")
    tomorrow = ago(-86_400)
    assert await delete_resolved(bench.database, tomorrow) == 0
    await bench.take(plant.message(snapshot(ago(4), {"soc": 50})))
    assert await delete_resolved(bench.database, tomorrow) == 1
