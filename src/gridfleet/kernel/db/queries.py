"""What many stores need: single values and undecoded JSON of a query, the columns of an UPDATE, and patterns of texts."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec
from psycopg import AsyncCursor, sql
from psycopg.abc import Buffer, Params
from psycopg.adapt import Loader

from gridfleet.kernel.db.pool import Connection

__all__ = [
    "NOT_AHEAD",
    "NOT_AHEAD_OF",
    "assignments",
    "containing",
    "fetch_count",
    "fetch_in_turns",
    "fetch_value",
    "given",
    "with_raw_json",
]

Row = TypeVar("Row")
NOT_AHEAD: Final = "<= now() + interval '1 minute'"
"""Condition of limits on the times of rows. Rows of a clock that was ahead would count until their times have passed."""
NOT_AHEAD_OF: Final = "<= greatest(now(), %s) + interval '1 minute'"
"""The same for rows with times of the processes' clocks. The parameter is the time of this process, which may be ahead."""
_VALUES_A_TURN: Final = 10_000
"""Each takes a tenth of a microsecond."""


async def fetch_value(
    db: Connection, query: str, parameters: Params | None = None, *, prepare: bool | None = None
) -> Any | None:
    """Return the first column of the first row; None without rows. `prepare` is that of psycopg's `execute`."""
    row = await (await db.execute(query, parameters, prepare=prepare)).fetchone()
    return row[0] if row else None


async def fetch_count(db: Connection, query: str, parameters: Params | None = None, *, prepare: bool | None = None) -> int:
    """Return the integer that a query counts; 0 without rows."""
    return int(await fetch_value(db, query, parameters, prepare=prepare) or 0)


async def fetch_in_turns(cursor: AsyncCursor[Row]) -> list[Row]:
    """Return all rows of a cursor. Other tasks of the event loop run while many values are read."""
    rows: list[Row] = []
    size = max(1, _VALUES_A_TURN // len(cursor.description or [()]))
    while part := await cursor.fetchmany(size):
        rows += part
        await asyncio.sleep(0)
    return rows


class _RawLoader(Loader):
    def load(self, data: Buffer) -> msgspec.Raw:
        return msgspec.Raw(bytes(data))


def with_raw_json(cursor: AsyncCursor[Row]) -> AsyncCursor[Row]:
    """Return the cursor, which leaves JSON documents undecoded: for lists of them that become a response.

    A page of documents that callers have filled may hold millions of values, which take seconds to decode and encode again.
    """
    cursor.adapters.register_loader("jsonb", _RawLoader)
    return cursor


def containing(text: str) -> str:
    """Return the pattern with which LIKE and ILIKE find texts that contain `text`, of which no character is special."""
    return "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"


def given(changes: msgspec.Struct) -> dict[str, Any]:
    """Return the members that are set, by name."""
    return {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not msgspec.UNSET}


def assignments(columns: Iterable[str]) -> str:
    """Return `"column" = %(column)s, …` for the SET of an UPDATE whose parameters have the names of the columns."""
    return ", ".join(f"{sql.Identifier(name).as_string()} = %({name})s" for name in columns)
