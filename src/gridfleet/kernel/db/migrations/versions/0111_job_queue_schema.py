"""Keep the job queue of a new database in the schema `procrastinate`.

Revision ID: 0111
"""

from typing import Final

from alembic import op

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None

# Sequences, indexes and triggers follow their tables. Names of the library's objects, except indexes, begin with the same word.
MOVE: Final = r"""
DO $$
DECLARE
    moved text;
BEGIN
    FOR moved IN
        SELECT format('TABLE %s', oid::regclass) FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname LIKE 'procrastinate\_%'
        UNION ALL SELECT format('ROUTINE %s', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'procrastinate\_%'
        UNION ALL SELECT format('TYPE %s', oid::regtype) FROM pg_type
        WHERE typnamespace = current_schema()::regnamespace AND typname LIKE 'procrastinate\_%'
        AND (typtype = 'e' OR typrelid IN (SELECT oid FROM pg_class WHERE relkind = 'c'))
    LOOP
        EXECUTE format('ALTER %s SET SCHEMA procrastinate', moved);
    END LOOP;
END $$
"""


def upgrade() -> None:
    """Create the schema, and move the queue into it if no process has used the queue.

    Processes of the previous release do not search the schema. The migration of the next release moves the queue of the other
    databases: see decision 0007.
    """
    cursor = op.get_bind().connection.cursor()
    cursor.execute("CREATE SCHEMA IF NOT EXISTS procrastinate")
    cursor.execute("COMMENT ON SCHEMA procrastinate IS 'Background jobs: objects of the library procrastinate.'")
    used = cursor.execute(
        "SELECT (SELECT is_called FROM procrastinate_workers_id_seq) OR (SELECT is_called FROM procrastinate_jobs_id_seq)"
    )
    if used.fetchone() == (False,):
        cursor.execute(MOVE)
