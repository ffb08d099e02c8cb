"""What many stores need: the single value of a query, and the assignments of an UPDATE."""

from collections.abc import Iterable
from typing import Any

from psycopg import sql
from psycopg.abc import Params

from gridfleet.kernel.db.pool import Connection

__all__ = ["assignments", "fetch_count", "fetch_value"]


async def fetch_value(
    db: Connection, query: str, parameters: Params | None = None, *, prepare: bool | None = None
) -> Any | None:
    """Return the first column of the first row; None without rows. `prepare` is that of psycopg's `execute`."""
    row = await (await db.execute(query, parameters, prepare=prepare)).fetchone()
    return row[0] if row else None


async def fetch_count(db: Connection, query: str, parameters: Params | None = None, *, prepare: bool | None = None) -> int:
    """Return the integer that a query counts; 0 without rows."""
    return int(await fetch_value(db, query, parameters, prepare=prepare) or 0)


def assignments(columns: Iterable[str]) -> str:
    """Return `"column" = %(column)s, …` for the SET of an UPDATE whose parameters have the names of the columns."""
    return ", ".join(f"{sql.Identifier(name).as_string()} = %({name})s" for name in columns)
