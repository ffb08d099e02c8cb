"""The service as in `deploy/`: servers with the filled-in files, processes with the commands of the units."""

import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import httpx
import psycopg

from gridfleet.kernel.private_files import write_private
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.local.broker.installation import find_installation
from gridfleet.local.broker.plugins import AUTH_PLUGIN, needed_plugins
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.postgres import EmbeddedPostgres, installed_binaries
from gridfleet.local.processes import Program, spawn, stop_process
from gridfleet.local.secrets import ensure_local_secrets
from support.servers.free_ports import free_ports, settings_at
from support.servers.running_stack import RunningStack

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
UNITS = DEPLOY / "systemd"


def unit_commands(unit: str) -> list[list[str]]:
    """Return the commands of a unit, without the path of the program."""
    lines = re.findall(r"^ExecStart=/opt/gridfleet/\.venv/bin/gridfleet (.+)$", (UNITS / unit).read_text(), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def example(path: Path) -> dict[str, str]:
    """Return the lines `NAME=value` of a file."""
    return dict(re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", path.read_text(), re.MULTILINE))


def fill(answers: dict[str, str], folder: Path) -> Path:
    """Run deploy/fill.sh with these values over those of the example. Returns the folder of the filled files."""
    given = folder / "answers"
    given.write_text("".join(f"{name}={value}\n" for name, value in {**example(DEPLOY / "answers.example"), **answers}.items()))
    subprocess.run([DEPLOY / "fill.sh", given, folder / "filled"], check=True, capture_output=True, text=True)
    return folder / "filled"


def plugin_folders(broker: Path) -> str:
    """Return the search path of a node with the installation's plugins and those of `install_plugins`."""
    return f"{find_installation().plugins}:{broker / 'plugins'}"


def install_plugins(configuration: Path, broker: Path) -> None:
    """Build and enable the service's plugins as docs/deployment.md says.

    Args:
        configuration: Folder of the node's filled files.
        broker: Folder of the node, with `plugins` and `conf.d`.
    """
    section = (ROOT / "docs" / "deployment.md").read_text().split("## The service's plugins for RabbitMQ\n")[1]
    *build, enable = section.split("```sh\n")[1].split("```")[0].splitlines()
    script = "\n".join(build).replace("/usr/lib/rabbitmq/plugins", str(broker / "plugins"))
    wanted = needed_plugins(find_installation().version)
    subprocess.run(
        ["sh", "-euc", script.replace("set -- gridfleet_bounds\n", f"set -- {' '.join(wanted)}\n")], cwd=ROOT, check=True
    )
    assert enable == 'rabbitmq-plugins enable --offline "$@"'
    enabled = configuration / "enabled_plugins"
    enabled.write_text(enabled.read_text().replace("].", f",{','.join(wanted)}]."))
    if AUTH_PLUGIN in wanted:
        (broker / "conf.d").mkdir(exist_ok=True)
        shutil.copy(configuration / "rabbitmq-4.0.conf", broker / "conf.d")


@dataclass
class DeployedStack(RunningStack):
    """Two servers and four processes below `home`. Every process has its own empty GRIDFLEET_HOME."""

    _running: list[tuple[Program, "subprocess.Popen[bytes]"]] = field(default_factory=list)

    def start(self, seconds: float = 240) -> "DeployedStack":
        """Start everything in the order of docs/deployment.md."""
        ensure_local_secrets(self.home)  # for `Fleet`, which reads the keyring here; no process uses it
        write_private(self.home / "secrets" / "keys", Keyring.generate())
        answers = self._answers()
        self._variables = self._environment_file(answers)
        filled = fill(answers, self.home)
        self._start_postgresql(filled / "postgresql", answers)
        setup = self.home / "setup"
        admin = {"GRIDFLEET_ADMIN_EMAIL": self.admin_email, "GRIDFLEET_ADMIN_PASSWORD": self.admin_password}
        for command in unit_commands("gridfleet-migrate.service"):
            self.run(command, admin | {"GRIDFLEET_DATABASE_URL": self.owner_url})
        tls = Path(answers["RABBITMQ_TLS_FOLDER"])
        assert tls.is_relative_to(setup)
        assert (tls / "server.key").exists()
        self._start_rabbitmq(filled / "rabbitmq")
        for role in ("serve", "ingest@", "gateway", "jobs"):
            [command] = unit_commands(f"gridfleet-{role}.service")
            self._spawn(Program(role, _argv(command), self._environment(role.strip("@")), self.home / role.strip("@")))
        self._wait(seconds)
        return self

    def destroy(self) -> None:
        """Stop everything in reverse order."""
        while self._running:
            stop_process(*self._running.pop())
        super().destroy()

    def run(self, command: list[str], more: Mapping[str, str] = MappingProxyType({})) -> None:
        """Run a command in the home folder of `gridfleet setup database`, with further variables. It must succeed."""
        environment = self._environment("setup") | dict(more)
        done = subprocess.run(_argv(command), env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def _answers(self) -> dict[str, str]:
        ports = self.ports
        [self.postgresql_port] = free_ports(1)
        loopback = ("RABBITMQ_PUBLIC_ADDRESS", "RABBITMQ_PRIVATE_ADDRESS", "POSTGRESQL_ADDRESS")
        return {
            **dict.fromkeys(loopback, "127.0.0.1"),
            "RABBITMQ_MQTTS_PORT": str(ports["mqtts_port"]),
            "RABBITMQ_AMQPS_PORT": str(ports["amqps_port"]),
            "RABBITMQ_AMQP_PORT": str(ports["amqp_port"]),
            "RABBITMQ_MANAGEMENT_PORT": str(ports["management_port"]),
            "RABBITMQ_METRICS_PORT": str(ports["broker_metrics_port"]),
            "RABBITMQ_TLS_FOLDER": str(self.home / "setup" / "ca"),
            "RABBITMQ_CONFIGURATION_FOLDER": str(self.home / "filled" / "rabbitmq"),
            "RABBITMQ_PASSWORD": secrets.token_hex(16),
            "INTERNAL_ADDRESS": f"127.0.0.1:{ports['internal_port']}",
            "INTERNAL_SECRET": secrets.token_hex(16),
            "POSTGRESQL_PORT": str(self.postgresql_port),
            "POSTGRESQL_SHARED_BUFFERS": "64MB",
            "POSTGRESQL_CONFIGURATION_FOLDER": str(self.home / "filled" / "postgresql"),
            # The PostgreSQL of the tests is built without TLS.
            "POSTGRESQL_TLS": "off",
            "POSTGRESQL_RECORD": "host",
            "POSTGRESQL_CLIENTS": "127.0.0.1/32",
            "REDIS_PASSWORD": secrets.token_hex(16),
        }

    def _environment_file(self, answers: dict[str, str]) -> dict[str, str]:
        """Return the variables of gridfleet.env.example with the test's values and addresses."""
        account = f"_gridfleet:{answers['RABBITMQ_PASSWORD']}@127.0.0.1"
        self.database_password = secrets.token_hex(16)
        server = f"127.0.0.1:{self.postgresql_port}"
        self.running_url = f"postgresql://gridfleet:{self.database_password}@{server}/gridfleet"
        self.owner_password = secrets.token_hex(16)
        self.owner_url = f"postgresql://gridfleet_owner:{self.owner_password}@{server}/gridfleet"
        values = {
            "GRIDFLEET_DATABASE_URL": self.running_url,
            "GRIDFLEET_BROKER_URL": f"amqp://{account}:{self.ports['amqp_port']}",
            "GRIDFLEET_BROKER_MANAGEMENT_URL": f"http://{account}:{self.ports['management_port']}",
            "GRIDFLEET_KEYS": (self.home / "secrets" / "keys").read_text().strip(),
            "GRIDFLEET_INTERNAL_SECRET": answers["INTERNAL_SECRET"],
            "GRIDFLEET_PUBLIC_URL": self.base_url,
            "GRIDFLEET_MQTT_HOST": "localhost",
            "GRIDFLEET_TRUSTED_PROXIES": "127.0.0.1/32",
        }
        unknown = values.keys() - example(UNITS / "gridfleet.env.example").keys()
        assert not unknown, f"the example lacks {unknown}"
        ports = ("http_port", "internal_port", "mqtts_port", "amqps_port", "metrics_port")
        return values | {f"GRIDFLEET_{name.upper()}": str(self.ports[name]) for name in ports}

    def _environment(self, role: str) -> dict[str, str]:
        home = self.home / role
        home.mkdir(exist_ok=True)
        outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
        return {**outer, **self._variables, "GRIDFLEET_HOME": str(home), "GRIDFLEET_LOG_FORMAT": "json"}

    def _spawn(self, program: Program) -> "subprocess.Popen[bytes]":
        with (self.home / f"{program.name.strip('@')}.log").open("ab") as output:
            process = spawn(program, output)
        self._running.append((program, process))
        return process

    def _start_postgresql(self, configuration: Path, answers: dict[str, str]) -> None:
        """Start PostgreSQL with only the filled files, after creating cluster and database as the container does."""
        embedded = EmbeddedPostgres(self.home / "postgresql")
        embedded.data.parent.mkdir()
        account = embedded.program().user
        embedded.data.parent.chmod(0o755)
        os.chown(embedded.data.parent, account or -1, -1)
        for path in (self.home, *configuration.rglob("*"), configuration, configuration.parent):
            path.chmod(path.stat().st_mode | 0o055)
        binaries, sockets = installed_binaries(), embedded.data.parent
        initdb = [str(binaries / "initdb"), "-D", str(embedded.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, user=account, cwd=sockets)

        def server(*options: str) -> Program:
            argv = (str(binaries / "postgres"), "-D", str(embedded.data), "-k", str(sockets), *options)
            return replace(embedded.program(), name="postgresql", argv=argv, before_start=None)

        first = server("-c", "listen_addresses=", "-p", str(self.postgresql_port))
        process = self._spawn(first)
        self._accepts(f"postgresql://postgres@/postgres?host={sockets}&port={self.postgresql_port}")
        (self.home / "database_password").write_text(self.database_password)
        (self.home / "owner_password").write_text(self.owner_password)
        made = subprocess.run(
            [DEPLOY / "containers" / "create-database.sh"],
            env={
                "PATH": f"{binaries}:{os.environ['PATH']}",
                "PGHOST": str(sockets),
                "PGPORT": str(self.postgresql_port),
                "DATABASE_PASSWORD_FILE": str(self.home / "database_password"),
                "OWNER_PASSWORD_FILE": str(self.home / "owner_password"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
        stop_process(first, process)
        self._running.pop()
        self._spawn(server("-c", f"config_file={configuration / 'gridfleet.conf'}"))
        self._accepts(self._variables["GRIDFLEET_DATABASE_URL"])

    def _accepts(self, url: str) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(url, connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    def _start_rabbitmq(self, configuration: Path) -> None:
        """Start the distribution's RabbitMQ with the filled files, and with ports and folders of a private node."""
        settings = settings_at(self.home, **(self.ports | {"mqtt_port": 0}))
        node = PrivateBroker(settings)
        (self.home / "broker").mkdir()
        (self.home / "broker" / ".erlang.cookie").write_text(secrets.token_hex(20))
        (self.home / "broker" / ".erlang.cookie").chmod(0o400)
        (self.home / "broker" / "rabbitmq-env.conf").touch()
        install_plugins(configuration, self.home / "broker")
        files = {
            "RABBITMQ_CONFIG_FILE": "rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": "advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": "enabled_plugins",
        }
        ours = {name: str(configuration / file) for name, file in files.items()}
        ours["RABBITMQ_PLUGINS_DIR"] = plugin_folders(self.home / "broker")
        for program in node.programs():
            process = self._spawn(replace(program, environment={**program.environment, **ours}))
        node.wait_until_ready(lambda: process.poll() is None)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        headers = {"x-internal-auth": self._variables["GRIDFLEET_INTERNAL_SECRET"]}
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.base_url}/api/v1/health/ready", headers=headers).is_success:
                    return
            assert time.monotonic() < deadline, (self.home / "serve.log").read_text()[-4000:]
            time.sleep(0.1)


def _argv(command: list[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "gridfleet", *command)
