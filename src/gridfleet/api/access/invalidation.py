"""Barrier between API processes: a response that revokes access waits until every process has applied the change.

PostgreSQL delivers notifications to each listener in commit order. A process that receives the barrier notification has
therefore received, on the same connection, everything that was committed before it. The process then acknowledges the barrier.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import psycopg
import structlog

from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import count_listeners, notify

__all__ = ["BARRIER_CHANNELS", "LISTENER", "Barrier"]

LISTENER: Final = "gridfleet-access"
"""Application name of listening connections. Listeners are counted by it."""

_RAISED: Final = "access_barrier"
_CONFIRMED: Final = "access_heard"
BARRIER_CHANNELS: Final = (_RAISED, _CONFIRMED)

_LONGEST_SECONDS: Final = 2.0
"""Limit of the wait: a hanging process sends no acknowledgement and must not block calls that revoke access."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Wait:
    expected: int = 0
    confirmed: int = 0
    passed: asyncio.Event = field(default_factory=asyncio.Event)


class Barrier:
    """The barrier of one process.

    The owner must listen on BARRIER_CHANNELS with a connection named LISTENER, and call `receive` for each notification.
    """

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        self._replies: set[asyncio.Task[None]] = set()

    async def wait(self, database: Database) -> None:
        """Return once every listening process has received everything committed so far, after two seconds at the latest."""
        name, wait = uuid4().hex, _Wait()
        self._waits[name] = wait
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                async with database.transaction() as db:
                    wait.expected = await count_listeners(db, LISTENER)
                    if wait.expected > 1:
                        await notify(db, _RAISED, name)
                if wait.expected > 1:
                    await wait.passed.wait()
        except (TimeoutError, psycopg.OperationalError) as error:
            # The change itself is committed, so the call succeeds without the acknowledgements.
            log.warning(
                "not every process confirmed an invalidation",
                expected=wait.expected,
                confirmed=wait.confirmed,
                error=type(error).__name__,
            )
        finally:
            del self._waits[name]

    def receive(self, database: Database, channel: str, name: str) -> None:
        """Handle a notification of BARRIER_CHANNELS: confirm another process's barrier, or count a confirmation."""
        wait = self._waits.get(name)
        if wait is not None:
            # This process's own barrier notification, or another process's acknowledgement of it.
            wait.confirmed += 1
            if wait.confirmed >= wait.expected:
                wait.passed.set()
        elif channel == _RAISED:
            reply = asyncio.create_task(_reply(database, name), name="barrier confirmation")
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)


async def _reply(database: Database, name: str) -> None:
    try:
        async with database.transaction() as db:
            await notify(db, _CONFIRMED, name)
    except psycopg.OperationalError as error:
        log.warning("cannot confirm an invalidation", error=type(error).__name__)
