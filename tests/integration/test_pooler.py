"""Behind PgBouncer in transaction mode, processes end with one clear line instead of running in other clients' sessions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers.api_process import KEYS
from support.servers.free_ports import free_ports
from support.servers.pooler import pooler


@pytest.mark.parametrize("command", ["serve", "ingest", "gateway", "jobs", "doctor"])
@pytest.mark.parametrize("ignored", ["", "options"])
def test_no_process_starts_behind_a_pooler(database_url: str, tmp_path: Path, command: str, ignored: str) -> None:
    http_port, internal_port = free_ports(2)
    with pooler(database_url, tmp_path, ignored=ignored) as url:
        settings = {
            "GRIDFLEET_HOME": str(tmp_path / "home"),
            "GRIDFLEET_DATABASE_URL": url,
            "GRIDFLEET_HTTP_PORT": str(http_port),
            "GRIDFLEET_INTERNAL_PORT": str(internal_port),
            "GRIDFLEET_METRICS_PORT": "0",
            "GRIDFLEET_INTERNAL_SECRET": "inside",
            "GRIDFLEET_KEYS": KEYS,
            "GRIDFLEET_BROKER_URL": "amqp://guest:guest@127.0.0.1:1",
            "GRIDFLEET_BROKER_MANAGEMENT_URL": "http://guest:guest@127.0.0.1:1",
        }
        outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
        ended = subprocess.run(
            [sys.executable, "-m", "gridfleet", command], env=outer | settings, capture_output=True, text=True, timeout=60
        )
    printed = ended.stdout + ended.stderr
    print(printed)
    assert ended.returncode == 1
    assert "GRIDFLEET_DATABASE_URL leads to a connection pooler" in " ".join(printed.split())
    assert "Traceback" not in printed
