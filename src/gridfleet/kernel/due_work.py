"""Repetition of work that a notification or its due time starts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import psycopg
import structlog

from gridfleet.kernel.db import Connection, Database

__all__ = ["repeat_each_second", "repeat_when_due", "wait_at_most"]

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 5.0
"""Maximum time to wait for a notification before the work is repeated anyway."""
_SHORTEST_SECONDS: Final = 0.05
"""Minimum pause between repetitions, while another process holds the work that is due."""


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, or for `seconds`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def repeat_each_second(work: Callable[[], Awaitable[int]]) -> None:
    """Repeat work until cancelled, also after a database error: at once while it returns that it did any, else each second."""
    while True:
        try:
            done = await work()
        except psycopg.OperationalError as error:
            log.warning("database error, retrying", error=type(error).__name__)
            done = 0
        await asyncio.sleep(0 if done else 1)


async def repeat_when_due(
    database: Database,
    wake: asyncio.Event,
    work: Callable[[], Awaitable[None]],
    next_due: Callable[[Connection], Awaitable[float | None]],
) -> None:
    """Repeat work until cancelled: when `wake` is set, when more is due, and after five seconds in any case.

    Args:
        work: Does everything that is due.
        next_due: Returns the seconds until more is due; None if there is nothing.
    """
    while True:
        wake.clear()
        await work()
        async with database.transaction() as db:
            due = await next_due(db)
        await wait_at_most(wake, _POLL_SECONDS if due is None else min(max(due, _SHORTEST_SECONDS), _POLL_SECONDS))
