"""The process's connection pool and its unit of work.

A request or batch is one transaction: `async with database.transaction() as db:` commits at its end and rolls back on any
error. Stores take the connection and run one statement each.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, Protocol, Self

from psycopg import AsyncConnection, Notify, OperationalError, sql
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from gridfleet.kernel.db.lists import QuickListDumper
from gridfleet.kernel.tracing import span

__all__ = [
    "GENERATION",
    "LET_THE_SERVER_NOTICE",
    "NOTICE_A_DEAD_MACHINE",
    "OPTIONS",
    "POOLER",
    "Connection",
    "Database",
    "TidyConnection",
    "Transactions",
    "after_commit",
    "cancellation_first",
    "has_our_options",
    "limit_statements",
    "open_database",
    "savepoint",
    "shard_starts",
]

Connection = AsyncConnection[TupleRow]


class TidyConnection(AsyncConnection[TupleRow]):
    """A connection whose connection attempts leave no socket open when they time out.

    psycopg's error of such an attempt references the frame that holds the socket and the error. Both then exist until the next
    garbage collection, which is rare in these processes. When a server continues after it has hung for some minutes, such
    unused sockets would occupy all of its connections.
    """

    shard_starts: tuple[int, ...] = ()
    """What `shard_starts` returns."""

    @classmethod
    async def connect(cls, conninfo: str = "", **arguments: Any) -> Self:
        """Connect like the parent class. Raises psycopg errors."""
        try:
            return await super().connect(conninfo, **arguments)
        except OperationalError as error:
            raise error.with_traceback(None) from None


class PromptPool(AsyncConnectionPool[Connection]):
    """A pool whose waiting tasks can always be cancelled, and which lends the connection that was returned last.

    The others then keep few plans and table descriptions, and are the first to be closed. The parent class lends them in turn,
    so that each takes some MiB of the server.

    The pool waits by `asyncio.wait_for`. Up to Python 3.11 that drops a cancellation which arrives together with the
    connection. The task would then continue after it was stopped, and a task group would wait for it without end.
    """

    async def getconn(self, timeout: float | None = None) -> Connection:
        """Return a connection, as the parent class does.

        Raises:
            CancelledError: The waiting task was cancelled, even if the pool had a connection for it at the same moment.
        """
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        self._pool.rotate(1)  # the parent class appends what is returned, and takes from the other end
        connection = await super().getconn(timeout)
        if task and task.cancelling() > before:
            await self.putconn(connection)
            raise asyncio.CancelledError
        return connection


_READ_IDLE_SECONDS: Final = 30

NOTICE_A_DEAD_MACHINE: Final[dict[str, Any]] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # ms; only Linux supports it
}
"""Parameters of a TCP connection, to detect a machine that has vanished.

By default, a machine waits a quarter of an hour for the response of such a peer, and two hours if it has sent nothing.
"""

GENERATION: Final = 2
"""Triggers that do the work of this code for processes of the previous release read `gridfleet.generation` and do nothing."""

SEARCH_PATH: Final = '-c search_path="$user",public,procrastinate'
"""Option of a connection: the default search path, and the schema of the job queue, whose library names no schema."""

LET_THE_SERVER_NOTICE: Final = (
    "-c tcp_keepalives_idle=15 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=30000"
)
"""Options of a connection over TCP: within 30 s the server closes it, and releases its locks, if the machine has vanished or
the process reads nothing of a result that is larger than the buffers.

By default, a server waits two hours for a machine, and without end for a process that hangs.
"""

OPTIONS: Final = (
    "-c timezone=UTC -c statement_timeout=30000 -c lock_timeout=5000 -c idle_in_transaction_session_timeout=60000"
    f" -c gridfleet.generation={GENERATION} {LET_THE_SERVER_NOTICE} {SEARCH_PATH}"
)

POOLER: Final = (
    "a connection pooler that refuses or ignores startup options, such as PgBouncer: set it to the address of PostgreSQL itself"
)
"""Where a URL leads whose connections lack our options."""

_statement_seconds: ContextVar[float | None] = ContextVar("statement_seconds", default=None)

_after_commit: dict[Connection, list[Callable[[], object]]] = {}


def after_commit(db: Connection, callback: Callable[[], object]) -> None:
    """Call `callback` after the commit of the transaction of `db`, which `Database.transaction` has opened.

    It is not called after a rollback.
    """
    _after_commit.setdefault(db, []).append(callback)


@contextmanager
def limit_statements(seconds: float | None) -> Iterator[None]:
    """Limit the time of each statement in transactions that begin in the block, instead of the pool's 30 seconds.

    None leaves the limit that is in force.
    """
    if seconds is None:
        yield
        return
    token = _statement_seconds.set(seconds)
    try:
        yield
    finally:
        _statement_seconds.reset(token)


@asynccontextmanager
async def savepoint(db: Connection, seconds: float) -> AsyncIterator[None]:
    """Run the statements of the block for at most `seconds` each; after an error the transaction can continue without them.

    Raises:
        QueryCanceled: A statement took longer.
    """
    async with db.transaction():
        cursor = await db.execute("SELECT current_setting('statement_timeout')")
        [before] = await cursor.fetchall()
        await db.execute("SELECT set_config('statement_timeout', %s, true)", (f"{seconds:g}s",))
        yield
        await db.execute("SELECT set_config('statement_timeout', %s, true)", before)


@contextmanager
def cancellation_first() -> Iterator[None]:
    """Raise the cancellation of the task instead of an error of the connection that has replaced it.

    psycopg cancels the statement of a cancelled task on the server. If the connection is lost meanwhile, its error replaces the
    cancellation. A loop that retries after such errors would then continue, and a task group would wait for it without end.

    Raises:
        CancelledError: The task was cancelled in the block, and the connection was lost.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    except OperationalError as error:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise


