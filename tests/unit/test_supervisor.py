"""Restarts, backoff, orderly stops: with real processes and real tasks."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gridfleet.kernel.tasks import Backoff, run_until_stopped, supervise
from gridfleet.local.processes import Program, Supervisor, end_leftovers

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"


@given(st.lists(st.floats(min_value=0, max_value=29), max_size=40))
def test_waits_grow_to_the_longest_and_no_further(runs: list[float]) -> None:
    backoff = Backoff()
    waits = [backoff.after_run(seconds) for seconds in runs]
    for number, wait in enumerate(waits):
        middle = min(30.0, 0.5 * 2.0**number)
        assert 0.75 * middle <= wait <= 1.25 * middle


def test_a_healthy_run_makes_the_next_wait_the_first_again() -> None:
    backoff = Backoff()
    for _ in range(8):
        backoff.after_run(0)
    assert backoff.after_run(31) <= 0.5 * 1.25


async def test_what_a_program_prints_arrives_line_by_line() -> None:
    lines: list[tuple[str, str]] = []
    supervisor = Supervisor(lambda name, line: lines.append((name, line)))
    await supervisor.start(python("one", "import sys; print('a' * 200_000); print('ü', end=''); sys.stdout.flush()"))
    await until(lambda: len(lines) >= 3)
    await supervisor.stop()
    assert lines[:2] == [("one", "a" * 200_000), ("one", "ü")]
    assert lines[2][0] == "supervisor"


async def test_a_killed_program_is_started_again_with_its_group_cleared() -> None:
    script = "import subprocess, time; subprocess.Popen(['sleep', '61']); print('up', flush=True); time.sleep(60)"
    lines: list[str] = []
    prepared: list[int] = []
    supervisor = Supervisor(lambda _, line: lines.append(line))
    await supervisor.start(python("one", script, before_start=lambda: prepared.append(1)))
    await until(lambda: lines == ["up"])
    first = supervisor.pids["one"]
    grandchild = psutil.Process(first).children()[0]
    os.kill(first, signal.SIGKILL)
    await until(lambda: supervisor.pids.get("one") not in (None, first))
    assert supervisor.ended("one") == 1
    assert len(prepared) == 2
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
    await supervisor.stop()
    assert supervisor.pids == {}


async def test_a_program_is_not_started_beside_itself_when_its_process_id_cannot_be_noted() -> None:
    disk_is_full = False
    lines: list[str] = []

    def note() -> None:
        if disk_is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    supervisor = Supervisor(lambda _, line: lines.append(line), note)
    await supervisor.start(python("one", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"))
    await until(lambda: len(lines) == 1)
    first, disk_is_full = supervisor.pids["one"], True
    os.kill(first, signal.SIGKILL)
    await until(lambda: lines[-1] == str(supervisor.pids.get("one")) != str(first))
    assert any("cannot be noted: [Errno 28]" in line for line in lines)
    assert not any("cannot be started" in line for line in lines)
    await supervisor.stop()
    assert all(not psutil.pid_exists(int(line)) for line in lines if line.isdigit())


async def test_families_stop_in_reverse_order_and_the_stubborn_are_killed() -> None:
    lines: list[tuple[str, str]] = []
    supervisor = Supervisor(lambda name, line: lines.append((name, line)))
    polite = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit()))\n"
    polite += "print('up', flush=True)\ntime.sleep(60)"
    for name in ("first", "second-1", "second-2"):
        await supervisor.start(python(name, polite))
    await supervisor.start(python("third", STUBBORN, stop_seconds=0.3))
    await until(lambda: len(lines) == 4)
    began = time.monotonic()
    await supervisor.stop()
    assert time.monotonic() - began < 5
    ends = [name for name, line in lines if line == "bye" or "killing it" in line]
    assert ends[0] == "supervisor"
    assert set(ends[1:3]) == {"second-1", "second-2"}
    assert ends[3] == "first"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_supervisor_takes_its_children_along(tmp_path: Path) -> None:
    script = (
        "import sys, time\nfrom gridfleet.local.processes import Program, spawn\n"
        "child = spawn(Program(name='c', argv=('sleep', '60')), 1)\nprint(child.pid, flush=True)\ntime.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=tmp_path)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    gone, _ = psutil.wait_procs([child], timeout=5)
    assert gone or child.status() == psutil.STATUS_ZOMBIE


def test_leftovers_are_asked_and_then_killed_and_others_are_spared(tmp_path: Path) -> None:
    left = subprocess.Popen([sys.executable, "-c", STUBBORN], cwd=tmp_path, stdout=subprocess.PIPE)
    other = subprocess.Popen(["sleep", "60"])
    try:
        assert left.stdout is not None
        left.stdout.readline()
        assert end_leftovers(lambda process: process.cwd() == str(tmp_path), seconds=0.3) == [left.pid]
        assert not psutil.pid_exists(left.pid)
        assert other.poll() is None
    finally:
        left.kill()
        other.kill()
        left.communicate()
        other.wait()


async def test_a_task_that_fails_or_returns_runs_again() -> None:
    runs: list[int] = []

    async def flaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("once")

    task = asyncio.create_task(supervise("flaky", flaky, Backoff(first=0.001)))
    await until(lambda: len(runs) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_waited_for_something_cancelled_is_started_again() -> None:
    """As when a connection ends: the end of the task was not intended, and no other code would start it."""
    runs: list[int] = []

    async def waiting() -> None:
        runs.append(1)
        closing = asyncio.get_running_loop().create_future()
        closing.cancel()
        await closing

    task = asyncio.create_task(supervise("waiting", waiting, Backoff(first=0.001)))
    await until(lambda: len(runs) >= 2 or task.done())
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_whose_group_fails_while_it_waits_for_it_is_started_again() -> None:
    runs: list[int] = []

    async def grouped() -> None:
        runs.append(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.Event().wait())
            tasks.create_task(lost())

    async def lost() -> None:
        await asyncio.sleep(0)
        raise psycopg.OperationalError("the connection is lost")

    task = asyncio.create_task(supervise("grouped", grouped, Backoff(first=0.001)))
    await until(lambda: len(runs) >= 3 or task.done())
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_task_that_is_ended_stays_ended_whatever_it_raises() -> None:
    """As when the database is lost in the same moment, and its error takes the cancellation's place."""
    runs: list[int] = []

    async def losing() -> None:
        runs.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise psycopg.OperationalError("the connection is lost")

    task = asyncio.create_task(supervise("losing", losing, Backoff(first=0.001)))
    await until(lambda: len(runs) == 1)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done, "it was started again"
    assert task.cancelled()


