"""The process's connection pool and its unit of work.

A request or batch is one transaction: `async with database.transaction() as db:` commits at its end and rolls back on
any error. Stores take the connection and run one statement each.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Self

import structlog
from psycopg import AsyncConnection, Notify, OperationalError, sql
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from gridfleet.kernel.tracing import span

__all__ = ["Connection", "Database", "TidyConnection", "after_commit", "open_database"]

Connection = AsyncConnection[TupleRow]


class TidyConnection(AsyncConnection[TupleRow]):
    """A connection whose attempts that time out leave no socket behind.

    psycopg's error of such an attempt holds the frame that holds the socket and the error, so that both stay until the garbage
    collector comes by, which it does rarely here: a server that hangs for some minutes would have all its connections in use
    by nobody when it goes on.
    """

    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        """As its parent's. Raises psycopg errors."""
        try:
            return await super().connect(conninfo, **arguments)
        except OperationalError as error:
            raise error.with_traceback(None) from None


_READ_IDLE_SECONDS: Final = 30

NOTICE_A_DEAD_MACHINE: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # ms; Linux alone knows it
}
"""Parameters of a connection by TCP: left to themselves, machines wait a quarter of an hour for the answer of one that has
vanished, and for two hours when they sent nothing."""

log = structlog.get_logger(__name__)

_after_commit: dict[Connection, list[Callable[[], object]]] = {}


def after_commit(db: Connection, tell: Callable[[], object]) -> None:
    """Calls `tell` once the transaction of `db`, opened by `Database.transaction`, has been committed; else never."""
    _after_commit.setdefault(db, []).append(tell)


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: AsyncConnectionPool[Connection], url: str) -> None:
        self._pool = pool
        self.url = url
        """Connection string; secret, never logged."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection in a transaction that commits when the block ends well."""
        with span("transaction", "client"):
            async with self._pool.connection() as connection:
                try:
                    yield connection
                finally:
                    told = _after_commit.pop(connection, ())
        for tell in told:
            tell()

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

    async def keep_reading(self) -> None:
        """Reads the notices that wait on idle connections, every half minute, for ever: nobody else would."""
        while True:
            await asyncio.sleep(_READ_IDLE_SECONDS)
            await self._pool.check()

    async def close(self) -> None:
        """Closes every connection."""
        await self._pool.close()

    def statistics(self) -> dict[str, Any]:
        """The pool's counters."""
        return dict(self._pool.get_stats())


def _has_news(connection: Connection) -> bool:
    """Whether the server has sent anything, its farewell included. An idle connection of a living server is silent, and
    asking it costs as much as a small query."""
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN)
    return bool(readable.poll(0))


@asynccontextmanager
async def open_database(
    url: str, *, name: str, size: int = 10, channel: str | None = None, on_notice: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Database]:
    """The database at `url`, connected lazily so that a process starts while the server is still away.

    `name` shows in `pg_stat_activity`. `on_notice` gets the payloads of the notices on `channel` that the pool's own
    transactions send, each before its commit returns: PostgreSQL sends a session its own notices ahead of its readiness
    for the next query. Those of other processes are `notifications.listen`'s business.
    """

    async def configure(connection: Connection) -> None:
        # Server-side preparation from the first run on: every statement here is run many times.
        connection.prepare_threshold = 0
        if channel is not None:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            await connection.commit()
            connection.add_notify_handler(partial(tell, connection.info.backend_pid))

    def tell(own: int, notice: Notify) -> None:
        if notice.pid == own:
            on_notice(notice.payload)

    async def check(connection: Connection) -> None:
        if not _has_news(connection):
            return
        try:
            await AsyncConnectionPool.check_connection(connection)
        except OperationalError:
            # When one is broken all are. Left to itself psycopg_pool finds them one by one and pauses ever longer between
            # two: with eight of them its caller gives up before it gets a good one.
            await pool.check()
            raise

    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=10,
        max_idle=60,
        reconnect_timeout=5,
        connection_class=TidyConnection,
        check=check,
        configure=configure,
        kwargs={
            "application_name": name,
            "connect_timeout": 5,
            **NOTICE_A_DEAD_MACHINE,
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
