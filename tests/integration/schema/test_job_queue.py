"""The job queue has a schema of its own. A queue in use moves there one release later, while processes go on."""

import runpy
from pathlib import Path

import psycopg

from gridfleet.kernel.db import Database, jobs, open_database
from gridfleet.kernel.db.migrate import head_revision, migrate
from gridfleet.kernel.db.migrations import versions

MOVE = runpy.run_path(str(Path(next(iter(versions.__path__)), "0111_job_queue_schema.py")))["MOVE"]
OBJECTS = (
    "SELECT n.nspname, count(*) FROM pg_namespace n JOIN ("
    " SELECT relnamespace AS schema FROM pg_class WHERE relname LIKE 'procrastinate%' OR relname LIKE 'idx_procrastinate%'"
    " UNION ALL SELECT pronamespace FROM pg_proc WHERE proname LIKE 'procrastinate%'"
    " UNION ALL SELECT typnamespace FROM pg_type WHERE typname LIKE '%procrastinate%'"
    ") o ON o.schema = n.oid GROUP BY 1"
)


def move_back(url: str) -> None:
    """Make the database one of the release before, whose queue is in use."""
    with psycopg.connect(url) as db:
        db.execute("SET search_path = procrastinate")
        db.execute(MOVE.replace("SET SCHEMA procrastinate", "SET SCHEMA public").encode())
        db.execute("SELECT nextval('public.procrastinate_workers_id_seq')")
        db.execute("UPDATE public.alembic_version SET version_num = '0110'")


def schemas(url: str) -> set[str]:
    with psycopg.connect(url) as db:
        return {row[0] for row in db.execute(OBJECTS).fetchall()}


def test_a_new_database_has_the_queue_in_its_own_schema(database_url: str) -> None:
    assert schemas(database_url) == {"procrastinate"}


def test_a_queue_in_use_stays_where_processes_of_the_previous_release_find_it(database_url: str) -> None:
    move_back(database_url)
    assert migrate(database_url) == head_revision()
    assert schemas(database_url) == {"public"}


async def test_jobs_are_queued_before_and_after_the_move_over_the_same_connection(database_url: str) -> None:
    move_back(database_url)
    migrate(database_url)
    async with open_database(database_url, name="test", size=1) as database:
        first = await queue_a_job(database)
        with psycopg.connect(database_url) as db:
            db.execute(MOVE.encode())
        assert await queue_a_job(database) == first, "the pool has opened another connection"
        async with database.transaction() as db:
            cursor = await db.execute("SELECT count(*) FROM procrastinate.procrastinate_jobs")
            assert await cursor.fetchone() == (2,)
    assert schemas(database_url) == {"procrastinate"}


async def queue_a_job(database: Database) -> int:
    """Queue a job. Returns the process id of the connection at the server."""
    async with database.transaction() as db:
        await jobs.defer(db, "no.such_task", {})
        return db.info.backend_pid
