"""Leases: numbered pieces of work, shared evenly among processes by advisory locks.

A member holds one lock that counts it and one for each piece that it works on. A process that dies loses its locks with its
connection, and the other members take over its pieces. So does one that hangs: the server ends a connection without statements.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from psycopg import OperationalError

from gridfleet.kernel.db.pool import LET_THE_SERVER_NOTICE, NOTICE_A_DEAD_MACHINE, Connection, TidyConnection

__all__ = ["HANGING_SECONDS", "Leases", "open_leases"]

HANGING_SECONDS: Final = 30
"""How long a process may hang before others take over its pieces."""


class Leases:
    """One member's leases on pieces 0 … `pieces` - 1 of a kind of work.

    `pieces` may be changed. While members have different numbers, some pieces may be free.
    """

    def __init__(self, connection: Connection, kind: int, pieces: int) -> None:
        self._connection = connection
        self._members = kind * 2
        self._work = kind * 2 + 1
        self.pieces = pieces
        self.held: set[int] = set()

    async def join(self) -> None:
        """Register this process as a member."""
        # The server's process id for this session: our own process id may equal that of a member in another container.
        await self._connection.execute("SELECT pg_advisory_lock(%s, pg_backend_pid())", (self._members,))

    async def fair_count(self) -> int:
        """Return the number of pieces that this member should hold.

        The shares of all members differ by at most one and add up to all pieces.

        Raises:
            psycopg.OperationalError: The locks are lost.
        """
        cursor = await self._connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE objid::bigint < pg_backend_pid()) FROM pg_locks"
            " WHERE locktype = 'advisory' AND classid = %s AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            (self._members,),
        )
        row = await cursor.fetchone()
        members, before_us = (int(row[0]), int(row[1])) if row else (1, 0)
        share, rest = divmod(self.pieces, max(1, members))
        return share + (before_us < rest)

    async def take(self, count: int) -> set[int]:
        """Take up to `count` free pieces. Returns the pieces taken."""
        taken: set[int] = set()
        for piece in range(self.pieces):
            if len(taken) >= count:
                break
            if piece in self.held:
                continue
            cursor = await self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (self._work, piece))
            row = await cursor.fetchone()
            if row and row[0]:
                taken.add(piece)
        self.held |= taken
        return taken

    async def hold_only(self) -> bool:
        """Take the only piece if it is free. Returns whether this member holds it.

        Raises:
            psycopg.OperationalError: The locks are lost.
        """
        if not await self.take(1 - len(self.held)):
            await self._connection.execute("SELECT 1")  # what is held needs no statement, which would notice the loss
        return bool(self.held)

    async def give_back(self, piece: int) -> None:
        """Release a piece for other members."""
        await self._connection.execute("SELECT pg_advisory_unlock(%s, %s)", (self._work, piece))
        self.held.discard(piece)


@asynccontextmanager
async def open_leases(url: str, kind: int, pieces: int) -> AsyncIterator[Leases]:
    """Open a membership on its own connection. `kind` identifies the kind of work."""
    async with await TidyConnection.connect(
        url,
        autocommit=True,
        connect_timeout=5,
        application_name="gridfleet-lease",
        # The operating system of a process that hangs answers keep-alives.
        options=f"{LET_THE_SERVER_NOTICE} -c idle_session_timeout={HANGING_SECONDS}s",
        **NOTICE_A_DEAD_MACHINE,
    ) as connection:
        leases = Leases(connection, kind, pieces)
        await leases.join()
        using = asyncio.create_task(_keep_using(connection), name="lease connection")
        try:
            yield leases
        finally:
            using.cancel()
            # Otherwise the connection may be closed while the task waits for its socket, whose number another one then has.
            await asyncio.wait([using], timeout=1)


async def _keep_using(connection: Connection) -> None:
    """Run a statement every few seconds until the connection is lost, which its owner notices at its next statement."""
    try:
        while True:
            await asyncio.sleep(HANGING_SECONDS / 6)
            await connection.execute("SELECT 1")
    except OperationalError:
        return
