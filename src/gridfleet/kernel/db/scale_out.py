"""Let TimescaleDB partition and compress large tables: plan the statements that are left to do, and execute them.

The module `citus` plans the statements for Citus.

Rows are moved one partition at a time, so the disk holds one partition twice at most. A plan that was interrupted is continued
by the next one. While a table is moved, it has another name: a process that was not stopped fails and waits, instead of
working with a part of the rows.

Apart from retention, no other code refers to TimescaleDB.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import psycopg

__all__ = [
    "CannotScaleOut",
    "Extension",
    "Hypertable",
    "Plan",
    "Step",
    "apply",
    "check_installed",
    "check_owner",
    "fetch",
    "plan",
]

_COMPRESS_AFTER_DAYS: Final = 7
_NO_LIMIT: Final = "timescaledb.max_tuples_decompressed_per_dml_transaction"
_OLDEST_VERSION: Final = (2, 13)
"""The first one with `by_range`."""
_NO_COMPRESSION: Final = "This edition of TimescaleDB (Apache) does not compress: it partitions, and saves no disk space."
_LOCK_TIMEOUT: Final = "10s"


class Extension(StrEnum):
    """Extension for scale-out."""

    CITUS = "citus"
    TIMESCALEDB = "timescaledb"


class CannotScaleOut(RuntimeError):
    """The plan cannot be made or was stopped; the text gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction does."""

    purpose: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that are left, and what the extension cannot do."""

    steps: Sequence[Step]
    limitation: str | None = None


@dataclass(frozen=True, slots=True)
class Hypertable:
    """A table of time series: its name and columns. The names are constants of the program and need no quotes."""

    name: str
    time: str
    series: str
    """Column whose rows are stored together when they are compressed."""
    days: int
    """Days in a chunk."""

    @property
    def before(self) -> str:
        """Name of the table whose rows are being moved."""
        return f"{self.name}_before"

    @property
    def after(self) -> str:
        """Name of the hypertable that receives them."""
        return f"{self.name}_after"

    def bounds(self, partition: str) -> tuple[str, str]:
        """Return the bounds of a partition with this name."""
        first = datetime.strptime(partition[-8:], "%Y%m%d").replace(tzinfo=UTC)
        end = first + timedelta(days=1) if self.days == 1 else (first + timedelta(days=32)).replace(day=1)
        return first.isoformat(), end.isoformat()


