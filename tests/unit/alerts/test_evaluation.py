"""A batch with two versions of a rule: its change reached the cache of one plant's rules before that of another's."""

from functools import partial
from operator import gt
from typing import Any, cast

import msgspec
import pytest

from gridfleet.domains.alerts import evaluation, store
from gridfleet.domains.alerts.conditions import Point
from gridfleet.domains.alerts.matches import Check, Checks, Findings, Hit, Run
from gridfleet.domains.alerts.models import AlertRule, Condition, Severity
from gridfleet.domains.alerts.rules import store as rules
from gridfleet.domains.alerts.states import store as states
from gridfleet.domains.telemetry.frames.models import SourceOwner
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id

ORGANIZATION, FIRST, SECOND = new_id(), new_id(), new_id()


def rule() -> AlertRule:
    now = utc_now()
    return AlertRule(
        new_id(),
        ORGANIZATION,
        plant_id=None,
        name="Hot",
        metric="temperature",
        condition=Condition.GT,
        threshold=50.0,
        severity=Severity.WARNING,
        cooldown_minutes=0,
        enabled=True,
        for_seconds=0,
        clear_threshold=None,
        auto_resolve=False,
        unit=None,
        last_triggered_at=None,
        created_at=now,
        updated_at=now,
    )


async def test_the_earlier_value_raises_the_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    old = rule()
    new = msgspec.structs.replace(old, auto_resolve=True)
    sources = [SourceOwner(1, ORGANIZATION, FIRST, None), SourceOwner(2, ORGANIZATION, SECOND, None)]
    checks = [Check(0, gt, 50.0, one.keeps_state, one, "temperature", "") for one in (old, new)]
    points = [(2_000_000, 60.0)]
    findings = Findings(
        hits={old.id: Hit(checks[0].watch(sources[0]), Point(1_000_000, 60.0))},
        runs=[Run(checks[1].watch(sources[1]), points)],
        checks={(2, 10): Checks(sources[1], (checks[1],), (0,))},
        values={(2, 10, 0): points},
    )
    alerts: list[store.NewAlert] = []
    kept: list[states.RuleStateRow] = []

    async def return_(value: Any, *_: Any) -> Any:
        return value

    async def insert(_: Connection, some: list[store.NewAlert]) -> None:
        alerts.extend(some)

    async def insert_rule_states(_: Connection, rows: list[states.RuleStateRow]) -> None:
        kept.extend(rows)

    names = {plant: store.PlantName(plant, ORGANIZATION, "A plant") for plant in (FIRST, SECOND)}
    monkeypatch.setattr(store, "plant_names", partial(return_, names))
    monkeypatch.setattr(store, "hold_sources", partial(return_, {1, 2}))
    monkeypatch.setattr(store, "insert", insert)
    monkeypatch.setattr(rules, "claim", partial(return_, [old.id]))
    monkeypatch.setattr(states, "rule_states", partial(return_, []))
    monkeypatch.setattr(states, "count_states", partial(return_, {}))
    monkeypatch.setattr(states, "hold_rules", partial(return_, {old.id}))
    monkeypatch.setattr(states, "insert_rule_states", insert_rule_states)
    for name in ("notify_each", "publish_changes"):
        monkeypatch.setattr(evaluation, name, partial(return_, None))
    monkeypatch.setattr(evaluation, "after_commit", lambda *_: None)

    assert await evaluation.raise_alerts(cast("Connection", None), findings, lambda *_: None) == [Severity.WARNING]
    assert [alert.plant_id for alert in alerts] == [FIRST]
    assert [(row.source_id, row.alert_id) for row in kept] == [(2, None)], "the second plant stays ready to raise one"
