"""Clocks are compared at the time at which the other one was read, however long the checks after it take."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gridfleet.cli.doctor import broker, database
from gridfleet.cli.doctor.models import Examination, Finding, Status
from gridfleet.kernel.db.inspection import ServerFacts
from gridfleet.kernel.settings import Settings


class Clock:
    """A clock that only `pass_` moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def pass_(self) -> None:
        self.now += timedelta(seconds=90)


def examination(home: Path, clock: Clock) -> Examination:
    url = "http://127.0.0.1:1"
    return Examination(Settings(home=home), home, "postgresql:///nowhere", url, url, clock=lambda: clock.now)


def about_clock(findings: list[Finding]) -> Finding:
    [found] = [one for one in findings if one.check.startswith("clock against")]
    return found


async def test_the_clock_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    async def refuse_pooler(_: str) -> None:
        pass

    def role_without_rights(_: str) -> str:
        clock.pass_()
        return "reader"

    facts = ServerFacts(170_000, "17.0", True, True, 1, 100, "", [], clock.now)
    monkeypatch.setattr(database, "refuse_pooler", refuse_pooler)
    monkeypatch.setattr(database, "inspect_server", lambda _: facts)
    monkeypatch.setattr(database, "role_without_rights", role_without_rights)
    found = about_clock(await database.check_database(examination(tmp_path, clock)))
    assert found.status is Status.OK, found.found


async def test_the_clock_of_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    async def overview_at() -> tuple[dict[str, Any], str]:
        return {"rabbitmq_version": "4.1.0"}, format_datetime(clock.now, usegmt=True)

    async def alarms() -> list[Any]:
        clock.pass_()
        return []

    async def stopped_vhosts() -> list[Any]:
        return []

    async def bound_queues(*_: str) -> list[str]:
        return []

    async def has_mqtt_channels() -> bool:
        return False

    async def cluster_size() -> int:
        return 1

    async def users() -> list[str]:
        return []

    management = SimpleNamespace(
        overview_at=overview_at,
        alarms=alarms,
        stopped_vhosts=stopped_vhosts,
        bound_queues=bound_queues,
        has_mqtt_channels=has_mqtt_channels,
        cluster_size=cluster_size,
        users=users,
    )

    @asynccontextmanager
    async def open_(*_: Any) -> AsyncIterator[Any]:
        yield management

    monkeypatch.setattr(broker, "open_channel", open_)
    monkeypatch.setattr(broker, "open_management", open_)
    found = about_clock(await broker.check_broker(examination(tmp_path, clock)))
    assert found.status is Status.OK, found.found
