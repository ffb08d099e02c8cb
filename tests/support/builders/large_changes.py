"""Statements that change too much: on a large database they would take longer than a statement may."""

from typing import Literal

from gridfleet.kernel.db import Database

__all__ = ["end_large_changes"]


async def end_large_changes(database: Database, table: str, most: int, change: Literal["DELETE", "UPDATE"] = "DELETE") -> None:
    """End each statement that changes more than `most` rows of a table, as the server ends one that takes too long."""
    name = f"end_large_changes_of_{table}"
    async with database.transaction() as db:
        await db.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF (SELECT count(*) FROM changed) > {most} THEN RAISE query_canceled; END IF; RETURN NULL; END $$".encode()
        )
        await db.execute(
            f"CREATE TRIGGER {name} AFTER {change} ON {table} REFERENCING OLD TABLE AS changed FOR EACH STATEMENT"
            f" EXECUTE FUNCTION {name}()".encode()
        )