class Transactions(Protocol):
    """A database, or the part of its connections that one organisation may hold."""

    def transaction(self) -> AbstractAsyncContextManager[Connection]:
        """Yield a connection as `Database.transaction` does."""

    def autocommit(self) -> AbstractAsyncContextManager[Connection]:
        """Yield a connection as `Database.autocommit` does."""


class Database:
    """A pool of connections to one PostgreSQL database."""

    def __init__(self, pool: AsyncConnectionPool[Connection], url: str) -> None:
        self._pool = pool
        self.url = url
        """Connection string; secret, never logged."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection in a transaction that commits when the block ends without an error."""
        with span("transaction", "client"), cancellation_first():
            async with self._pool.connection() as connection:
                if (seconds := _statement_seconds.get()) is not None:
                    await connection.execute("SELECT set_config('statement_timeout', %s, true)", (f"{seconds:g}s",))
                try:
                    yield connection
                finally:
                    callbacks = _after_commit.pop(connection, ())
        for callback in callbacks:
            callback()

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Connection]:
        """Yield a connection whose statements commit one by one."""
        with cancellation_first():
            async with self._pool.connection() as connection:
                await connection.set_autocommit(True)
                try:
                    yield connection
                finally:
                    await connection.set_autocommit(False)

    async def ping(self) -> None:
        """Check that the database responds; raises otherwise."""
        async with self._pool.connection(timeout=2) as connection:
            await connection.execute("SELECT 1")

    async def keep_reading(self) -> None:
        """Read pending notifications from idle connections every half minute, without end. No other code reads them."""
        while True:
            await asyncio.sleep(_READ_IDLE_SECONDS)
            await self._pool.check()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    def statistics(self) -> dict[str, Any]:
        """Return the pool's counters."""
        return dict(self._pool.get_stats())


def _has_unread_data(connection: Connection) -> bool:
    """Return whether the server has sent data, including the end of the connection.

    A live idle connection is silent. A query to check it would cost as much as any small query.
    """
    readable = select.poll()
    readable.register(connection.fileno(), select.POLLIN)
    return bool(readable.poll(0))


async def has_our_options(connection: Connection) -> bool:
    """Return whether the options of the connection have reached PostgreSQL. Otherwise, others may share its session."""
    cursor = await connection.execute("SELECT current_setting('gridfleet.generation', true)", prepare=False)
    return await cursor.fetchone() == (str(GENERATION),)


def shard_starts(connection: Connection) -> tuple[int, ...]:
    """Return the least hash in each shard of the telemetry tables, in order; empty if Citus did not distribute them before."""
    return connection.shard_starts if isinstance(connection, TidyConnection) else ()


async def _read_shard_starts(connection: TidyConnection) -> None:
    cursor = await connection.execute("SELECT to_regclass('pg_catalog.pg_dist_shard') IS NOT NULL", prepare=False)
    if await cursor.fetchone() == (True,):
        cursor = await connection.execute(
            "SELECT shardminvalue::int FROM pg_dist_shard WHERE logicalrelid = to_regclass('telemetry_frame') ORDER BY 1",
            prepare=False,
        )
        connection.shard_starts = tuple(row[0] for row in await cursor.fetchall())


@asynccontextmanager
async def open_database(
    url: str,
    *,
    name: str,
    size: int = 10,
    wait_seconds: float = 10,
    channel: str | None = None,
    on_notification: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Database]:
    """Open a pool for the database at `url`. It connects lazily, so a process can start while the server is unavailable.

    A connection through a pooler is not used: the URL may lead to one later, or to one that had no server at the start.

    Args:
        url: The database.
        name: Name of the connections in `pg_stat_activity`.
        size: Maximum number of connections.
        wait_seconds: How long a transaction waits for a connection.
        channel: Channel of the pool's own notifications; None for none.
        on_notification: Called with the payload of each notification that the pool's own transactions publish on `channel`,
            before the commit returns. PostgreSQL sends a session its own notifications before it is ready for the next query.
            `notifications.listen` receives those of other processes.
    """

    async def configure(connection: Connection) -> None:
        # Prepare statements on the server from the first execution, because every statement here runs many times.
        connection.prepare_threshold = 0
        connection.adapters.register_dumper(list, QuickListDumper)
        if not await has_our_options(connection):
            await connection.close()
            raise OperationalError(f"the database URL leads to {POOLER}")
        if isinstance(connection, TidyConnection):
            await _read_shard_starts(connection)
        if channel is not None:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        await connection.commit()
        if channel is not None:
            connection.add_notify_handler(partial(deliver, connection.info.backend_pid))

    def deliver(own: int, notification: Notify) -> None:
        if notification.pid == own:
            on_notification(notification.payload)

    async def check(connection: Connection) -> None:
        if not _has_unread_data(connection):
            return
        try:
            await AsyncConnectionPool.check_connection(connection)
        except OperationalError:
            # When one connection is broken, all are. psycopg_pool would find them one by one, with growing pauses. With eight
            # of them, its caller times out before it gets a working connection.
            await pool.check()
            raise

    pool = PromptPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        timeout=wait_seconds,
        max_idle=60,
        reconnect_timeout=5,
        connection_class=TidyConnection,
        check=check,
        configure=configure,
        kwargs={
            "application_name": name,
            "connect_timeout": 5,
            **NOTICE_A_DEAD_MACHINE,
            "options": OPTIONS,
        },
    )
    await pool.open()
    database = Database(pool, url)
    try:
        yield database
    finally:
        await database.close()
