"""The newest values of a watched plant, without a database."""

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.telemetry.history import live
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller

PLANT = UUID(int=1)
CALLER = UserCaller(UUID(int=3), UUID(int=4), "ada@example.com", "Ada", False, None)
ORG = OrgScope(UUID(int=2), OrgRole.VIEWER, CALLER)


def point(metric: str) -> TelemetryPoint:
    return TelemetryPoint(datetime(2026, 1, 1, tzinfo=UTC), PLANT, metric, 1.0, "W", {})


async def test_a_new_watcher_gets_no_values_of_a_deleted_sub_device(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [point("power"), point("PV1.power")]

    async def latest_points(*_: Any) -> list[TelemetryPoint]:
        return stored

    monkeypatch.setattr(live, "latest_points", latest_points)
    values: Any = live.LiveValues(None)  # type: ignore[arg-type]  # only its loop uses the database
    first = values.watch(ORG, PLANT, nullcontext)
    assert [one.metric for one in (await anext(first)).points] == ["power", "PV1.power"]

    del stored[1]
    second = values.watch(ORG, PLANT, nullcontext)
    assert [one.metric for one in (await anext(second)).points] == ["power"]
    await first.aclose()
    await second.aclose()
