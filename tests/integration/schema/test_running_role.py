"""The service runs as a role that owns nothing: it can do its work, and cannot change the schema or the audit trail."""

from collections.abc import AsyncIterator
from datetime import UTC, timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg import errors
from typer.testing import CliRunner

from gridfleet.cli import application
from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.jobs.schedule import build_app
from gridfleet.kernel.caller import Actor, ActorType
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.roles import grant
from gridfleet.local.secrets import ensure_local_secrets
from support.builders.telemetry_records import RecordedPlant
from support.servers.free_ports import settings_at

ROLE = "gridfleet_running"


@pytest.fixture
def running_url(database_url: str) -> str:
    """Return the connection string of the running role, which has its rights."""
    with psycopg.connect(database_url, autocommit=True) as db:
        if db.execute("SELECT FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone() is None:
            db.execute(f"CREATE ROLE {ROLE} LOGIN".encode())
    assert grant(database_url, ROLE)
    return database_url.replace("//gridfleet@", f"//{ROLE}@")


@pytest.fixture
async def running(running_url: str) -> AsyncIterator[Database]:
    """Yield a pool of connections of the running role."""
    async with open_database(running_url, name="test", size=5) as opened:
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine ()",
        "CREATE TABLE procrastinate.mine ()",
        "CREATE SCHEMA mine",
        "ALTER TABLE plant ADD COLUMN mine text",
        "DROP TABLE plant",
        "TRUNCATE plant",
        "ALTER TABLE audit_event DISABLE TRIGGER ALL",
        "UPDATE audit_event SET event = ''",
        "DELETE FROM audit_event",
        "UPDATE alembic_version SET version_num = '9999'",
        "CREATE OR REPLACE FUNCTION forget_audit_events(kind text, since timestamptz, until timestamptz) RETURNS bigint"
        " LANGUAGE sql RETURN 1",
        "SET ROLE gridfleet",
    ],
)
async def test_what_the_running_role_may_not_do(running: Database, statement: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        async with running.transaction() as db:
            await db.execute(statement.encode())


async def test_it_owns_nothing(running: Database) -> None:
    async with running.transaction() as db:
        cursor = await db.execute(
            "SELECT FROM pg_shdepend WHERE refobjid = current_user::regrole AND deptype = 'o'"
            " UNION ALL SELECT FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolcreatedb OR rolcreaterole)"
        )
        assert cursor.rowcount == 0


async def test_other_roles_may_not_execute_the_owners_functions(running: Database, database: Database) -> None:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
            " WHERE p.prosecdef AND a.grantee = 0"
        )
        assert await cursor.fetchall() == []


async def test_telemetry_is_stored_rolled_up_and_deleted(running: Database) -> None:
    plant = await RecordedPlant.create(running)
    old = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=40)
    await plant.write(None, ["a"], {old + timedelta(minutes=number): [number] for number in range(120)})
    assert await roll_up(running, seconds=60) == 2
    assert await names(running, "telemetry_frame") == [f"telemetry_frame_{old:%Y%m%d}"]
    assert await names(running, "telemetry_quarter") == [f"telemetry_quarter_{old:%Y%m}01"]
    assert await apply_retention(running, Days(raw=10, minute=20, quarter=600), utc_now())
    assert await names(running, "telemetry_frame") == []
    assert f"telemetry_minute_{old:%Y%m%d}" not in await names(running, "telemetry_minute")
    async with running.transaction() as db:
        assert (await db.execute("SELECT FROM telemetry_hour")).rowcount == 2


async def names(database: Database, parent: str) -> list[str]:
    """Return the partitions of a table."""
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1", (parent,)
        )
        return [row[0] for row in await cursor.fetchall()]


async def test_every_periodic_job_runs(running: Database, home: Path) -> None:
    ensure_local_secrets(home)
    app = build_app(settings_at(home), running)
    async with running.transaction() as db:
        await record(db, Event.USER_LOGGED_IN, Actor(ActorType.SYSTEM))
    async with app.open_async():
        tasks = [periodic.task for periodic in app.periodic_registry.periodic_tasks.values()]
        assert len(tasks) > 10
        for task in tasks:
            await task.defer_async(timestamp=0)
        await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False)
        async with running.transaction() as db:
            cursor = await db.execute("SELECT task_name FROM procrastinate_jobs WHERE status <> 'succeeded'")
            assert await cursor.fetchall() == []
    assert f"telemetry_frame_{utc_now():%Y%m%d}" in await names(running, "telemetry_frame")


async def test_tables_of_later_migrations_are_granted_too(running: Database, database: Database) -> None:
    async with database.transaction() as db:
        await db.execute("CREATE TABLE later (id bigserial PRIMARY KEY)")
    async with running.transaction() as db:
        await db.execute("INSERT INTO later DEFAULT VALUES")


def test_the_command(database_url: str, running_url: str) -> None:
    def run(url: str, role: str) -> tuple[int, str]:
        done = CliRunner().invoke(application, ["db", "grant", role], env={"GRIDFLEET_DATABASE_URL": url})
        return done.exit_code, done.output.strip()

    assert run(database_url, ROLE) == (0, f"{ROLE} may run the service")
    assert run(database_url, "gridfleet") == (0, "gridfleet is the owner, and needs no grant")
    code, text = run(database_url, "gridfleet_other")
    assert (code, text.split(":")[0]) == (1, "there is no role gridfleet_other")
    assert run(running_url, ROLE) == (0, f"{ROLE} has its rights already")
    with psycopg.connect(database_url, autocommit=True) as db:
        db.execute("CREATE TABLE later (id bigserial PRIMARY KEY)")
        db.execute(f"REVOKE ALL ON later FROM {ROLE}".encode())
    for role in (ROLE, "gridfleet"):
        code, text = run(running_url, role)
        assert (code, text.split(":")[0]) == (1, "only the owner of the database can do this")
