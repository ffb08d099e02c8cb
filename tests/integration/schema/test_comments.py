"""The schema explains itself to a database administrator: every table and column that needs a comment has one."""

from gridfleet.kernel.db import Database

SELF_EXPLANATORY = {"id", "name", "email", "created_at", "updated_at", "organization_id", "plant_id", "user_id"}
"""Columns that need no comment unless they can be NULL."""

_TABLES = " FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"


async def test_every_table_has_a_comment(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(f"SELECT relname, obj_description(oid, 'pg_class'){_TABLES}")
        found = dict(await cursor.fetchall())
    assert {"plant", "telemetry_frame", "outbox"} <= found.keys()
    assert sorted(name for name, comment in found.items() if not comment) == []


async def test_every_column_that_does_not_explain_itself_has_a_comment(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT t.relname, a.attname, a.attnotnull, col_description(t.oid, a.attnum) FROM pg_attribute a"
            f" JOIN (SELECT c.oid, c.relname{_TABLES} AND c.relname NOT LIKE 'procrastinate%') t ON t.oid = a.attrelid"
            " WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2"
        )
        columns = await cursor.fetchall()
    lacking = [
        f"{table}.{column}"
        for table, column, not_null, comment in columns
        if not comment and not (not_null and column in SELF_EXPLANATORY)
    ]
    assert lacking == []


async def test_a_comment_of_a_nullable_column_says_what_null_means(database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT t.relname || '.' || a.attname FROM pg_attribute a"
            f" JOIN (SELECT c.oid, c.relname{_TABLES} AND c.relname NOT LIKE 'procrastinate%') t ON t.oid = a.attrelid"
            " WHERE a.attnum > 0 AND NOT a.attisdropped AND NOT a.attnotnull"
            " AND col_description(t.oid, a.attnum) NOT LIKE '%NULL: %' ORDER BY 1"
        )
        assert await cursor.fetchall() == []
