"""A private RabbitMQ node: the distribution's server with all state below `home/broker`, independent of any other node.

It does not read or write `/etc/rabbitmq` and `/var/lib/rabbitmq`, and does not need the command-line tools. It has its own port
mapper (epmd). The port mapper and the distribution, AMQP, management and metrics ports listen on loopback only; the MQTT and
AMQPS listeners bind to `mqtt_bind`. Every login except that of the service's account is authorised by the service's internal
listener.
"""

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import psutil

from gridfleet.kernel.private_files import ensure_private_folder, write_private
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.configuration import ACCOUNT, ADVANCED, NODE_NAME, configuration_lines, definitions, reachable_host
from gridfleet.local.broker.former_data import accept_data
from gridfleet.local.broker.installation import PrivateBrokerError, find_installation
from gridfleet.local.broker.plugins import AUTH_PLUGIN, build_plugin, link_applications, needed_plugins
from gridfleet.local.processes import Program, end_leftovers, spawn, stop_process
from gridfleet.local.secrets import local_secret

__all__ = ["PrivateBroker", "PrivateBrokerError"]

_FIRST_MOVABLE: Final = (3, 12)
"""The MQTT plugin of earlier versions keeps the path of its data in its data."""
_LOG_CHARACTERS: Final = 50_000
_BOOT_ERROR: Final = re.compile(r"\[error\] <[\d.]+> (.*(?:eaddrinuse|enospc|Error during startup|Cookie|already running).*)")
_PLUGINS: Final = (
    "rabbitmq_auth_backend_cache",
    "rabbitmq_auth_backend_http",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_management",
    "rabbitmq_mqtt",
    "rabbitmq_prometheus",
)


