"""How far a replica of the database lags behind it.

The time of the last transaction that a replica has applied says nothing while the primary is idle. Positions in the log do.
Every second, the primary's position is recorded with the time. A replica has everything that was committed at the time of the
newest recorded position that it has reached.
"""

import asyncio
import math
import time
from collections import deque
from typing import Final, NamedTuple

import structlog
from psycopg import Error as DatabaseError

from gridfleet.kernel import metrics
from gridfleet.kernel.db.pool import Connection, Database

__all__ = ["Replica", "ReplicaBehind", "seconds_behind"]

_INTERVAL_SECONDS: Final = 1.0
_MOST_RECORDED: Final = 600
_POLL_SECONDS: Final = 0.1

log = structlog.get_logger(__name__)


class ReplicaBehind(Exception):
    """The server lags further than allowed, or is not a replica of the database."""


class _Position(NamedTuple):
    """Position of a server in the log of its cluster, in bytes. A replica `is_replica` until it is promoted."""

    is_replica: bool
    system: int
    database: str
    bytes: int

    def reaches(self, written: "_Position") -> bool:
        """Whether a replica at this position has everything that its primary had at position `written`."""
        return self.is_replica and self[1:3] == written[1:3] and self.bytes >= written.bytes


async def _position(db: Connection) -> _Position:
    """Return how far the log is written, or applied by a replica."""
    # The position up to which the log is inserted can be beyond what a replica ever reaches while nothing happens.
    cursor = await db.execute(
        "SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system()), current_database(),"
        " (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END - '0/0')::bigint"
    )
    [row] = await cursor.fetchall()
    return _Position(*row)


class Replica:
    """A pool of connections to a replica, and how far it lags behind the primary."""

    def __init__(self, database: Database, primary: Database, limit_seconds: float) -> None:
        self.database = database
        self._primary = primary
        self._limit_seconds = limit_seconds
        self._recorded: deque[tuple[float, _Position]] = deque(maxlen=_MOST_RECORDED)
        self._reached_at = -math.inf

    @property
    def usable(self) -> bool:
        """Whether the replica was within the limit at the last measurement, which is itself recent."""
        return time.monotonic() - self._reached_at <= self._limit_seconds

    async def require_recent(self, db: Connection) -> None:
        """Check the server behind a connection, which may be another one than that of the last measurement.

        Raises:
            ReplicaBehind: It lags further than allowed, or was promoted, or is not a replica of the database.
        """
        if time.monotonic() - self._reached(await _position(db)) > self._limit_seconds:
            raise ReplicaBehind

    async def keep_measuring(self) -> None:
        """Measure the lag every second until cancelled."""
        metrics.DATABASE_REPLICA_LAG_SECONDS.set_function(lambda: time.monotonic() - self._reached_at)
        while True:
            before = self.usable
            try:
                await self._measure()
            except DatabaseError as error:
                self._reached_at = -math.inf
                log.debug("lag of the replica cannot be measured", reason=type(error).__name__)
            if before != self.usable:
                log.info("history is read from the replica" if self.usable else "history is read from the primary")
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def _measure(self) -> None:
        async with self.database.transaction() as db:
            applied = await _position(db)
        read_at = time.monotonic()
        async with self._primary.transaction() as db:
            written = await _position(db)
        if self._recorded and self._recorded[-1][1].bytes > written.bytes:
            self._recorded.clear()  # another server, which has taken over, and lacks the end of the log of the previous one
        self._recorded.append((read_at, written))
        # The replica was read first, so it is behind the primary, unless it has followed another server.
        self._reached_at = -math.inf if applied.bytes > written.bytes else self._reached(applied)

    def _reached(self, applied: _Position) -> float:
        """Return the time of the newest recorded position that a server with this position has reached."""
        return next((at for at, written in reversed(self._recorded) if applied.reaches(written)), -math.inf)


async def seconds_behind(replica: Database, primary: Database, limit_seconds: float) -> float:
    """Return how long a replica takes to apply what is committed now; infinity if that is longer than the limit.

    Raises:
        ReplicaBehind: The server was promoted, or is not a replica of the database.
        psycopg.Error: One of the servers is not available.
    """
    async with primary.transaction() as db:
        written = await _position(db)
    began = time.monotonic()
    while (seconds := time.monotonic() - began) <= limit_seconds:
        async with replica.transaction() as db:
            applied = await _position(db)
        if applied.reaches(written):
            return seconds
        if not applied.is_replica or applied[1:3] != written[1:3]:
            raise ReplicaBehind
        await asyncio.sleep(_POLL_SECONDS)
    return math.inf
