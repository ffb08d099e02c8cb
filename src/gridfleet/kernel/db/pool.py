"""The process's connection pool and its unit of work.

A request or batch is one transaction: `async with database.transaction() as db:` commits at its end and rolls back on
any error. Stores take the connection and run one statement each.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

__all__ = ["Connection", "Database", "open_database"]

Connection = AsyncConnection[TupleRow]

log = structlog.get_logger(__name__)


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: AsyncConnectionPool[Connection], url: str) -> None:
        self._pool = pool
        self.url = url
        """Connection string; secret, never logged."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction that commits when the block ends well."""
        async with self._pool.connection() as connection:
            yield connection

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Connection]:
        """A connection whose statements commit one by one."""
        async with self._pool.connection() as connection:
            await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                await connection.set_autocommit(False)

    async def ping(self) -> None:
        """Raises when the database does not answer."""
        async with self._pool.connection(timeout=2) as connection:
            await connection.execute("SELECT 1")

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.close()

    def statistics(self) -> dict[str, Any]:
        """The pool's counters."""
        return dict(self._pool.get_stats())


async def _configure(connection: Connection) -> None:
    # Server-side preparation from the first run on: every statement here is run many times.
    connection.prepare_threshold = 0


@asynccontextmanager
async def open_database(url: str, *, name: str, size: int = 10) -> AsyncIterator[Database]:
    """The database at `url`, connected lazily so that a process starts while the server is still away.

    `name` shows in `pg_stat_activity`.
    """
    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=10,
        max_idle=60,
        reconnect_timeout=5,
        check=AsyncConnectionPool.check_connection,
        configure=_configure,
        kwargs={
            "application_name": name,
            "connect_timeout": 5,
            "options": "-c timezone=UTC -c statement_timeout=30000 -c lock_timeout=5000"
            " -c idle_in_transaction_session_timeout=60000",
        },
    )
    await pool.open()
    database = Database(pool, url)
    try:
        yield database
    finally:
        await database.close()
