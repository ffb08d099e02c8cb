"""A PostgreSQL with TimescaleDB, where the machine has one, with a database of an owner who is no superuser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.db.roles import grant
from gridfleet.local.postgres import EmbeddedPostgres

_EXTENSIONS: Final = Path("/usr/share/postgresql")
_PROGRAMS: Final = Path("/usr/lib/postgresql")
_OLDEST: Final = 17
"""Older servers lack the collation of the embedded one."""
_CONFIGURATION: Final = {
    "shared_preload_libraries": "timescaledb",
    "timescaledb.telemetry_level": "off",
    "shared_buffers": "64MB",
    "fsync": "off",
}


def timescale_programs() -> Path | None:
    """Return the folder of a server that has TimescaleDB, as packages of Debian install it; None without one."""
    found = [int(control.parent.parent.name) for control in _EXTENSIONS.glob("*/extension/timescaledb.control")]
    newest = max(found, default=0)
    return _PROGRAMS / str(newest) / "bin" if newest >= _OLDEST else None


@dataclass(frozen=True)
class TimescaleServer:
    """A running server with the extension."""

    url: str
    """The superuser's connection string."""
    programs: Path

    def url_of(self, role: str, database: str) -> str:
        """Return the connection string of a role."""
        return self.url.replace("//gridfleet@/gridfleet?", f"//{role}@/{database}?")

    def create(self, database: str) -> None:
        """Create an empty database of `owner`."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database} OWNER owner".encode())

    def prepare(self, database: str) -> None:
        """Create a database with the newest schema, the extension, and the rights of the role `running`."""
        self.create(database)
        url = self.url_of("owner", database)
        migrate(url)
        grant(url, "running")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION timescaledb")


@contextmanager
def timescale_server(folder: Path, programs: Path) -> Iterator[TimescaleServer]:
    """Run a server until the end of the block."""
    server = EmbeddedPostgres(folder, _CONFIGURATION, binaries=programs)
    try:
        url = server.start()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE ROLE owner LOGIN")
            connection.execute("CREATE ROLE running LOGIN")
        yield TimescaleServer(url, programs)
    finally:
        server.stop()
