"""What one process has committed, all have heard: a call that ends somebody's access is answered only then.

PostgreSQL hands each listener its notices in the order of their commits. So whoever hears the barrier has heard, on the same
connection, all that was committed before it was raised, and says so.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import psycopg
import structlog
from psycopg_pool import PoolClosed, PoolTimeout

from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import count_listeners, notify

__all__ = ["BARRIER_CHANNELS", "LISTENER", "Barrier"]

LISTENER: Final = "gridfleet-access"
"""The name under which processes listen, by which they are counted."""

_RAISED: Final = "access_barrier"
_HEARD: Final = "access_heard"
BARRIER_CHANNELS: Final = (_RAISED, _HEARD)

_LONGEST_SECONDS: Final = 2.0
"""A process that hangs answers nobody; it must not hold up those who end somebody's access."""

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Wait:
    expected: int = 0
    heard: int = 0
    passed: asyncio.Event = field(default_factory=asyncio.Event)


class Barrier:
    """One process's end of it: it must listen on BARRIER_CHANNELS, as LISTENER, and call `told` for each notice."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}
        self._replies: set[asyncio.Task[None]] = set()

    async def wait(self, database: Database) -> None:
        """Returns once every listening process has heard of all that is committed by now; after two seconds at the latest."""
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
        except (TimeoutError, psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
            # What was to be heard of is committed: the caller is told so.
            log.warning(
                "not every process confirmed an invalidation",
                of=wait.expected,
                confirmed=wait.heard,
                error=type(error).__name__,
            )
        finally:
            del self._waits[name]

    def told(self, database: Database, channel: str, name: str) -> None:
        """Takes a notice of BARRIER_CHANNELS."""
        wait = self._waits.get(name)
        if wait is not None:
            # Our own barrier, heard by ourselves; or a word of another process about it.
            wait.heard += 1
            if wait.heard >= wait.expected:
                wait.passed.set()
        elif channel == _RAISED:
            reply = asyncio.create_task(_reply(database, name), name="barrier confirmation")
            self._replies.add(reply)
            reply.add_done_callback(self._replies.discard)


async def _reply(database: Database, name: str) -> None:
    try:
        async with database.transaction() as db:
            await notify(db, _HEARD, name)
    except (psycopg.OperationalError, PoolTimeout, PoolClosed) as error:
        log.warning("cannot confirm an invalidation", error=type(error).__name__)
