"""The embedded server on its own: starts, keeps data, recovers from kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from gridfleet.kernel.db.migrate import head_revision, migrate, revision_at
from gridfleet.local.postgres import EmbeddedPostgres

_STARTER = """
import pathlib, sys, time
from gridfleet.local.postgres import EmbeddedPostgres
server = EmbeddedPostgres(pathlib.Path(sys.argv[1]))
print(server.start(), flush=True)
time.sleep(60)
"""


def test_data_survives_a_stop_and_only_the_socket_listens(home: Path) -> None:
    server = EmbeddedPostgres(home)
    url = server.start()
    try:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        server.stop()
        assert server.start() == url
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    finally:
        server.stop()
    assert not _servers_in(home)


def test_a_killed_server_starts_again_with_what_was_committed(home: Path) -> None:
    server = EmbeddedPostgres(home)
    url = server.start()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            for pid in _postmasters(home):
                os.kill(pid, signal.SIGKILL)
        server.stop()
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    finally:
        server.stop()


def test_a_killed_starter_takes_its_server_along(home: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, str(home)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    assert starter.stdout.readline().startswith(b"postgresql://")
    starter.kill()
    starter.wait()
    starter.stdout.close()
    # At once, while the orphan may still be shutting down: the start must cope with either.
    server = EmbeddedPostgres(home)
    try:
        with psycopg.connect(server.start()) as connection:
            connection.execute("SELECT 1")
    finally:
        server.stop()


def test_a_lock_file_with_a_strangers_process_id_is_no_obstacle(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.start()
    lock = home / "postgres" / "postmaster.pid"
    text = lock.read_text()
    server.stop()
    lock.write_text("\n".join([str(os.getppid()), *text.splitlines()[1:]]))
    try:
        server.start()
    finally:
        server.stop()


def test_a_deep_home_has_the_same_socket_path_in_every_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cron does not have the variables of a session."""
    server = EmbeddedPostgres(home / ("d" * 60) / ("e" * 60))
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.setenv(variable, str(home))
    url = server.url
    for variable in ("XDG_RUNTIME_DIR", "TMPDIR"):
        monkeypatch.delenv(variable)
    try:
        assert server.url == url
    finally:
        Path(conninfo_to_dict(server.url)["host"]).rmdir()


def test_a_deep_home_gets_a_short_socket_path(home: Path) -> None:
    server = EmbeddedPostgres(home / ("d" * 60) / ("e" * 60))
    try:
        with psycopg.connect(server.start()) as connection:
            connection.execute("SELECT 1")
    finally:
        server.stop()
        Path(conninfo_to_dict(server.url)["host"]).rmdir()


def test_migrating_twice_changes_nothing(postgres_url: str, database_url: str) -> None:
    assert revision_at(database_url) == head_revision()
    assert migrate(database_url) == head_revision()


def test_what_a_later_release_has_migrated_stays_as_it_is(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'next'")
    environment = os.environ | {"GRIDFLEET_DATABASE_URL": database_url}

    assert migrate(database_url) == revision_at(database_url) == "next"
    for old, code in (("next", 0), ("0001", 1)):
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("UPDATE alembic_version SET version_num = %s", (old,))
        check = subprocess.run(
            [sys.executable, "-m", "gridfleet", "db", "check"], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        assert (check.returncode, f"revision {old}," in check.stdout) == (code, True)


def _postmasters(home: Path) -> list[int]:
    return [int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0])]


def _servers_in(home: Path) -> list[psutil.Process]:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        found = [p for p in psutil.process_iter(["name", "cmdline"]) if str(home) in " ".join(p.info["cmdline"] or ())]
        if not found:
            return []
        time.sleep(0.1)
    return found
