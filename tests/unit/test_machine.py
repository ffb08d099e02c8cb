"""What `gridfleet up` says when a step of its start fails."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gridfleet.local.machine import Machine
from support.servers.free_ports import settings_at


async def test_a_step_that_takes_too_long_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start, wait = asyncio.create_subprocess_exec, asyncio.wait_for
    monkeypatch.setattr(asyncio, "create_subprocess_exec", lambda *_, **options: start("sleep", "60", **options))
    monkeypatch.setattr(asyncio, "wait_for", lambda awaitable, _: wait(awaitable, 0.2))
    broker = "amqp://guest:guest@127.0.0.1:1"
    urls: dict[str, Any] = {"database_url": "postgresql://db/gridfleet", "broker_url": broker}
    settings = settings_at(tmp_path, **urls, broker_management_url="http://127.0.0.1:1", keys=f"1:{'00' * 32}")

    assert await Machine(settings).run() == 1
    assert "preparing the database took longer than 600 s" in capsys.readouterr().out
