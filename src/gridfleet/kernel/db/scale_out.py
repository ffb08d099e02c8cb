"""Distribute a large table with an extension of PostgreSQL: plan the statements and execute them.

No other code refers to the extensions. The plan runs in one transaction, so it is applied completely or not at all.
"""

from dataclasses import dataclass
from enum import StrEnum

import psycopg

__all__ = ["CannotScaleOut", "Extension", "Hypertable", "Step", "apply", "plan"]


class Extension(StrEnum):
    """Extension for scale-out."""

    CITUS = "citus"
    TIMESCALEDB = "timescaledb"


class CannotScaleOut(RuntimeError):
    """The database does not meet the requirements; the text gives the reason and a remedy."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement and its purpose."""

    purpose: str
    statement: str


@dataclass(frozen=True, slots=True)
class Hypertable:
    """A table of time series: its name and columns. The names are constants of the program and need no quotes."""

    name: str
    time: str
    series: str
    """Column whose rows are stored together when they are compressed."""


def _steps(table: Hypertable) -> list[Step]:
    name, before = table.name, f"{table.name}_before"
    return [
        Step("rename the table", f"ALTER TABLE {name} RENAME TO {before}"),
        Step("create an empty table like it", f"CREATE TABLE {name} (LIKE {before} INCLUDING ALL)"),
        Step(
            "let TimescaleDB partition it by day",
            f"SELECT create_hypertable('{name}', by_range('{table.time}', INTERVAL '1 day'), create_default_indexes => false)",
        ),
        Step("copy the rows", f"INSERT INTO {name} SELECT * FROM {before}"),
        Step("drop the old table", f"DROP TABLE {before}"),
        Step(
            "keep the rows of a series together when they are compressed",
            f"ALTER TABLE {name} SET (timescaledb.compress, timescaledb.compress_segmentby = '{table.series}',"
            f" timescaledb.compress_orderby = '{table.time}')",
        ),
        Step("compress what is older than a week", f"SELECT add_compression_policy('{name}', INTERVAL '7 days')"),
    ]


def plan(url: str, extension: Extension, table: Hypertable) -> list[Step]:
    """Return the statements to run; empty if they have run already.

    Raises:
        CannotScaleOut: The extension is not supported, or not in the database.
    """
    if extension is Extension.CITUS:
        raise CannotScaleOut("Citus is not supported: ingest stops once its tables are distributed")
    with psycopg.connect(url, autocommit=True) as connection:
        installed = connection.execute("SELECT FROM pg_extension WHERE extname = %s", (extension,)).fetchone()
        if installed is None:
            available = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", (extension,)).fetchone()
            raise CannotScaleOut(
                f"{extension} is on the server but not in this database: have its owner run CREATE EXTENSION {extension}"
                if available is not None
                else f"the server does not have {extension}: install it, add it to shared_preload_libraries, restart,"
                f" and run CREATE EXTENSION {extension} in this database"
            )
        found = connection.execute(
            "SELECT FROM timescaledb_information.hypertables WHERE hypertable_name = %s", (table.name,)
        ).fetchone()
        return _steps(table) if found is None else []


def apply(url: str, steps: list[Step]) -> None:
    """Execute a plan in one transaction. The service's processes must be stopped. PostgreSQL's errors are raised unchanged."""
    with psycopg.connect(url) as connection:
        for step in steps:
            connection.execute(step.statement.encode())
