"""The alerts of an organisation have a bound, for each batch and an hour: the messages of all plants wait for them."""

import contextlib
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from gridfleet.domains.alerts.models import Severity
from support.builders.alerting import add_rule, ago, alerts_of, snapshot
from support.clients.executed_statements import executed_statements
from support.clients.ingest_bench import Bench, BenchPlant


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.alerts.bounds.MOST_AT_ONCE", 3)
    monkeypatch.setattr("gridfleet.domains.alerts.bounds.MOST_AN_HOUR", 10)


async def add_rules(bench: Bench, plant: BenchPlant, severities: Sequence[Severity]) -> None:
    for severity in severities:
        await add_rule(bench.database, plant.organization_id, severity=severity)
    bench.pipeline.rule_cache.invalidate(str(plant.organization_id))


async def raised_by(bench: Bench, *plants: BenchPlant) -> list[Severity]:
    """Process a message of each plant that meets all rules. Return the severities of the first plant's new alerts, sorted."""
    before = {alert.id for alert in await alerts_of(bench.database, plants[0].organization_id)}
    await bench.take(*(plant.message(snapshot(ago(5), {"soc": 5})) for plant in plants))
    return sorted(
        alert.severity for alert in await alerts_of(bench.database, plants[0].organization_id) if alert.id not in before
    )


async def never_triggered(plant: BenchPlant) -> int:
    query = "SELECT FROM alert_rule r JOIN plant p USING (organization_id) WHERE last_triggered_at IS NULL AND p.id = %s"
    return len(await plant.rows(query))


async def test_the_most_severe_alerts_of_a_batch_are_raised_and_the_others_by_a_later_one(bench: Bench) -> None:
    """50,000 rules took half a minute of each minute of all plants."""
    crowded, small = await bench.plant(), await bench.plant()
    await add_rules(bench, crowded, [Severity.WARNING, Severity.INFO, Severity.EMERGENCY, Severity.CRITICAL])
    latching = await add_rule(bench.database, crowded.organization_id, severity=Severity.INFO, auto_resolve=True)
    await add_rules(bench, small, [Severity.INFO])
    state = f"SELECT alert_id IS NOT NULL FROM alert_state WHERE rule_id = '{latching.id}' AND %s::uuid IS NOT NULL"

    with capture_logs() as logged:
        assert await raised_by(bench, crowded, small) == ["CRITICAL", "EMERGENCY", "WARNING"]
    assert [(entry["organization_id"], entry["left_out"]) for entry in logged if entry["event"] == "too many alerts"] == [
        (str(crowded.organization_id), 2)
    ]
    assert await never_triggered(crowded) == 2
    assert await crowded.rows(state) == [(False,)]
    assert len(await alerts_of(bench.database, small.organization_id)) == 1

    with capture_logs() as logged:
        assert await raised_by(bench, crowded) == ["INFO", "INFO"], "rules in their cooldown take no room"
    assert "too many alerts" not in [entry["event"] for entry in logged]
    assert await never_triggered(crowded) == 0
    assert await crowded.rows(state) == [(True,)]


async def test_rules_of_a_severity_take_turns(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rules(bench, plant, [Severity.WARNING] * 4)
    assert len(await raised_by(bench, plant)) == 3
    await plant.rows(
        "UPDATE alert_rule SET last_triggered_at = now() - interval '1 hour'"
        " WHERE last_triggered_at IS NOT NULL AND %s::uuid IS NOT NULL RETURNING id"
    )
    await raised_by(bench, plant)
    assert await never_triggered(plant) == 0


async def test_alerts_of_low_severity_leave_half_of_the_hour_to_the_others(bench: Bench) -> None:
    plant = await bench.plant()
    await add_rules(bench, plant, [Severity.WARNING] * 7)
    assert [len(await raised_by(bench, plant)) for _ in range(3)] == [3, 2, 0]
    with executed_statements() as statements:
        await raised_by(bench, plant)
    assert not [statement for statement in statements if "FROM alert_rule" in statement], "no search for rules without room"
    await add_rules(bench, plant, [Severity.CRITICAL, Severity.EMERGENCY] * 3)
    assert await raised_by(bench, plant) == ["EMERGENCY"] * 3
    assert await raised_by(bench, plant) == ["CRITICAL"] * 2
    assert await raised_by(bench, plant) == []


async def test_a_batch_that_is_rolled_back_uses_none_of_the_hour(bench: Bench) -> None:
    """Ingest repeats a batch whose transaction failed."""
    plant = await bench.plant()
    await add_rules(bench, plant, [Severity.WARNING] * 3)
    batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), {"soc": 5}))])
    for _ in range(3):
        with contextlib.suppress(ZeroDivisionError):
            async with bench.database.transaction() as db:
                await bench.pipeline.store(db, batch)
                raise ZeroDivisionError
    assert len(await raised_by(bench, plant)) == 3
