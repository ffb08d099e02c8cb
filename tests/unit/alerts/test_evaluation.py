"""A batch with two versions of a rule: its change reached the cache of one plant's rules before that of another's."""

from operator import gt
from typing import Any, cast

import msgspec
import pytest

from gridfleet.domains.alerts import evaluation, store
from gridfleet.domains.alerts.conditions import Point, Progress
from gridfleet.domains.alerts.matches import Check, Checks, Findings, Hit, Run
from gridfleet.domains.alerts.models import AlertRule, Condition, Severity
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
    alert_id = new_id()
    saved: list[Progress] = []

    async def rule_states(*_: Any) -> list[Any]:
        return []

    async def count_states(*_: Any) -> dict[Any, int]:
        return {}

    async def plant_names(*_: Any) -> dict[Any, store.PlantName]:
        return {plant: store.PlantName(plant, ORGANIZATION, "A plant") for plant in (FIRST, SECOND)}

    async def raise_(_: Any, candidates: dict[Any, Hit], *__: Any) -> dict[Any, Any]:
        assert [hit.point.time for hit in candidates.values()] == [1_000_000]
        return {old.id: alert_id}

    async def save(_: Any, runs: Any, known: Any, steps: dict[Any, Any], raised: Any) -> None:
        saved.extend(steps.values())

    monkeypatch.setattr(states, "rule_states", rule_states)
    monkeypatch.setattr(states, "count_states", count_states)
    monkeypatch.setattr(store, "plant_names", plant_names)
    monkeypatch.setattr(evaluation, "_raise", raise_)
    monkeypatch.setattr(evaluation, "_save", save)
    assert await evaluation.raise_alerts(cast("Connection", None), findings, lambda *_: None) == [Severity.WARNING]
    [step] = saved
    assert step.state is not None
    assert (step.raised_at, step.state.raised) == (None, False), "the second plant stays ready to raise one"