def plan(url: str, tables: Sequence[Hypertable]) -> Plan:
    """Return the steps to run for TimescaleDB; none if they have run already.

    Raises:
        CannotScaleOut: The extension is too old or not in the database, or the role does not own the schema.
        psycopg.Error: The database does not respond.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        check_installed(connection, Extension.TIMESCALEDB, _OLDEST_VERSION)
        check_owner(connection)
        # The Apache edition has neither the statements nor the background job.
        compresses = fetch(connection, "SELECT current_setting('timescaledb.license', true)") == "timescale"
        steps = [step for table in tables for step in _steps(connection, table, compresses)]
        if compresses:
            steps = [*_unlimited(connection), *steps]
        return Plan(steps, None if compresses else _NO_COMPRESSION)


def apply(url: str, steps: Sequence[Step], report: Callable[[Step], None] = lambda _: None) -> None:
    """Execute a plan, each step in a transaction. The service's processes must be stopped.

    Args:
        url: The owner's connection string.
        steps: Those of `plan`.
        report: Called before each step.

    Raises:
        CannotScaleOut: A step failed. It changed nothing, and those before it are complete.
        psycopg.OperationalError: The database does not respond.
    """
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'".encode())
        connection.execute("SET statement_timeout = 0")
        for number, step in enumerate(steps):
            report(step)
            try:
                with connection.transaction():
                    for statement in step.statements:
                        connection.execute(statement.encode())
            except psycopg.errors.LockNotAvailable:
                raise CannotScaleOut("a table is in use: stop the processes of the service, and repeat the command") from None
            except psycopg.Error as error:
                reason = error.diag.message_primary or str(error).strip()
                left = "the steps before it are complete: repeat the command" if number else "nothing was changed"
                raise CannotScaleOut(f"{step.purpose}: {reason}; {left}") from error


def check_installed(connection: psycopg.Connection, extension: Extension, oldest: tuple[int, int]) -> None:
    """Check that the database has the extension. Raises CannotScaleOut."""
    version = fetch(connection, "SELECT extversion FROM pg_extension WHERE extname = %s", extension)
    if version is None:
        available = fetch(connection, "SELECT true FROM pg_available_extensions WHERE name = %s", extension)
        raise CannotScaleOut(
            f"{extension} is on the server but not in this database: have its owner run CREATE EXTENSION {extension}"
            if available
            else f"the server does not have {extension}: install it, add it to shared_preload_libraries, restart,"
            f" and run CREATE EXTENSION {extension} in this database"
        )
    if tuple(int(part) for part in version.split("-")[0].split(".")[:2]) < oldest:
        raise CannotScaleOut(f"{extension} {version} is too old: it must be {'.'.join(map(str, oldest))} or newer")


def check_owner(connection: psycopg.Connection) -> None:
    """Check that the role owns the tables. Raises CannotScaleOut.

    A superuser is refused too: it would own the new tables, and the running role would have no rights on them.
    """
    owner = fetch(
        connection,
        "SELECT relowner::regrole::text FROM pg_class WHERE oid = to_regclass('alembic_version')"
        " AND relowner <> current_user::regrole",
    )
    if owner is not None:
        raise CannotScaleOut(f"only the owner of the tables can do this: set GRIDFLEET_DATABASE_URL to the account {owner}")


def _unlimited(connection: psycopg.Connection) -> Iterator[Step]:
    """Yield a step that removes the limit of rows that a transaction may decompress, if there is one.

    Late values of many sources exceed the default limit, and ingest would stop.
    """
    database = fetch(connection, "SELECT quote_ident(current_database())")
    if fetch(connection, f"SELECT current_setting('{_NO_LIMIT}', true)") != "0":
        yield Step("allow late values in compressed chunks", (f"ALTER DATABASE {database} SET {_NO_LIMIT} = 0",))


def _steps(connection: psycopg.Connection, table: Hypertable, compresses: bool) -> Iterator[Step]:
    enabled = _compression(connection, table.name)
    if enabled is None:
        enabled = _compression(connection, table.after)
        if enabled is None:
            yield _creation(table)
            enabled = False
        if compresses and not enabled:
            yield _enabling(table, table.after)
            enabled = True
        yield from _moves(connection, table, enabled)
        yield _replacement(table)
    elif compresses and not enabled:
        yield _enabling(table, table.name)
        enabled = True
    if enabled and not fetch(
        connection,
        "SELECT true FROM timescaledb_information.jobs WHERE hypertable_name = %s AND proc_name = 'policy_compression'",
        table.name,
    ):
        yield Step(
            f"compress what is older than a week in {table.name}",
            (f"SELECT add_compression_policy('{table.name}', INTERVAL '{_COMPRESS_AFTER_DAYS} days')",),
        )


def _creation(table: Hypertable) -> Step:
    return Step(
        f"set {table.name} aside, and create an empty table like it that TimescaleDB partitions",
        (
            f"ALTER TABLE {table.name} RENAME TO {table.before}",
            f"CREATE TABLE {table.after} (LIKE {table.before} INCLUDING ALL)",
            f"SELECT create_hypertable('{table.after}', by_range('{table.time}', INTERVAL '{table.days} days'),"
            " create_default_indexes => false)",
        ),
    )


def _enabling(table: Hypertable, name: str) -> Step:
    return Step(
        f"keep the rows of a series of {table.name} together when they are compressed",
        (
            f"ALTER TABLE {name} SET (timescaledb.compress, timescaledb.compress_segmentby = '{table.series}',"
            f" timescaledb.compress_orderby = '{table.time}')",
        ),
    )


def _moves(connection: psycopg.Connection, table: Hypertable, compress: bool) -> Iterator[Step]:
    for name in _partitions(connection, table):
        yield Step(
            f"move {name}",
            (
                f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE",
                f"INSERT INTO {table.after} SELECT * FROM {name}",
                f"DROP TABLE {name}",
            ),
        )
        if compress:
            # A later partition may have rows of the newest chunk.
            yield Step(
                "compress what is complete and older than a week",
                (
                    "SELECT compress_chunk(format('%I.%I', chunk_schema, chunk_name)::regclass)"
                    f" FROM timescaledb_information.chunks WHERE hypertable_name = '{table.after}' AND NOT is_compressed"
                    f" AND range_end <= least(now() - INTERVAL '{_COMPRESS_AFTER_DAYS} days',"
                    f" (SELECT max(range_start) FROM timescaledb_information.chunks WHERE hypertable_name = '{table.after}'))",
                ),
            )


def _replacement(table: Hypertable) -> Step:
    key = f"{table.name}_pkey"
    return Step(
        f"drop the old {table.name}, and use the new one",
        (
            f"DROP TABLE {table.before}",
            f"ALTER TABLE {table.after} RENAME CONSTRAINT {table.after}_pkey TO {key}",
            f"ALTER TABLE {table.after} RENAME TO {table.name}",
        ),
    )


def _partitions(connection: psycopg.Connection, table: Hypertable) -> list[str]:
    """Return the names of the partitions that have not been moved, oldest first."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = coalesce(to_regclass(%s), to_regclass(%s)) ORDER BY 1",
        (table.before, table.name),
    )
    return [row[0] for row in rows.fetchall()]


def _compression(connection: psycopg.Connection, name: str) -> bool | None:
    """Return whether a hypertable has settings of compression; None if it is no hypertable."""
    enabled: bool | None = fetch(
        connection, "SELECT compression_enabled FROM timescaledb_information.hypertables WHERE hypertable_name = %s", name
    )
    return enabled


def fetch(connection: psycopg.Connection, query: str, *parameters: Any) -> Any:
    """Return the first column of the first row; None without rows."""
    row = connection.execute(query.encode(), parameters or None).fetchone()
    return row and row[0]
