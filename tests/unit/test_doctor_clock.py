"""The clock is compared with the database's at the time at which the database's was read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridfleet.cli.doctor import database
from gridfleet.cli.doctor.models import Examination, Status
from gridfleet.kernel.db.inspection import ServerFacts
from gridfleet.kernel.settings import Settings


async def test_slow_queries_after_it_are_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    async def refuse_pooler(_: str) -> None:
        pass

    def role_without_rights(_: str) -> str:
        nonlocal now
        now += timedelta(seconds=90)
        return "reader"

    monkeypatch.setattr(database, "refuse_pooler", refuse_pooler)
    monkeypatch.setattr(database, "inspect_server", lambda _: ServerFacts(170_000, "17.0", True, True, 1, 100, "", [], now))
    monkeypatch.setattr(database, "role_without_rights", role_without_rights)
    url = "postgresql:///nowhere"
    examined = Examination(Settings(home=tmp_path), tmp_path, url, None, None, clock=lambda: now)
    [clock] = [one for one in await database.check_database(examined) if one.check == "clock against the database"]
    assert clock.status is Status.OK, clock.found
