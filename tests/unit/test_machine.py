"""What `gridfleet up` says when a step of its start fails."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from gridfleet.kernel.settings import Settings
from gridfleet.local import machine
from gridfleet.local.machine import CannotStart, Machine


async def test_a_step_that_takes_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        home=tmp_path, database_url=SecretStr("postgresql://db/gridfleet"), broker_url=SecretStr("amqp://guest:guest@broker")
    )
    monkeypatch.setattr(machine, "_SETUP_SECONDS", 0.2)
    monkeypatch.setattr(machine, "_command", lambda *_: ("sleep", "60"))

    with pytest.raises(CannotStart, match="preparing the database took longer than"):
        await Machine(settings)._setup("database")