class PrivateBroker:
    """One node below `home`. A supervisor uses `programs()`; tests and tools use `start()` and `stop()`.

    Needs the secrets of `ensure_local_secrets` and the files `ca.pem`, `server.pem`, `server.key` in `home/ca`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._home = settings.home.resolve()
        self._folder = self._home / "broker"
        self._log = self._home / "logs" / "broker.log"
        self._running: list[tuple[Program, subprocess.Popen[bytes]]] = []

    @property
    def url(self) -> str:
        """AMQP URL with the service's account, without a vhost."""
        return f"amqp://{self._credentials()}@127.0.0.1:{self._settings.amqp_port}"

    @property
    def management_url(self) -> str:
        """Management API URL with the service's account."""
        return f"http://{self._credentials()}@127.0.0.1:{self._settings.management_port}"

    def prepare(self) -> None:
        """Write the node's configuration. Its data is not changed.

        Raises:
            PrivateBrokerError: The folder was moved, which data of RabbitMQ before 3.12 do not survive, or the data are of
                RabbitMQ before 3.13 and the installed one is 4.0 or newer.
        """
        ensure_private_folder(self._folder)
        version = find_installation().version
        accept_data(self._folder, version)
        self._check_path(version)
        cookie = self._folder / ".erlang.cookie"
        if not cookie.exists():
            write_private(cookie, secrets.token_hex(20), mode=0o400)
        plugins = self._folder / "plugins"
        link_applications(("rabbit", *_PLUGINS), find_installation().plugins, plugins)
        for name in self._own_plugins:
            build_plugin(name, plugins)
        backend = AUTH_PLUGIN if AUTH_PLUGIN in self._own_plugins else "http"
        write_private(self._folder / "enabled_plugins", f"[{','.join((*_PLUGINS, *self._own_plugins))}].\n")
        write_private(self._folder / "rabbitmq.conf", "\n".join(configuration_lines(self._settings, backend)) + "\n")
        write_private(self._folder / "advanced.config", ADVANCED)
        write_private(self._folder / "definitions.json", json.dumps(definitions(local_secret(self._home, "broker_password"))))
        # The server's script puts the plugins of this folder, instead of the installation's, in the search path for code.
        write_private(self._folder / "rabbitmq-env.conf", f"RABBITMQ_HOME={shlex.quote(str(self._folder))}\n")

    def programs(self) -> tuple[Program, Program]:
        """Return the port mapper and the node as child processes, in start order. Call `prepare` first."""
        epmd = shutil.which("epmd") or "epmd"
        mapper = Program(
            name="epmd",
            argv=(epmd, "-address", "127.0.0.1", "-port", str(self._settings.epmd_port)),
            environment={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder)},
            folder=self._folder,
            stop_seconds=5,
            before_start=self._clear_mappers,
        )
        node = Program(
            name="broker",
            argv=(str(find_installation().server),),
            environment=self._environment(),
            folder=self._folder,
            stop_seconds=30,
            before_start=self._clear_nodes,
        )
        return mapper, node

    def wait_until_ready(self, alive: Callable[[], bool], seconds: float = 600) -> None:
        """Wait until every listener accepts connections.

        On two cores that other programs keep busy (load 24), a node took 303 s.

        Raises:
            PrivateBrokerError: The node ended, or `seconds` have passed. The text says which, and names the port.
        """
        settings = self._settings
        bound = reachable_host(settings.mqtt_bind)
        listeners = [(bound, port) for port in (settings.mqtt_port, settings.mqtts_port, settings.amqps_port) if port]
        listeners += [
            ("127.0.0.1", port) for port in (settings.amqp_port, settings.management_port, settings.broker_metrics_port)
        ]
        deadline = time.monotonic() + seconds
        for address in listeners:
            while not _accepts(address):
                ended = not alive()
                if ended or time.monotonic() > deadline:
                    why = "it ended" if ended else f"nothing listens at {address[0]}:{address[1]} after {seconds:g} s"
                    error = f", {found[-1].strip()}" if ended and (found := _BOOT_ERROR.findall(self._logged())) else ""
                    raise PrivateBrokerError(
                        f"RabbitMQ in {self._folder} did not start: {why}{error}; see {self._folder / 'logs'}"
                    )
                time.sleep(0.1)

    def _logged(self) -> str:
        try:
            return (self._folder / "logs" / "node.log").read_text(errors="replace")[-_LOG_CHARACTERS:]
        except OSError:
            return ""

    def start(self) -> str:
        """Start port mapper and node as children of this process and return the AMQP URL. Output goes to `logs/broker.log`."""
        self.prepare()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._log.open("ab") as output:
                for program in self.programs():
                    self._running.append((program, spawn(program, output)))
            self.wait_until_ready(lambda: all(process.poll() is None for _, process in self._running))
        except BaseException:
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Stop what `start` started."""
        while self._running:
            stop_process(*self._running.pop())

    def _check_path(self, version: str | None) -> None:
        path = self._folder / "path"
        former = path.read_text().strip() if path.exists() else str(self._folder)
        is_movable = version is None or tuple(int(part) for part in version.split(".")[:2]) >= _FIRST_MOVABLE
        if former != str(self._folder) and not is_movable:
            raise PrivateBrokerError(
                f"RabbitMQ {version} created its data in {former} and cannot read it in {self._folder}:"
                " move the home folder back, or restore a backup into a new one"
            )
        write_private(path, f"{self._folder}\n")

    @property
    def _own_plugins(self) -> tuple[str, ...]:
        return needed_plugins(find_installation().version)

    def _credentials(self) -> str:
        return f"{ACCOUNT}:{quote(local_secret(self._home, 'broker_password'), safe='')}"

    def _environment(self) -> dict[str, str]:
        settings, folder = self._settings, self._folder
        schedulers = min(os.cpu_count() or 1, 4)
        return {
            "RABBITMQ_PLUGINS_DIR": str(folder / "plugins"),
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(settings.epmd_port),
            "RABBITMQ_NODENAME": NODE_NAME,
            "RABBITMQ_DIST_PORT": str(settings.broker_dist_port),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "rabbitmq-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONFIG_FILES": str(folder / "conf.d" / "*.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_PID_FILE": str(folder / "node.pid"),
            # The script then replaces itself with the Erlang machine instead of waiting for it, so signals reach the node.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_START_ARGS": "-noinput +B i",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"+S {schedulers}:{schedulers} -kernel inet_dist_use_interface {{127,0,0,1}}"
            ),
        }

    def clear_leftovers(self) -> None:
        """End a node and a port mapper that a killed supervisor left in this folder."""
        self._clear_nodes()
        self._clear_mappers()

    def _clear_mappers(self) -> None:
        end_leftovers(lambda process: self._works_here(process, "epmd"))

    def _clear_nodes(self) -> None:
        end_leftovers(lambda process: self._works_here(process, "beam.smp"))
        with contextlib.suppress(FileNotFoundError):
            (self._folder / "node.pid").unlink()

    def _works_here(self, process: psutil.Process, name: str) -> bool:
        return process.name() == name and process.cwd() == str(self._folder)


def _accepts(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=2):
            return True
    except OSError:
        return False
