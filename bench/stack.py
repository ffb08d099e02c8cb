"""The service under test: its own database, broker and processes on free ports, in a folder that is removed afterwards."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import psutil

from gridfleet.domains.plants.topology import PLANTS_VHOST, ingest_queue
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.postgres import EmbeddedPostgres
from gridfleet.local.processes import Program, spawn, stop_process
from gridfleet.local.secrets import ensure_local_secrets

__all__ = ["ADMIN_EMAIL", "ADMIN_PASSWORD", "BenchFailed", "Stack", "free_ports", "running_stack"]

_PORTS: Final = (
    "http_port",
    "internal_port",
    "amqp_port",
    "amqps_port",
    "mqtt_port",
    "mqtts_port",
    "management_port",
    "broker_metrics_port",
    "broker_dist_port",
    "epmd_port",
)
_ROOT: Final = Path(__file__).parent.parent
_POLL_SECONDS: Final = 0.25
_TIMEOUT_SECONDS: Final = 60
ADMIN_EMAIL: Final = "admin@example.com"
ADMIN_PASSWORD: Final = "Correct-horse-7"


class BenchFailed(RuntimeError):
    """The figures are not valid: a part did not start or end, or stored values differ from those that were sent."""


class Stack:
    """Running servers. `start` adds processes of the service, because a measurement begins with some of them stopped."""

    def __init__(self, settings: Settings, postgres: EmbeddedPostgres, broker: PrivateBroker) -> None:
        self.settings = settings
        self.database_url = postgres.url
        self.broker_url = broker.url
        self.broker_management_url = broker.management_url
        self.keyring = Keyring.parse(settings.secret("keys").get_secret_value())
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")} | {
            **{f"GRIDFLEET_{name.upper()}": str(getattr(settings, name)) for name in settings.model_fields_set},
            "GRIDFLEET_ADMIN_EMAIL": ADMIN_EMAIL,
            "GRIDFLEET_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "GRIDFLEET_DATABASE_URL": postgres.url,
            "GRIDFLEET_BROKER_URL": broker.url,
            "GRIDFLEET_BROKER_MANAGEMENT_URL": broker.management_url,
        }
        self._running: list[tuple[Program, subprocess.Popen[bytes]]] = []

    def set_up(self, step: str) -> None:
        """Run one preparation step of the service."""
        done = subprocess.run(
            [sys.executable, "-m", "gridfleet", "setup", step],
            env=self._environment,
            cwd=self.settings.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BenchFailed(f"gridfleet setup {step}: {done.stderr[-2000:]}")

    def start(self, role: str, *command: str) -> psutil.Process:
        """Start `gridfleet {role}`, or another Python module, as a separate process."""
        program = Program(
            name=role,
            argv=(sys.executable, "-m", *(command or ("gridfleet", role))),
            environment=self._environment | {"PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])},
            folder=self.settings.home,
        )
        with self._log(role).open("ab") as output:
            process = spawn(program, output)
        self._running.append((program, process))
        return psutil.Process(process.pid)

    def start_api(self) -> psutil.Process:
        """Start the API, which also makes the broker's access decisions, and wait for it. Returns its process."""
        process = self.start("serve")
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            self._check_running()
            with contextlib.suppress(httpx.TransportError):
                if (
                    httpx.get(f"{self.api_url}/api/v1/health/live", trust_env=False, timeout=_TIMEOUT_SECONDS).status_code
                    == 200
                ):
                    return process
            time.sleep(0.1)
        raise BenchFailed(f"the API did not answer: see {self.settings.home / 'logs'}")

    def stop(self, role: str | None = None) -> None:
        """Stop the processes of a role, or all."""
        for entry in [entry for entry in self._running if role in (None, entry[0].name)]:
            self._running.remove(entry)
            stop_process(*entry)

    @property
    def api_url(self) -> str:
        """The address of the REST API, without a path."""
        return f"http://127.0.0.1:{self.settings.http_port}"

    def broker_process(self) -> psutil.Process:
        """Return the process of the Erlang VM."""
        return self._find("beam.smp", self.settings.home / "broker")

    def postgres_process(self) -> psutil.Process:
        """Return the main process of the server; the backends are its children."""
        return self._find("postgres", self.settings.home / "postgres")

    def _find(self, name: str, folder: Path) -> psutil.Process:
        found = []
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                if process.info["name"] == name and process.cwd() == str(folder):
                    found.append(process)
        return min(found, key=lambda process: process.create_time())

    def waiting(self) -> int:
        """Return the number of messages in the ingest's queues, including delivered ones that are not acknowledged."""
        settings = self.settings
        response = httpx.get(
            f"{self.broker_management_url}/api/queues/{PLANTS_VHOST}?disable_stats=true&enable_queue_totals=true",
            trust_env=False,
            timeout=_TIMEOUT_SECONDS,
        )
        response.raise_for_status()
        ours = {ingest_queue(shard) for shard in range(settings.ingest_shards)}
        return sum(queue["messages"] for queue in response.json() if queue["name"] in ours)

    def wait_until_empty(self, seconds: float) -> None:
        """Wait until the ingest has acknowledged everything."""
        deadline = time.monotonic() + seconds
        while waiting := self.waiting():
            self._check_running()
            if time.monotonic() > deadline:
                raise BenchFailed(f"{waiting} messages still wait after {seconds:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _check_running(self) -> None:
        for program, process in self._running:
            if process.poll() is not None:
                raise BenchFailed(f"{program.name} ended: {self._log(program.name).read_text(errors='replace')[-2000:]}")

    def _log(self, role: str) -> Path:
        return self.settings.home / "logs" / f"{role}.log"


@contextlib.contextmanager
def running_stack(**changes: object) -> Iterator[Stack]:
    """Run PostgreSQL and RabbitMQ as `gridfleet up` configures them, migrated and declared, without processes of the service.

    One parameter differs: PostgreSQL records the time of each commit, from which the figures are computed.
    """
    home = Path(tempfile.mkdtemp(prefix="gridfleet-bench-"))
    (home / "logs").mkdir()
    settings = Settings(**{"home": home, "rate_limits": "off", **free_ports(), **changes})  # type: ignore[arg-type]
    postgres = EmbeddedPostgres(home, {"track_commit_timestamp": "on"})
    broker = PrivateBroker(settings)
    stack: Stack | None = None
    try:
        ensure_local_secrets(home)
        postgres.start()
        stack = Stack(settings, postgres, broker)
        stack.set_up("database")
        broker.start()
        stack.set_up("broker")
        yield stack
    finally:
        if stack is not None:
            stack.stop()
        broker.stop()
        postgres.stop()
        shutil.rmtree(home, ignore_errors=True)


def free_ports() -> dict[str, int]:
    """Return a free port for every port setting, below the range of ports for outgoing connections.

    The tests use those from 12,000: a port that one of them has chosen is free until its server binds it.
    """
    found: list[int] = []
    for candidate in random.sample(range(10_000, 12_000), 2_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", candidate))
            found.append(candidate)
        if len(found) == len(_PORTS):
            return {**dict(zip(_PORTS, found, strict=True)), "metrics_port": 0}
    raise BenchFailed("there are not enough free ports")
