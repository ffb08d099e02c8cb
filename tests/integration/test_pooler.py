"""Behind PgBouncer in transaction mode, processes end with one clear line instead of running in other clients' sessions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg_pool import PoolTimeout

from gridfleet.kernel.db import open_database
from support.servers.api_process import KEYS
from support.servers.free_ports import free_ports
from support.servers.pooler import pooler


@pytest.mark.parametrize("command", ["serve", "ingest", "gateway", "jobs", "doctor"])
@pytest.mark.parametrize("ignored", ["", "options"])
def test_no_process_starts_behind_a_pooler(database_url: str, tmp_path: Path, command: str, ignored: str) -> None:
    with pooler(database_url, tmp_path, ignored=ignored) as url:
        printed = refusal(command, tmp_path, GRIDFLEET_DATABASE_URL=url)
    assert "GRIDFLEET_DATABASE_URL leads to a connection pooler" in printed


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_a_replica_behind_a_pooler_is_refused(database_url: str, tmp_path: Path, command: str) -> None:
    with pooler(database_url, tmp_path, ignored="options") as url:
        printed = refusal(command, tmp_path, GRIDFLEET_DATABASE_URL=database_url, GRIDFLEET_DATABASE_READ_URL=url)
    assert "GRIDFLEET_DATABASE_READ_URL leads to a connection pooler" in printed


async def test_a_running_process_sends_no_statement_through_a_pooler(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was started while the pooler had no database, or its address leads to a pooler since then."""
    with pooler(database_url, tmp_path, ignored="options") as url:
        async with open_database(url, name="test", size=1, wait_seconds=3) as database:
            with pytest.raises(PoolTimeout):
                async with database.transaction() as db:
                    await db.execute("SELECT 1")
    assert "the database URL leads to a connection pooler" in caplog.text


def refusal(command: str, folder: Path, **urls: str) -> str:
    """Return what a command prints that ends with exit code 1."""
    http_port, internal_port = free_ports(2)
    settings = {
        "GRIDFLEET_HOME": str(folder / "home"),
        "GRIDFLEET_HTTP_PORT": str(http_port),
        "GRIDFLEET_INTERNAL_PORT": str(internal_port),
        "GRIDFLEET_METRICS_PORT": "0",
        "GRIDFLEET_INTERNAL_SECRET": "inside",
        "GRIDFLEET_KEYS": KEYS,
        "GRIDFLEET_BROKER_URL": "amqp://guest:guest@127.0.0.1:1",
        "GRIDFLEET_BROKER_MANAGEMENT_URL": "http://guest:guest@127.0.0.1:1",
        **urls,
    }
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
    ended = subprocess.run(
        [sys.executable, "-m", "gridfleet", command], env=outer | settings, capture_output=True, text=True, timeout=60
    )
    printed = " ".join((ended.stdout + ended.stderr).split())
    assert ended.returncode == 1, printed
    assert "Traceback" not in printed
    return printed
