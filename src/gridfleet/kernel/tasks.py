"""Supervision of named tasks inside a process.

A task that ends is restarted with exponential backoff and jitter. A healthy run resets the backoff.
"""

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from gridfleet.kernel.outages import trouble_outside

__all__ = ["Backoff", "end_if_cancelled", "run_until_stopped", "supervise"]

log = structlog.get_logger(__name__)

_LOG_AGAIN_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0


@dataclass(slots=True)
class Backoff:
    """Delay in seconds before each restart: `first`, doubled up to `longest`, with a jitter of plus or minus a quarter."""

    first: float = 0.5
    longest: float = 30.0
    healthy_seconds: float = 30.0
    """A run of at least this duration resets the delay to `first`."""
    _failures: int = 0

    def after_run(self, ran_seconds: float) -> float:
        """Return the delay after a run that lasted `ran_seconds`."""
        if ran_seconds >= self.healthy_seconds:
            self._failures = 0
        wait = min(self.longest, self.first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return wait * random.uniform(0.75, 1.25)


def _is_being_cancelled() -> bool:
    """Return whether the current task is being cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def end_if_cancelled() -> None:
    """Raise CancelledError if the current task is being cancelled. Call this in the handler of another error.

    That error replaces the CancelledError if the database ends, or the pool provides a connection, at the time of the
    cancellation.
    """
    if _is_being_cancelled():
        raise asyncio.CancelledError


async def _running(run: Callable[[], Awaitable[None]]) -> None:
    await run()


async def supervise(name: str, run: Callable[[], Awaitable[None]], backoff: Backoff | None = None) -> None:
    """Run a task without end until it is cancelled. Restart it whenever it fails or returns.

    Failures are counted by the task's name up to " of ". Tasks end when the database or the broker does, so the longest delay
    limits how late they detect its return. Such an end is logged as one line without a traceback, at most once a minute for the
    same reason.
    """
    from gridfleet.kernel import metrics  # `gridfleet up` only supervises programs and does not load metrics

    backoff = backoff or Backoff(longest=5.0)
    failures = metrics.TASK_FAILURES.labels(name.partition(" of ")[0])
    logged: dict[str, float] = {}
    while True:
        started = time.monotonic()
        try:
            # A separate task: otherwise a failed task group inside it would leave this task marked as cancelled (Python 3.11).
            await asyncio.create_task(_running(run), name=name)
            log.warning("task ended", task=name)
        except (Exception, asyncio.CancelledError) as error:
            # Another error can replace the cancellation if the database is lost at that time. A CancelledError without a
            # cancellation of this task comes from an awaited task, such as the end of a connection.
            if _is_being_cancelled():
                raise asyncio.CancelledError from error
            reason = trouble_outside(error)
            logged = {known: when for known, when in logged.items() if time.monotonic() - when < _LOG_AGAIN_SECONDS}
            if reason is None:
                log.exception("task failed", task=name)
            elif reason not in logged:
                logged[reason] = time.monotonic()
                log.error("task failed", task=name, reason=reason)
        failures.inc()
        await asyncio.sleep(backoff.after_run(time.monotonic() - started))


def _end_process_after(seconds: float) -> None:
    def end() -> None:
        log.warning("tasks did not end in time; exiting", seconds=seconds)
        os._exit(0)

    # A thread, because a connection that closes after the event loop, or the loop itself, may hang.
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


async def run_until_stopped(
    tasks: Mapping[str, Callable[[], Awaitable[None]]],
    end_seconds: float | None = None,
    before_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Supervise every task of a process until SIGTERM or SIGINT, then cancel them and wait for up to ten seconds.

    `before_stop` runs between the signal and the cancellation. With `end_seconds` the process ends that long after the signal,
    even if a task still hangs.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    running = [asyncio.create_task(supervise(name, run), name=name) for name, run in tasks.items()]
    log.info("running", tasks=list(tasks))
    try:
        await stopped.wait()
        if before_stop is not None:
            await before_stop()
        if end_seconds is not None:
            _end_process_after(end_seconds)
    finally:
        for task in running:
            task.cancel()
        pending = (await asyncio.wait(running, timeout=_STOP_SECONDS))[1] if running else set()
        log.info("stopped", unfinished=[task.get_name() for task in pending])
