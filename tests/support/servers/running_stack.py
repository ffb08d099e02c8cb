"""A whole service that is started by `gridfleet up`, as by a user, and stopped again."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.local.processes import Program, spawn
from support.servers.free_ports import free_port_settings
from support.servers.secrets_in_logs import SEARCH
from support.servers.suspended import suspended

ADMIN_EMAIL = "admin@example.com"
ADMIN_PASSWORD = "Correct-horse-7"


@dataclass
class RunningStack:
    """A home folder with its ports, and the `gridfleet up` process that runs in it."""

    home: Path
    changes: Mapping[str, object] = field(default_factory=dict)
    """Additional settings by name."""
    ports: dict[str, int] = field(default_factory=free_port_settings)
    admin_email: str = ADMIN_EMAIL
    admin_password: str = ADMIN_PASSWORD
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def base_url(self) -> str:
        """Address of the REST API, without a path."""
        return f"http://127.0.0.1:{self.ports['http_port']}"

    @property
    def database_url(self) -> str:
        """The database of the service."""
        return str(self.changes.get("database_url") or EmbeddedPostgres(self.home).url)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the service and of commands that use it."""
        settings: dict[str, object] = {
            **self.ports,
            "home": self.home,
            "admin_email": self.admin_email,
            "admin_password": self.admin_password,
            "rate_limits": "off",
            **self.changes,
        }
        outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
        return outer | {f"GRIDFLEET_{name.upper()}": str(value) for name, value in settings.items()}

    @property
    def log(self) -> Path:
        """The output of `gridfleet up`."""
        return self.home / "up.log"

    @property
    def state(self) -> dict[str, Any]:
        """The content of `run.json`: pid, urls, processes by name."""
        found: dict[str, Any] = json.loads((self.home / "run.json").read_text())
        return found

    def launch(self) -> "subprocess.Popen[bytes]":
        """Start `gridfleet up` without waiting for it."""
        self.home.mkdir(parents=True, exist_ok=True)
        argv = (sys.executable, "-m", "gridfleet", "up")
        with self.log.open("ab") as output:
            # Spawned such that even a killed test run leaves no service behind.
            self.process = spawn(Program(name="up", argv=argv, environment=self.environment), output)
        return self.process

    def start(self, seconds: float = 600) -> "RunningStack":
        """Start the service and wait until it reports readiness."""
        process = self.launch()
        deadline = time.monotonic() + seconds
        while not self.ready(process.pid):
            if process.poll() is not None or time.monotonic() > deadline:
                self.destroy()
                raise RuntimeError(f"gridfleet up is not ready:\n{self.log.read_text()[-8000:]}")
            time.sleep(0.1)
        return self

    def ready(self, pid: int) -> bool:
        """Return whether the `gridfleet up` with this process id has reported readiness."""
        try:
            return bool(self.state["pid"] == pid)
        except (FileNotFoundError, json.JSONDecodeError):
            return False

    def stop(self, seconds: float = 180) -> int:
        """Send Ctrl-C and return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(seconds)

    def kill(self, name: str) -> int:
        """Kill (-9) one process by its name in `run.json`. Returns its process id."""
        pid: int = self.state["processes"][name]
        os.kill(pid, signal.SIGKILL)
        return pid

    @contextlib.contextmanager
    def hung(self, name: str) -> Iterator[None]:
        """Suspend one process and its children until the block ends."""
        with suspended(psutil.Process(self.state["processes"][name])):
            yield

    def wait_for_restart(self, name: str, old_pid: int, seconds: float = 300) -> int:
        """Wait until `name` runs with another process id, and return it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid: int | None = self.state["processes"].get(name)
            if pid is not None and pid != old_pid and _is_running(pid):  # the file still names one that was killed just now
                return pid
            time.sleep(0.1)
        raise TimeoutError(f"{name} was not started again:\n{self.log.read_text()[-4000:]}")

    def wait_until_healthy(self, seconds: float = 300) -> None:
        """Wait until the readiness check reports every part as healthy."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                with urllib.request.urlopen(f"{self.base_url}/api/v1/health/ready", timeout=10) as answer:
                    if json.load(answer)["status"] == "healthy":
                        return
            except OSError:
                if time.monotonic() > deadline:
                    raise
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def processes(self) -> list[psutil.Process]:
        """Return every process that works in this home folder."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.home.resolve()):
                    found.append(process)
        return found

    def destroy(self) -> None:
        """Stop the service and make sure that no process of it remains."""
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop()
        except subprocess.TimeoutExpired:
            assert self.process is not None
            self.process.kill()
            self.process.wait()
        finally:
            for process in self.processes():
                with contextlib.suppress(psutil.Error):
                    process.kill()
            SEARCH.search_home(self.home)


@contextlib.contextmanager
def running_stack(name: str, changes: Mapping[str, object]) -> Iterator[RunningStack]:
    """Run the whole service in a temporary folder, with further settings, until the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix=f"gridfleet-{name}-"))
    running = RunningStack(folder, changes)
    try:
        yield running.start()
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
