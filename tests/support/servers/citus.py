"""A coordinator and two workers of Citus, where the machine has it, each with a database of the same name."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from gridfleet.domains.telemetry.hypertables import HYPERTABLES
from gridfleet.kernel.db.citus import plan
from gridfleet.kernel.db.migrate import migrate
from gridfleet.kernel.db.scale_out import apply
from gridfleet.local.system_user import ensure_system_user
from support.servers.free_ports import free_ports

_CONFIGURATION: Final = {
    "shared_preload_libraries": "citus",
    "citus.enable_statistics_collection": "off",
    "citus.shard_count": "4",  # each test creates partitions, of one table for each shard
    "citus.recover_2pc_interval": "2s",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_prepared_transactions": "400",
    "shared_buffers": "64MB",
    "wal_level": "logical",
    "jit": "off",
    "fsync": "off",
    "timezone": "UTC",
    "log_min_messages": "warning",
}


def citus_programs() -> Path | None:
    """Return the folder of a server that has Citus; None without one.

    It is that of `GRIDFLEET_TEST_CITUS`, or the newest one that packages of Debian have installed.
    """
    if chosen := os.environ.get("GRIDFLEET_TEST_CITUS"):
        return Path(chosen)
    found = [int(control.parent.parent.name) for control in Path("/usr/share/postgresql").glob("*/extension/citus.control")]
    return Path(f"/usr/lib/postgresql/{max(found)}/bin") if found else None


@dataclass
class CitusNode:
    """One server."""

    programs: Path
    folder: Path
    port: int

    def prepare(self) -> None:
        """Create the data folder."""
        self.folder.mkdir(parents=True)
        self._run("initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")
        settings = {**_CONFIGURATION, "port": str(self.port)}
        with (self.folder / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start the server and wait until it responds."""
        self._run("pg_ctl", "-w", "-l", str(self.folder / "server.log"), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server. `immediate` ends its processes as a crash does."""
        self._run("pg_ctl", "-m", mode, "stop")

    def url(self, database: str, role: str = "owner") -> str:
        """Return the connection string of a database."""
        return f"postgresql://{role}@127.0.0.1:{self.port}/{database}?"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser."""
        with psycopg.connect(self.url(database, "postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        user = ensure_system_user("gridfleet").pw_uid if os.geteuid() == 0 else None
        if user is not None:
            os.chown(self.folder, user, -1)
        done = subprocess.run(
            [self.programs / program, "-D", self.folder, *arguments],
            cwd=self.folder,
            user=user,
            extra_groups=None if user is None else [],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            log = self.folder / "server.log"
            raise RuntimeError(f"{program} failed: {log.read_text()[-2000:] if log.exists() else ''}")


@dataclass
class CitusCluster:
    """A coordinator and its workers."""

    coordinator: CitusNode
    workers: list[CitusNode]

    @property
    def nodes(self) -> list[CitusNode]:
        """Return all nodes, workers first."""
        return [*self.workers, self.coordinator]

    def create(self, database: str, *, add_workers: bool = True, first_migrated: bool = False) -> str:
        """Create a migrated database of `owner` on all nodes and return its address.

        Args:
            database: Its name.
            add_workers: Whether the coordinator knows the workers.
            first_migrated: Whether the schema is older than the extension.
        """
        for node in self.nodes:
            node.execute(f"CREATE DATABASE {database} OWNER owner")
        url = self.coordinator.url(database)
        if first_migrated:
            migrate(url)
        for node in self.nodes:
            node.execute("CREATE EXTENSION citus", database=database)
        if add_workers:
            self.add_workers(database)
        migrate(url)
        return url

    def add_workers(self, database: str) -> None:
        """Make the workers known to the coordinator."""
        self.coordinator.execute(
            f"SELECT citus_set_coordinator_host('127.0.0.1', {self.coordinator.port})",
            *(f"SELECT citus_add_node('127.0.0.1', {worker.port})" for worker in self.workers),
            database=database,
        )

    def distribute(self, url: str) -> None:
        """Distribute the telemetry of a database."""
        apply(url, plan(url, HYPERTABLES).steps)

    def freeze(self, database: str) -> None:
        """Allow no further connections, so that the database can be copied."""
        for node in self.nodes:
            node.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        self._disconnect(database)

    def copy(self, template: str, database: str) -> str:
        """Copy a frozen database on all nodes and return the address of the copy."""
        for node in self.nodes:
            for attempt in range(50):
                try:
                    node.execute(f"CREATE DATABASE {database} TEMPLATE {template} OWNER owner STRATEGY FILE_COPY")
                    break
                except psycopg.errors.ObjectInUse:
                    self._disconnect(template)
                    time.sleep(0.02 * attempt)
        settings = self._settings(template)
        self.coordinator.execute(*(f"ALTER DATABASE {database} SET {setting}" for setting in settings))
        return self.coordinator.url(database)

    def drop(self, database: str) -> None:
        """Drop a database on all nodes, the coordinator's first."""
        for node in reversed(self.nodes):
            node.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def _settings(self, database: str) -> list[str]:
        with psycopg.connect(self.coordinator.url("postgres", "postgres")) as connection:
            rows = connection.execute(
                "SELECT unnest(setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = setdatabase"
                " WHERE datname = %s AND setrole = 0",
                (database,),
            ).fetchall()
        return [row[0] for row in rows]

    def _disconnect(self, database: str) -> None:
        for node in self.nodes:
            node.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")


@contextmanager
def citus_cluster(folder: Path, programs: Path) -> Iterator[CitusCluster]:
    """Run the servers until the end of the block."""
    if os.geteuid() == 0:
        folder.chmod(0o755)
    nodes = [CitusNode(programs, folder / f"node{number}", port) for number, port in enumerate(free_ports(3))]
    cluster = CitusCluster(nodes[0], nodes[1:])
    started: list[CitusNode] = []
    try:
        for node in cluster.nodes:
            node.prepare()
            node.start()
            started.append(node)
            node.execute("CREATE ROLE owner LOGIN", "CREATE ROLE running LOGIN")
        yield cluster
    finally:
        for node in started:
            node.stop("immediate")
