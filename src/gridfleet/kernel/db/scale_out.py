"""Distribute telemetry with an extension of PostgreSQL: plan the statements and execute them.

No other code refers to the extensions. The plan runs in one transaction, so it is applied completely or not at all.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import psycopg

__all__ = ["CannotScaleOut", "Extension", "Step", "apply", "plan"]


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


_HYPERTABLE: Final = (
    Step("rename the table of frames", "ALTER TABLE telemetry_frame RENAME TO telemetry_frame_before"),
    Step("create an empty table like it", "CREATE TABLE telemetry_frame (LIKE telemetry_frame_before INCLUDING ALL)"),
    Step(
        "let TimescaleDB partition it by day",
        "SELECT create_hypertable('telemetry_frame', by_range('time', INTERVAL '1 day'), create_default_indexes => false)",
    ),
    Step("copy the frames", "INSERT INTO telemetry_frame SELECT * FROM telemetry_frame_before"),
    Step("drop the old table", "DROP TABLE telemetry_frame_before"),
    Step(
        "keep the frames of a source together when they are compressed",
        "ALTER TABLE telemetry_frame SET (timescaledb.compress, timescaledb.compress_segmentby = 'source_id',"
        " timescaledb.compress_orderby = 'time')",
    ),
    Step("compress what is older than a week", "SELECT add_compression_policy('telemetry_frame', INTERVAL '7 days')"),
)


def plan(url: str, extension: Extension) -> list[Step]:
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
            "SELECT FROM timescaledb_information.hypertables WHERE hypertable_name = 'telemetry_frame'"
        ).fetchone()
        return list(_HYPERTABLE) if found is None else []


def apply(url: str, steps: list[Step]) -> None:
    """Execute a plan in one transaction. The service's processes must be stopped. PostgreSQL's errors are raised unchanged."""
    with psycopg.connect(url) as connection:
        for step in steps:
            connection.execute(step.statement.encode())
