"""Supervision of child processes.

A process that ends is restarted with exponential backoff and jitter. Child processes have their own process groups, so a Ctrl-C
on the terminal reaches only the supervisor, which then stops them in order.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import psutil

from gridfleet.kernel.tasks import Backoff

__all__ = ["Program", "Supervisor", "end_leftovers", "spawn", "stop_process"]

_PR_SET_PDEATHSIG = 1
# Loaded before any fork, because the child may only call what is already loaded.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True)
class Program:
    """A child process and how to stop it."""

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path | None = None
    user: int | None = None
    """Numeric user and group of the process; None for those of the supervisor."""
    group: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    """Signal for an orderly stop. Also sent by the kernel (Linux) if the supervisor dies."""
    stop_seconds: float = 15.0
    """Maximum duration of an orderly stop before the process is killed."""
    own_output: bool = False
    """Whether the process writes to the supervisor's own output instead of a pipe."""
    before_start: Callable[[], None] | None = None
    """Called before every start, including restarts: removes what a killed predecessor left."""


def _end_with_parent(parent: int, wanted: int) -> None:
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, wanted, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), wanted)


def _popen_arguments(program: Program) -> dict[str, Any]:
    return {
        "stdin": subprocess.DEVNULL,
        "stderr": subprocess.STDOUT,
        "env": dict(program.environment),
        "cwd": program.folder,
        "user": program.user,
        "group": program.group,
        "extra_groups": None if program.user is None else [],
        "process_group": 0,
        # Set after the change of user, which would clear it.
        "preexec_fn": partial(_end_with_parent, os.getpid(), int(program.stop_signal)),
    }


def spawn(program: Program, output: int | IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start `program` once, without supervision, with its output to `output`. Call it from the main thread."""
    if program.before_start is not None:
        program.before_start()
    return subprocess.Popen(program.argv, stdout=output, **_popen_arguments(program))


def stop_process(program: Program, process: "subprocess.Popen[bytes]") -> None:
    """Stop what `spawn` started, and kill every process left in its group."""
    _signal(process.pid, program.stop_signal)
    try:
        process.wait(program.stop_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _signal_group(process.pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_leftovers(
    ours: Callable[[psutil.Process], bool], ask: signal.Signals = signal.SIGTERM, seconds: float = 20
) -> list[int]:
    """Stop processes that a killed supervisor left behind. They are sent the signal `ask`, and killed after `seconds`.

    This process and its ancestors are never included.

    Returns:
        The ids of the processes.
    """
    spared = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    leftovers = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid not in spared and ours(process):
                process.send_signal(ask)
                leftovers.append(process)
    _, alive = psutil.wait_procs(leftovers, timeout=seconds)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=5)
    return [process.pid for process in leftovers]


class Supervisor:
    """Runs programs until `stop`. A program that ends is restarted.

    `write(name, line)` is called for every line that a program prints, and for the supervisor's own lines with the name
    `supervisor`. `changed()` is called when a program has a new process id. Its OSErrors are reported and otherwise ignored.
    """

    def __init__(self, write: Callable[[str, str], None], changed: Callable[[], None] = lambda: None) -> None:
        self._write = write
        self._changed = changed
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._programs: dict[str, Program] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, int] = {}
        self._stopping: set[str] = set()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the running programs, by name."""
        return {name: process.pid for name, process in self._processes.items()}

    async def start(self, program: Program) -> None:
        """Start `program` and keep it running. Raises OSError if it cannot be started at all."""
        process = await self._launch(program)
        self._programs[program.name] = program
        self._tasks[program.name] = asyncio.create_task(self._keep(program, process), name=program.name)

    def ended(self, name: str) -> int:
        """Return how often `name` has ended by itself since its start."""
        return self._ended.get(name, 0)

    async def stop(self) -> None:
        """Stop every program in reverse start order. Those of one family (`ingest-1`, `ingest-2`) stop together."""
        while self._programs:
            family = next(reversed(self._programs)).partition("-")[0]
            names = [name for name in self._programs if name.partition("-")[0] == family]
            await asyncio.gather(*(self._stop_one(name) for name in names))

    def kill(self) -> None:
        """Kill every program and its group immediately."""
        self._stopping.update(self._programs)
        for pid in self.pids.values():
            _signal_group(pid, signal.SIGKILL)

    async def _launch(self, program: Program) -> asyncio.subprocess.Process:
        if program.before_start is not None:
            await asyncio.to_thread(program.before_start)
        if program.own_output:
            process = await asyncio.create_subprocess_exec(*program.argv, **_popen_arguments(program) | {"stderr": None})
            self._note(program.name, process)
            return process
        # A separate pipe: with asyncio's own, `wait` would wait for grandchildren that hold its other end.
        readable, writable = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(*program.argv, stdout=writable, **_popen_arguments(program))
        except BaseException:
            os.close(readable)
            raise
        finally:
            os.close(writable)
        self._pumps[program.name] = asyncio.create_task(self._pump(program.name, readable))
        self._note(program.name, process)
        return process

    def _note(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._processes[name] = process
        try:
            self._changed()
        except OSError as error:  # such as a full disk; the program runs anyway, and raising would start a second instance
            self._write("supervisor", f"the process id of {name} cannot be noted: {error}")

    async def _keep(self, program: Program, process: asyncio.subprocess.Process) -> None:
        backoff = Backoff()
        while True:
            started = time.monotonic()
            code = await process.wait()
            self._processes.pop(program.name, None)
            pump = self._pumps.pop(program.name, None)
            # Remaining processes of its group would keep ports and files that the next run needs.
            _signal_group(process.pid, signal.SIGKILL)
            if pump is not None:
                await asyncio.wait([pump], timeout=1)
                pump.cancel()
            while True:
                if program.name in self._stopping:
                    return
                self._ended[program.name] = self.ended(program.name) + 1
                wait = backoff.after_run(time.monotonic() - started)
                self._write("supervisor", f"{program.name} ended ({_describe(code)}); starting it again in {wait:.1f} s")
                await asyncio.sleep(wait)
                if program.name in self._stopping:
                    return
                started = time.monotonic()
                try:
                    process = await self._launch(program)
                    break
                except Exception as error:  # any error: the next attempt may succeed, and no other code would make it
                    self._write("supervisor", f"{program.name} cannot be started: {error}")

    async def _pump(self, name: str, readable: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            partial(asyncio.StreamReaderProtocol, stream), os.fdopen(readable, "rb")
        )
        rest = b""
        try:
            while chunk := await stream.read(65_536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._write(name, line.decode(errors="replace").rstrip("\r"))
            if rest:
                self._write(name, rest.decode(errors="replace"))
        finally:
            transport.close()

    async def _stop_one(self, name: str) -> None:
        program, task = self._programs[name], self._tasks[name]
        self._stopping.add(name)
        process = self._processes.get(name)
        if process is None:
            task.cancel()
        else:
            _signal(process.pid, program.stop_signal)
        _, pending = await asyncio.wait([task], timeout=program.stop_seconds)
        if pending and process is not None:
            self._write("supervisor", f"{name} did not end within {program.stop_seconds:.0f} s; killing it")
            _signal_group(process.pid, signal.SIGKILL)
            await asyncio.wait([task], timeout=5)
        del self._programs[name], self._tasks[name]


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