async def test_a_server_that_is_away_is_logged_once_and_without_a_traceback() -> None:
    ends: list[Exception] = [
        ConnectionRefusedError(111, "Connection refused"),
        ExceptionGroup("in a group", [psycopg.OperationalError("connection failed: refused\n\tIs the server running?")]),
        ConnectionRefusedError(111, "Connection refused"),
        ExceptionGroup("in a group", [psycopg.OperationalError("connection failed: refused\n\tIs the server running?")]),
        ExceptionGroup("in a group", [psycopg.OperationalError("refused"), ValueError("a bug")]),
    ]
    left = iter(ends)

    async def lost() -> None:
        if (error := next(left, None)) is None:
            await asyncio.Event().wait()
        else:
            raise error

    with capture_logs() as lines:
        task = asyncio.create_task(supervise("lost", lost, Backoff(first=0.001)))
        await until(lambda: len(lines) >= 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [(line.get("reason"), "exc_info" in line) for line in lines] == [
        ("ConnectionRefusedError: [Errno 111] Connection refused", False),
        ("OperationalError: connection failed: refused", False),
        (None, True),
    ]
    assert {(line["event"], line["task"], line["log_level"]) for line in lines} == {("task failed", "lost", "error")}


async def test_a_stop_signal_cancels_the_tasks_and_lets_them_finish() -> None:
    finished: list[str] = []

    async def eternal() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            finished.append("done")

    running = asyncio.create_task(run_until_stopped({"eternal": eternal}))
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 5)
    assert finished == ["done"]


async def test_what_must_happen_before_the_stop_happens_while_the_tasks_run() -> None:
    events: list[str] = []

    async def eternal() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            events.append("cancelled")

    async def drain() -> None:
        await asyncio.sleep(0.05)
        events.append("drained")

    running = asyncio.create_task(run_until_stopped({"eternal": eternal}, before_stop=drain))
    await asyncio.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 5)
    assert events == ["drained", "cancelled"]


def python(name: str, script: str, **changes: object) -> Program:
    return Program(name=name, argv=(sys.executable, "-c", script), **changes)  # type: ignore[arg-type]


async def until(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
