"""Two PostgreSQL servers, of which one is the primary and the other its standby by streaming replication."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from gridfleet.local.postgres import EmbeddedPostgres, installed_binaries

_NAME = "standby"
"""The standby's name at its primary."""
_OPTIONS = {"shared_buffers": "64MB", "max_wal_size": "1GB"}


class Replication:
    """A primary and, once it was started, a standby below `folder`. They change places when the standby is promoted."""

    def __init__(self, folder: Path) -> None:
        self._folders = [folder / "a", folder / "b"]
        self.primary = EmbeddedPostgres(self._folders[0], _OPTIONS)
        self.standby = self._server(self._folders[1])

    @property
    def url(self) -> str:
        """The database on the server that accepts writes. The same after a promotion."""
        hosts = quote(",".join(str(folder / "postgres-socket") for folder in self._folders), safe="")
        return f"{self.primary.url.partition('?')[0]}?host={hosts}&target_session_attrs=read-write"

    def start_standby(self, *, synchronous: bool) -> None:
        """Copy the primary, start the copy as its standby, and wait until it streams."""
        folder, account = self.standby.data.parent, self.primary.program()
        shutil.rmtree(self.standby.data, ignore_errors=True)
        folder.mkdir(exist_ok=True)
        os.chown(folder, account.user or -1, account.group or -1)
        options = ("-D", self.standby.data, "-d", self.primary.url, "--checkpoint=fast")
        subprocess.run(
            [installed_binaries() / "pg_basebackup", *options],
            check=True,
            cwd=folder,
            user=account.user,
            group=account.group,
            extra_groups=None if account.user is None else [],
        )
        (self.standby.data / "standby.signal").touch()
        self.standby.start()
        execute(self.primary.url, f"ALTER SYSTEM SET synchronous_standby_names = '{_NAME if synchronous else ''}'")
        execute(self.primary.url, "SELECT pg_reload_conf()")
        state = "sync" if synchronous else "async"
        until(lambda: value(self.primary.url, "SELECT min(sync_state) FROM pg_stat_replication") == state)

    def kill_primary(self) -> None:
        """Kill (-9) every process of the primary at once."""
        parent = psutil.Process(int((self.primary.data / "postmaster.pid").read_text().split()[0]))
        parent.suspend()  # it would end the others in order
        for process in (*parent.children(recursive=True), parent):
            process.send_signal(signal.SIGKILL)
        self.primary.stop()

    def promote(self) -> None:
        """Make the standby the primary. `start_standby` then replaces the former primary by a copy."""
        assert value(self.standby.url, "SELECT pg_promote()") is True
        former = self.primary.data.parent
        self.primary, self.standby = self.standby, self._server(former)

    def stop(self) -> None:
        """Stop both servers."""
        for server in (self.standby, self.primary):
            server.stop()

    def _server(self, folder: Path) -> EmbeddedPostgres:
        [other] = [one for one in self._folders if one != folder]
        conninfo = f"host={other / 'postgres-socket'} user=gridfleet application_name={_NAME}"
        return EmbeddedPostgres(folder, {**_OPTIONS, "primary_conninfo": conninfo})


@contextmanager
def replication(folder: Path, *, synchronous: bool) -> Iterator[Replication]:
    """Run a primary with an empty database and its standby until the end of the block."""
    servers = Replication(folder)
    try:
        servers.primary.start()
        servers.start_standby(synchronous=synchronous)
        yield servers
    finally:
        servers.stop()


def execute(url: str, statement: str) -> None:
    """Run a statement outside a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def value(url: str, query: str) -> Any:
    """Return the single value of a query."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    """Return once the condition holds. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
