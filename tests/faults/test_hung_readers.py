"""Locks of a process that hangs while the server sends it a result over TCP."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gridfleet.kernel.db.pool import OPTIONS
from gridfleet.local.postgres import EmbeddedPostgres
from support.servers.free_ports import free_ports
from support.servers.replication import execute

READER = """
import sys, psycopg
with psycopg.connect(sys.argv[1], options=sys.argv[2]) as connection:
    connection.execute("UPDATE one SET value = 1")
    print("locked", flush=True)
    # The result is larger than all buffers, and is sent when this process has stopped.
    connection.execute("UPDATE many SET value = 1 FROM (SELECT pg_sleep(1)) AS s RETURNING repeat('x', 1000)")
"""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run a server that also listens on TCP, without passwords. Yields the address of its database there."""
    [port] = free_ports(1)
    # The number is part of the name of the server's socket.
    monkeypatch.setenv("PGPORT", str(port))
    server = EmbeddedPostgres(tmp_path, {"listen_addresses": "127.0.0.1", "port": str(port), "shared_buffers": "64MB"})
    try:
        server.start()
        yield f"postgresql://gridfleet@127.0.0.1:{port}/gridfleet"
    finally:
        server.stop()


@pytest.mark.faults
def test_a_process_that_stops_reading_releases_its_locks(url: str) -> None:
    """No other limit applies while the server sends: the kernel of a process that has stopped answers keep-alives."""
    execute(url, "CREATE TABLE one AS SELECT 0 AS value")
    execute(url, "CREATE TABLE many AS SELECT 0 AS value FROM generate_series(1, 30000)")
    with subprocess.Popen([sys.executable, "-c", READER, url, OPTIONS], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        try:
            assert reader.stdout.readline() == b"locked\n"
            os.kill(reader.pid, signal.SIGSTOP)
            with psycopg.connect(url, autocommit=True, options="-c lock_timeout=60000") as other:
                other.execute("UPDATE one SET value = 2")
        finally:
            reader.kill()
