"""SQL for data that is encrypted at rest: count the rows of each key version, and encrypt rows with another version.

The owner of an encrypted column declares it as an `EncryptedTable`, with the key version beside the blobs, or as
`EncryptedJobs`, whose arguments contain both. This module alone iterates over the rows.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from psycopg import sql
from psycopg.types.json import Jsonb

from gridfleet.kernel.db.pool import Connection

__all__ = ["EncryptedJobs", "EncryptedRecords", "EncryptedRow", "EncryptedTable"]

Key = tuple[Any, ...]


class EncryptedRow(NamedTuple):
    """A row's key, and its blobs in the order of the columns. Blobs are bound to the table, the column and `row_id`."""

    key: Key
    row_id: str
    key_version: int
    blobs: tuple[bytes | None, ...]


class EncryptedRecords(Protocol):
    """The rows of one table that have encrypted columns, read in the order of their keys."""

    @property
    def kind(self) -> str:
        """The table that blobs are bound to."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that blobs are bound to."""

    async def count(self, db: Connection) -> dict[int, int]:
        """Return the number of rows by key version. Rows without an encrypted value are not counted."""

    async def take(self, db: Connection, target: int, after: Key | None, limit: int, *, wait: bool) -> list[EncryptedRow]:
        """Return and lock the next rows of a version other than `target`. The locks last until the transaction ends.

        Args:
            db: A connection in a transaction.
            target: The key version that rows should have.
            after: Key of the last row read; None for the first rows.
            limit: Maximum number of rows.
            wait: Whether to wait for rows that others have locked, or to skip them.
        """

    async def replace(self, db: Connection, target: int, rows: Sequence[EncryptedRow]) -> None:
        """Write the blobs of locked rows, now of version `target`."""


def _first(key: Key) -> str:
    return str(key[0])


@dataclass(frozen=True)
class EncryptedTable:
    """A table with the column `key_version` beside its encrypted columns. `key` has the columns of the primary key."""

    kind: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    row_id: Callable[[Key], str] = field(default=_first)

    async def count(self, db: Connection) -> dict[int, int]:
        """See `EncryptedRecords`."""
        query = sql.SQL("SELECT key_version, count(*) FROM {} WHERE key_version IS NOT NULL GROUP BY 1")
        cursor = await db.execute(query.format(sql.Identifier(self.kind)))
        return dict(await cursor.fetchall())

    async def take(self, db: Connection, target: int, after: Key | None, limit: int, *, wait: bool) -> list[EncryptedRow]:
        """See `EncryptedRecords`."""
        key = sql.SQL(", ").join(map(sql.Identifier, self.key))
        beyond = sql.SQL("") if after is None else sql.SQL(" AND ({}) > ({})").format(key, _values(after))
        query = sql.SQL(
            "SELECT key_version, {key}, {columns} FROM {table} WHERE key_version <> {target}{beyond}"
            " ORDER BY {key} LIMIT {limit} FOR NO KEY UPDATE{skip}"
        ).format(
            key=key,
            columns=sql.SQL(", ").join(map(sql.Identifier, self.columns)),
            table=sql.Identifier(self.kind),
            target=target,
            beyond=beyond,
            limit=limit,
            skip=sql.SQL("" if wait else " SKIP LOCKED"),
        )
        cursor = await db.execute(query, prepare=False)
        width = 1 + len(self.key)
        return [
            EncryptedRow(row[1:width], self.row_id(row[1:width]), row[0], tuple(row[width:])) for row in await cursor.fetchall()
        ]

    async def replace(self, db: Connection, target: int, rows: Sequence[EncryptedRow]) -> None:
        """See `EncryptedRecords`."""
        query = sql.SQL("UPDATE {} SET key_version = %s, {} WHERE {}").format(
            sql.Identifier(self.kind),
            sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in self.columns),
            sql.SQL(" AND ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in self.key),
        )
        await db.cursor().executemany(query, [(target, *row.blobs, *row.key) for row in rows])


@dataclass(frozen=True)
class EncryptedJobs:
    """Jobs of one task that are not done.

    Their arguments are `key_version`, `sealed` (the encrypted bytes in base64) and the row's id.
    """

    kind: str
    columns: tuple[str]
    task: str
    id_argument: str

    async def count(self, db: Connection) -> dict[int, int]:
        """See `EncryptedRecords`."""
        cursor = await db.execute(
            "SELECT (args->>'key_version')::int, count(*) FROM procrastinate_jobs WHERE task_name = %s GROUP BY 1", (self.task,)
        )
        return dict(await cursor.fetchall())

    async def take(self, db: Connection, target: int, after: Key | None, limit: int, *, wait: bool) -> list[EncryptedRow]:
        """See `EncryptedRecords`."""
        cursor = await db.execute(
            "SELECT id, args->>%(id)s, (args->>'key_version')::int, args->>'sealed' FROM procrastinate_jobs"
            " WHERE task_name = %(task)s AND (args->>'key_version')::int <> %(target)s AND id > %(after)s"
            f" ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE{'' if wait else ' SKIP LOCKED'}".encode(),
            {"id": self.id_argument, "task": self.task, "target": target, "after": after[0] if after else 0, "limit": limit},
        )
        return [
            EncryptedRow((job,), row_id, version, (base64.b64decode(encrypted),))
            for job, row_id, version, encrypted in await cursor.fetchall()
        ]

    async def replace(self, db: Connection, target: int, rows: Sequence[EncryptedRow]) -> None:
        """See `EncryptedRecords`."""
        changes = [(_arguments(target, row.blobs[0] or b""), *row.key) for row in rows]
        await db.cursor().executemany("UPDATE procrastinate_jobs SET args = args || %s WHERE id = %s", changes)


def _arguments(target: int, blob: bytes) -> Jsonb:
    return Jsonb({"key_version": target, "sealed": base64.b64encode(blob).decode()})


def _values(key: Key) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Literal, key))
