"""Concurrent transactions: helpers that wait until one is blocked by another, or that make a step of one slow."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import LockNotAvailable

from gridfleet.domains.plants.commands.sending import store as sending
from gridfleet.kernel.db import Database

_BLOCKED = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()"
)


async def until_blocked(database: Database, count: int = 1) -> None:
    """Return once `count` connections to the database wait for a lock."""
    async with asyncio.timeout(60), database.autocommit() as db:
        while True:
            row = await (await db.execute(_BLOCKED)).fetchone()
            if row is not None and row[0] >= count:
                return
            await asyncio.sleep(0.01)


def slow_look_up_of_plants(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Make the look-up of plants whose commands can be claimed take `seconds` longer, as with very many plants."""
    look_up = sending.plants_to_claim

    async def slow(*arguments: Any) -> list[UUID]:
        await asyncio.sleep(seconds)
        return await look_up(*arguments)

    patch.setattr(sending, "plants_to_claim", slow)


async def pause_reads(database: Database, table: str) -> None:
    """Make a transaction with `test.pause` set wait, while it reads the table, until the advisory lock 1 is free.

    The statement's snapshot is older than that wait, so it does not contain what another transaction commits meanwhile.
    """
    async with database.transaction() as db:
        await db.execute(
            "CREATE FUNCTION pause() RETURNS boolean LANGUAGE plpgsql VOLATILE COST 0.0001 AS $$ BEGIN"
            " IF current_setting('test.pause', true) = 'on' THEN PERFORM pg_advisory_lock(1); PERFORM pg_advisory_unlock(1);"
            " END IF; RETURN true; END $$"
        )
        await db.execute(f"ALTER TABLE {table} RENAME TO {table}_row".encode())
        await db.execute(f"CREATE VIEW {table} AS SELECT * FROM {table}_row WHERE pause()".encode())


async def is_locked(database: Database, table: str, row_id: UUID) -> bool:
    """Return whether a transaction holds the row against changes."""
    async with database.autocommit() as db:
        try:
            await db.execute(f"SELECT FROM {table} WHERE id = %s FOR NO KEY UPDATE NOWAIT".encode(), (row_id,))
        except LockNotAvailable:
            return True
        return False
