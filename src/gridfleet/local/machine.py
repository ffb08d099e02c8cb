"""The service on one machine: its parts, their start order, and the check that they are ready."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil

from gridfleet.kernel.private_files import write_private
from gridfleet.kernel.security.server_trust import unverified_tls
from gridfleet.kernel.settings import Settings, unknown_variables
from gridfleet.local.broker.configuration import reachable_host
from gridfleet.local.broker.private_node import PrivateBroker, PrivateBrokerError
from gridfleet.local.home import HomeInUse, held
from gridfleet.local.ports import check_ports
from gridfleet.local.postgres import EmbeddedPostgres, EmbeddedPostgresError
from gridfleet.local.processes import Program, Supervisor, end_leftovers
from gridfleet.local.secrets import ensure_local_secrets
from gridfleet.local.terminal import Terminal

__all__ = ["CannotStart", "Machine", "database_connections", "ingest_processes"]

_ROLES: Final = ("serve", "gateway", "jobs", "ingest")
_READY_SECONDS: Final = 90
_START_TRIES: Final = 3
_BROKER_SETUP_SECONDS: Final = 600
_STOP_SECONDS: Final = 15
_INGEST_CONNECTIONS: Final = 8
_OTHER_CONNECTIONS: Final = 90
"""Connections to the database of the other processes and of an operator, in addition to the pools that are set."""


class CannotStart(RuntimeError):
    """The user at the terminal can remove the cause; the text names it."""


def ingest_processes(settings: Settings) -> int:
    """Return the number of ingest processes. More of them than queues would be idle."""
    return min(settings.ingest_processes, settings.ingest_shards)


def database_connections(settings: Settings) -> int:
    """Return the number of connections that the embedded database accepts."""
    pools = settings.database_pool_size + settings.roll_up_connections
    return _OTHER_CONNECTIONS + pools + _INGEST_CONNECTIONS * ingest_processes(settings)


class Machine:
    """Everything that `gridfleet up` runs for one home folder."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home.resolve()
        self._settings = settings.model_copy(update={"home": self._home})
        self._postgres = None if settings.database_url else EmbeddedPostgres(self._home, _configuration(settings))
        self._broker = None if settings.broker_url else PrivateBroker(self._settings)
        self._terminal = Terminal(as_json=settings.log_format == "json")
        self._supervisor = Supervisor(self._terminal.log, self._write_run_file)
        self._environment = dict(os.environ)
        self._ready = False
        self._stopping = False

    async def run(self) -> int:
        """Start all parts, wait for SIGINT, SIGTERM or SIGHUP, stop them. Returns the exit code."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # `nohup` ignores the signal of a terminal that closes, so that the service continues.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal, stopping)
        code = 0
        try:
            with self._lock():
                stopped = asyncio.create_task(stopping.wait())
                starting = asyncio.create_task(self._start())
                try:
                    await asyncio.wait([stopped, starting], return_when=asyncio.FIRST_COMPLETED)
                    if starting.done():
                        await starting
                        await stopped
                finally:
                    self._ready = False
                    self._stopping = True
                    starting.cancel()
                    await asyncio.wait([starting])
                    self._run_file.unlink(missing_ok=True)
                    if self._supervisor.pids:
                        self._terminal.step("stopping")
                        await self._supervisor.stop()
                        self._terminal.step(f"stopped; all data is kept in {self._home}")
        except (CannotStart, EmbeddedPostgresError, PrivateBrokerError, OSError) as error:
            for line in str(error).splitlines():
                self._terminal.problem(line)
            code = 1
        return code

    async def _start(self) -> None:
        began = time.monotonic()
        settings = self._settings
        for complaint in unknown_variables(os.environ):
            self._terminal.problem(f"{complaint}: it changes nothing")
        if settings.broker_url and not settings.broker_management_url:
            raise CannotStart("GRIDFLEET_BROKER_URL requires GRIDFLEET_BROKER_MANAGEMENT_URL")
        for name in ("http_certificate", "http_key", "ca_file"):
            path = getattr(settings, name)
            if path is not None and not path.is_file():
                raise CannotStart(f"GRIDFLEET_{name.upper()}: there is no file {path}")
        await asyncio.to_thread(self._clear_leftovers)
        if problems := check_ports(settings, with_broker=self._broker is not None):
            raise CannotStart("\n".join(map(str, problems)))
        self._require_keys()
        ensure_local_secrets(self._home, with_keyring=self._settings.keys is None)
        self._environment |= {"GRIDFLEET_HOME": str(self._home)}

        if self._postgres is not None:
            with self._timed("PostgreSQL is running"):
                await self._start_postgres(self._postgres)
        with self._timed("the database is up to date"):
            first_admin = json.loads(await self._setup("database"))
            self._keep_first_admin(first_admin)
        # Only the first step needs it.
        self._environment.pop("GRIDFLEET_ADMIN_PASSWORD", None)
        if self._broker is not None:
            with self._timed("RabbitMQ is running"):
                await self._start_broker(self._broker)
        with self._timed("exchanges and queues are declared"):
            await self._setup("broker")

        with self._timed("the service responds"):
            for program in self._processes():
                await self._supervisor.start(program)
            await self._wait_for_answer()
        self._show(first_admin, time.monotonic() - began)
        # Last: who waits for the file finds the text in the log.
        self._ready = True
        self._write_run_file()

    def _require_keys(self) -> None:
        """Refuse to create a keyring for a database that has lost its own: a new one cannot decrypt the existing rows."""
        keys = self._home / "secrets" / "keys"
        has_data = self._postgres is not None and (self._postgres.data / "PG_VERSION").exists()
        if has_data and self._settings.keys is None and not (keys.exists() and keys.read_text().strip()):
            raise CannotStart(
                f"{keys} is missing or empty, and the database in {self._home} needs it: restore it from a backup"
                " (`gridfleet restore`), or set GRIDFLEET_KEYS"
            )

    def _keep_first_admin(self, first_admin: Mapping[str, Any]) -> None:
        """Store a generated password for `gridfleet simulate` on this machine, readable only by its owner."""
        if first_admin["adminPassword"]:
            kept = {"email": first_admin["adminEmail"], "password": first_admin["adminPassword"]}
            write_private(self._home / "secrets" / "admin.json", json.dumps(kept) + "\n")

    async def _start_postgres(self, postgres: EmbeddedPostgres) -> None:
        await asyncio.to_thread(postgres.prepare)
        await self._supervisor.start(postgres.program())
        await asyncio.to_thread(postgres.wait_until_ready, partial(self._holds_out, "postgres"))
        self._environment["GRIDFLEET_DATABASE_URL"] = postgres.url

    async def _start_broker(self, broker: PrivateBroker) -> None:
        broker.prepare()
        for program in broker.programs():
            await self._supervisor.start(program)
        await asyncio.to_thread(broker.wait_until_ready, partial(self._holds_out, "broker"))
        self._environment |= {
            "GRIDFLEET_BROKER_URL": broker.url,
            "GRIDFLEET_BROKER_MANAGEMENT_URL": broker.management_url,
        }

    def _holds_out(self, name: str) -> bool:
        return not self._stopping and self._supervisor.ended(name) < _START_TRIES

    async def _setup(self, step: str) -> str:
        """Run `gridfleet setup {step}` and return its output.

        The step of the database has no limit: a migration that was ended would begin again at the next start, and never finish.
        """
        limit = None if step == "database" else _BROKER_SETUP_SECONDS
        process = await asyncio.create_subprocess_exec(
            *_command("setup", step), env=self._environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            output, complaints = await asyncio.wait_for(process.communicate(), limit)
        except TimeoutError:
            raise CannotStart(f"preparing the {step} took longer than {limit} s and was ended") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for line in complaints.decode(errors="replace").splitlines():
            self._terminal.log("setup", line)
        if process.returncode != 0:
            raise CannotStart(f"preparing the {step} failed (see above)")
        return output.decode()

    def _processes(self) -> Iterator[Program]:
        """Yield the service's processes. Each serves its metrics on a port of its own."""
        metrics_port = self._settings.metrics_port
        for role in _ROLES:
            count = ingest_processes(self._settings) if role == "ingest" else 1
            for number in range(1, count + 1):
                name = role if count == 1 else f"{role}-{number}"
                environment = self._environment | {"GRIDFLEET_METRICS_PORT": str(metrics_port)}
                seconds = _STOP_SECONDS + (self._settings.http_drain_seconds if role == "serve" else 0)
                yield Program(name=name, argv=_command(role), environment=environment, folder=self._home, stop_seconds=seconds)
                metrics_port += bool(metrics_port and role != "serve")

    async def _wait_for_answer(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not (answered := await asyncio.to_thread(_answers, self._settings)) or not self._listens():
            problems = check_ports(self._settings, with_broker=False) if answered else []
            if taken := [str(problem) for problem in problems if problem.setting == "http_port"]:
                raise CannotStart(*taken)
            if time.monotonic() > deadline:
                raise CannotStart(f"the API did not respond within {_READY_SECONDS} s (see above)")
            await asyncio.sleep(0.1)

    def _listens(self) -> bool:
        """Return whether the program that listens on the API's port is our API."""
        try:
            sockets = psutil.Process(self._supervisor.pids["serve"]).net_connections("tcp")
        except (KeyError, psutil.Error):
            return False
        return any(one.status == psutil.CONN_LISTEN and one.laddr[1:2] == (self._settings.http_port,) for one in sockets)

    def _clear_leftovers(self) -> None:
        """End the processes that a killed `gridfleet up` left for this home folder, so that ports and files are free again."""
        ended = end_leftovers(self._is_our_process)
        if self._broker is not None:
            self._broker.clear_leftovers()
        if self._postgres is not None:
            self._postgres.clear_leftovers()
        if ended:
            self._terminal.step("ended what an earlier run had left behind")

    def _is_our_process(self, process: psutil.Process) -> bool:
        return process.cwd() == str(self._home) and tuple(process.cmdline()[1:]) in {_command(role)[1:] for role in _ROLES}

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            with held(self._home):
                yield
        except HomeInUse as error:
            raise CannotStart(str(error)) from None

    @contextlib.contextmanager
    def _timed(self, done: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._terminal.step(f"{done} ({time.monotonic() - began:.1f} s)")

    def _on_signal(self, stopping: asyncio.Event) -> None:
        if stopping.is_set():
            self._terminal.problem("killing everything")
            self._supervisor.kill()
        stopping.set()

    @property
    def _run_file(self) -> Path:
        return self._home / "run.json"

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the listeners that are open, by name."""
        settings = self._settings
        host = settings.mqtt_host
        plain = {"mqtt": f"mqtt://{host}:{settings.mqtt_port}"} if settings.mqtt_port else {}
        return {
            "console": f"{settings.base_url}/console",
            "api": f"{settings.base_url}/api/v1",
            "docs": f"{settings.base_url}/docs",
            **plain,
            "mqtts": f"mqtts://{host}:{settings.mqtts_port}",
            "amqps": f"amqps://{host}:{settings.amqps_port}",
        }

    def _write_run_file(self) -> None:
        if self._ready:
            state = {"pid": os.getpid(), "urls": self.addresses, "processes": self._supervisor.pids}
            write_private(self._run_file, json.dumps(state, indent=2) + "\n")

    def _show(self, first_admin: Mapping[str, Any], seconds: float) -> None:
        addresses = self.addresses
        rows = {
            "Console": addresses["console"],
            "API": addresses["api"],
            "Docs": addresses["docs"],
            **({"MQTT": addresses["mqtt"]} if "mqtt" in addresses else {}),
            "MQTT over TLS": addresses["mqtts"],
            "AMQP over TLS": addresses["amqps"],
            "Home": str(self._home),
        }
        hints = ["Ctrl-C stops everything."]
        if first_admin["adminEmail"]:
            rows["SuperAdmin"] = first_admin["adminEmail"]
        if first_admin["adminPassword"]:
            rows["Password"] = first_admin["adminPassword"]
            hints.insert(
                0, "The password is shown this once; secrets/admin.json in the home folder keeps it for `gridfleet simulate`."
            )
        self._terminal.table(f"Gridfleet is ready ({seconds:.1f} s)", rows, hints)


def _command(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "gridfleet", *words)


def _configuration(settings: Settings) -> dict[str, str]:
    return {"max_connections": str(database_connections(settings))}


def _answers(settings: Settings) -> bool:
    host, port = reachable_host(settings.http_host), settings.http_port
    if settings.http_certificate is None:
        connection = http.client.HTTPConnection(host, port, timeout=5)
    else:
        # The certificate contains our public name, not the address of this connection.
        connection = http.client.HTTPSConnection(host, port, timeout=5, context=unverified_tls())
    try:
        connection.request("GET", "/api/v1/health/live")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
