"""What `gridfleet up` does when a step of its start takes long, and when its terminal closes."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from gridfleet.local.machine import Machine
from support.servers.free_ports import settings_at


def machine_with_servers(home: Path) -> Machine:
    """Return a machine that begins with the step of the database, because the servers are elsewhere."""
    urls: dict[str, Any] = {"database_url": "postgresql://db/gridfleet", "broker_url": "amqp://guest:guest@127.0.0.1:1"}
    return Machine(settings_at(home, **urls, broker_management_url="http://127.0.0.1:1", keys=f"1:{'00' * 32}"))


async def test_only_the_step_of_the_broker_has_a_limit_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ended migration is rolled back, and would begin again at each start."""
    start, wait, limits = asyncio.create_subprocess_exec, asyncio.wait_for, list[float | None]()

    async def start_other(*command: str, **options: Any) -> asyncio.subprocess.Process:
        instead = """echo '{"adminPassword": null}'""" if command[-1] == "database" else "exec sleep 60"
        return await start("sh", "-c", instead, **options)

    async def wait_less(awaitable: Any, limit: float | None) -> Any:
        limits.append(limit)
        return await wait(awaitable, limit and 0.2)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_other)
    monkeypatch.setattr(asyncio, "wait_for", wait_less)

    assert await machine_with_servers(tmp_path).run() == 1
    assert limits == [None, 600]
    assert "preparing the broker took longer than 600 s" in capsys.readouterr().out


async def test_nohup_keeps_the_service_when_the_terminal_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`nohup` starts a program with this signal ignored."""
    start, started = asyncio.create_subprocess_exec, asyncio.Event()

    async def start_other(*_: str, **options: Any) -> asyncio.subprocess.Process:
        started.set()
        return await start("sleep", "60", **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_other)
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = asyncio.create_task(machine_with_servers(tmp_path).run())
        await started.wait()
        signal.raise_signal(signal.SIGHUP)
        assert await asyncio.wait([running], timeout=1) == (set(), {running}), "it has not ended"
        signal.raise_signal(signal.SIGTERM)
        assert await running == 0
    finally:
        signal.signal(signal.SIGHUP, former)
