"""Statements that delete too much: on a large database they would take longer than a statement may."""

from gridfleet.kernel.db import Database

__all__ = ["end_large_deletions"]


async def end_large_deletions(database: Database, table: str, most: int) -> None:
    """End each statement that deletes more than `most` rows of a table, as the server ends one that takes too long."""
    name = f"end_large_deletions_of_{table}"
    async with database.transaction() as db:
        await db.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF (SELECT count(*) FROM gone) > {most} THEN RAISE query_canceled; END IF; RETURN NULL; END $$".encode()
        )
        await db.execute(
            f"CREATE TRIGGER {name} AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT"
            f" EXECUTE FUNCTION {name}()".encode()
        )
