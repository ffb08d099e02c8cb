"""A migration waits for the transactions of a busy database where waiting blocks no other process."""

import os
import re
import subprocess
import sys
import threading
import time

import psycopg
from alembic import command
from alembic.config import Config

from gridfleet.kernel.db.migrate import head_revision, migrate


def test_an_index_waits_for_older_transactions(postgres_url: str) -> None:
    url = database_at(postgres_url, "busy", "0107")
    with psycopg.connect(url) as older:
        older.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        older.execute("SELECT 1")
        threading.Timer(3, older.commit).start()
        assert migrate(url) == head_revision()


def test_a_process_that_waits_for_the_migration_does_not_stop_its_index(postgres_url: str) -> None:
    """CREATE INDEX CONCURRENTLY waits for every older snapshot: also for that of a statement that waits for the migration."""
    url = database_at(postgres_url, "awaited", "0156")
    with psycopg.connect(url) as older, psycopg.connect(url, autocommit=True) as observer:
        older.execute("LOCK TABLE plant_command IN ROW EXCLUSIVE MODE")
        first = start_upgrade(url)
        wait_for_sessions(observer, 1, "query LIKE 'CREATE INDEX CONCURRENTLY%'")
        second = start_upgrade(url)
        # The sessions of `older` and of both processes: after a second, the second process waits for the first one.
        wait_for_sessions(observer, 3, "backend_start < now() - interval '1 second'")
        older.commit()
        outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0)
    done = f"schema at revision {head_revision()}, before at 0156\n"
    assert outputs[0] == done
    assert re.fullmatch(rf"[^\n]*another process migrates the database; waiting for it[^\n]*\n{done}", outputs[1])


def database_at(postgres_url: str, name: str, revision: str) -> str:
    """Create a database, migrate it to this revision and return its URL."""
    url = postgres_url.replace("/gridfleet?", f"/{name}?")
    with psycopg.connect(postgres_url.replace("/gridfleet?", "/postgres?"), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    config = Config()
    config.set_main_option("script_location", "gridfleet.kernel.db:migrations")
    config.attributes["url"] = url
    command.upgrade(config, revision)
    return url


def start_upgrade(url: str) -> subprocess.Popen[str]:
    """Migrate in a process of its own, because Alembic keeps the running migration in global variables."""
    return subprocess.Popen(
        [sys.executable, "-m", "gridfleet", "db", "upgrade"],
        env=os.environ | {"GRIDFLEET_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_sessions(observer: psycopg.Connection, count: int, condition: str) -> None:
    """Wait until this number of other sessions of the database meets the condition."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        f" AND pid <> pg_backend_pid() AND {condition}"
    )
    deadline = time.monotonic() + 60
    while observer.execute(query).fetchone() != (count,):
        assert time.monotonic() < deadline, f"never {count} sessions where {condition}"
        time.sleep(0.05)
