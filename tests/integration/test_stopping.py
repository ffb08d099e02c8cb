"""`gridfleet serve` ends in time, whatever hangs."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import psycopg

from support.servers.api_process import api_command
from support.servers.suspended import suspended
from support.servers.unread import unread


@contextlib.contextmanager
def hanging_server(database_url: str) -> Iterator[None]:
    """Suspend the database server until the block ends."""
    with psycopg.connect(database_url) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    with suspended(server):
        yield


def test_serve_ends_within_ten_seconds_while_the_database_hangs(database_url: str, home: Path) -> None:
    with api_command(database_url, home, ()) as running:
        login = {"email": "ada@example.com", "password": "Correct horse 1!"}

        def ask() -> None:
            with contextlib.suppress(httpx.TransportError):
                httpx.post(f"{running.url}/api/v1/auth/login", json=login, timeout=60)

        with hanging_server(database_url):
            for _ in range(5):
                threading.Thread(target=ask, daemon=True).start()
            time.sleep(2)
            began = time.monotonic()
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(60)
            seconds = time.monotonic() - began
    assert seconds < 10
    assert "Traceback" not in next(home.glob("serve-*.log")).read_text()


def test_serve_refuses_new_connections_while_it_ends(database_url: str, home: Path) -> None:
    """A balancer then asks another process. One that is accepted and not answered is a failed request."""
    with api_command(database_url, home, ()) as running, unread(httpx.URL(running.url).port or 0, "/docs/swagger-ui.js"):
        address = "127.0.0.1", httpx.URL(running.url).port
        time.sleep(2)
        running.process.send_signal(signal.SIGTERM)
        refused = 0
        while running.process.poll() is None:
            try:
                socket.create_connection(address).close()
            except ConnectionRefusedError:
                refused += 1
            time.sleep(0.1)
    assert refused > 20
