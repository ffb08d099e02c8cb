"""What `deploy/` gives works: the whole service on real servers that run on its files, started by its units' commands."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import aiormq
import httpx
import psutil
import psycopg
import pytest
import yaml
from typer.main import get_command

from gridfleet.cli import application
from gridfleet.domains.telemetry.retention.limits import Days, apply_retention
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.configuration import ACCOUNT, ADVANCED, TLS_CIPHERS, configuration_lines
from gridfleet.local.broker.installation import find_installation
from gridfleet.local.broker.plugins import AUTH_PLUGIN, needs_auth_plugin
from gridfleet.sdk.plant import DeviceEntry, Snapshot
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet, wait_for
from support.servers.deployed_stack import DEPLOY, UNITS, DeployedStack, example, fill, unit_commands

COMPOSE = DEPLOY / "containers" / "compose.yaml"
CONTAINERFILE = DEPLOY / "containers" / "Containerfile"
HARDENING = UNITS / "gridfleet-.service.d" / "hardening.conf"
"""The first such test starts two servers and six processes, each with a deadline of its own. On a busy machine that took 91 s
of the 120 s that a test has; one that has none left is ended without the name of what did not start."""
VARIABLES = {f"GRIDFLEET_{name.upper()}" for name in Settings.model_fields}


@pytest.fixture(scope="module")
def deployed() -> Iterator[DeployedStack]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-deploy-"))
    stack = DeployedStack(folder)
    try:
        yield stack.start()
    finally:
        stack.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def fleet(deployed: DeployedStack) -> Iterator[Fleet]:
    found = Fleet(deployed)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("method", ["MTLS", "PASSWORD"])
async def test_a_measurement_over_tls_is_stored(fleet: Fleet, method: str) -> None:
    plant = fleet.plant(method, devices=["PV1"])
    assert plant.package["mqtt"]["tls"] is True
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    async with await plant.connect() as connection:
        await connection.publish(
            plant.topic(), plant.signed({"time": moment, "devices": [{"id": "PV1", "fields": {"active_power": 4.25}}]})
        )
        wait_for(lambda: plant.latest().get("PV1.active_power") == (moment, 4.25))


async def test_a_partner_logs_in_over_tls(fleet: Fleet, deployed: DeployedStack) -> None:
    created = fleet.call("POST", "/partner/api-keys", {"name": "Trader", "partnerId": "t", "scopes": ["vcp:connect"]})
    slug = fleet.call("GET", f"/organizations/{fleet.organization_id}")["slug"]
    authority = deployed.home / "setup" / "ca" / "ca.pem"
    place = f"localhost:{deployed.ports['amqps_port']}/{quote(created['apiKey']['vhost'], safe='')}"
    connection = await aiormq.connect(f"amqps://{slug}:{created['key']}@{place}?cafile={authority}")
    channel = await connection.channel()
    await channel.exchange_declare("vcp", passive=True)
    await connection.close()
    wrong = created["key"][:-1] + ("x" if created["key"][-1] != "x" else "y")
    with pytest.raises(aiormq.exceptions.AMQPError):
        await aiormq.connect(f"amqps://{slug}:{wrong}@{place}?cafile={authority}")


def test_postgresql_lets_only_the_service_in(deployed: DeployedStack) -> None:
    url = f"postgresql://{{}}@127.0.0.1:{deployed.postgresql_port}/{{}}"
    with psycopg.connect(url.format(f"gridfleet:{deployed.database_password}", "gridfleet")) as db:
        row = db.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        assert row == (False,)
    for who, database in (("gridfleet:wrong", "gridfleet"), ("postgres", "postgres"), ("gridfleet", "postgres")):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url.format(who, database), connect_timeout=5)


async def test_the_service_works_as_a_role_that_owns_nothing(fleet: Fleet, deployed: DeployedStack, tmp_path: Path) -> None:
    """Telemetry is stored, rolled up, exported and deleted, and a command is executed."""
    battery = Battery(fleet, add_template(fleet), tmp_path)
    battery.plant.add_device("PV1")
    moment = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=3)
    async with battery.connected() as client:
        await client.send(Snapshot(time=moment, devices=[DeviceEntry("PV1", {"active_power": 4.25})]))
        await battery.in_state(await battery.order("stop"), "APPLIED")
        await asyncio.to_thread(wait_for, lambda: battery.plant.latest().get("PV1.active_power"))
    call = f"{deployed.base_url}/api/v1/telemetry?plantId={battery.plant.id}"
    period = f"&from={moment:%Y-%m-%dT%H:%M:%SZ}&to={moment + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    exported = httpx.get(call + period, headers={**fleet.headers, "accept": "text/csv"})
    assert "4.25" in exported.text
    async with open_database(deployed.running_url, name="test", size=2) as database:
        # The jobs process does the same every two minutes, and every hour. The lock decides which of both.
        while not await rows(database, "telemetry_hour"):
            await roll_up(database, seconds=10)
        assert await rows(database, "telemetry_minute") > 0
        assert await apply_retention(database, Days(raw=1, minute=1, quarter=1), moment + timedelta(days=3))
        assert await rows(database, "telemetry_minute") == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with database.transaction() as db:
                await db.execute("DROP TABLE plant")


async def rows(database: Database, table: str) -> int:
    async with database.transaction() as db:
        return (await db.execute(f"SELECT FROM {table}".encode())).rowcount


def test_doctor_finds_no_failure(deployed: DeployedStack) -> None:
    deployed.run(["doctor"])


def test_no_plain_listener_is_open_to_plants(deployed: DeployedStack) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", deployed.ports["mqtt_port"]))


class TestFiles:
    def test_missing_answers_are_listed_and_nothing_is_written(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [DEPLOY / "fill.sh", DEPLOY / "answers.example", tmp_path / "filled"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            "rabbitmq/definitions.json: no answer for RABBITMQ_PASSWORD",
            "rabbitmq/rabbitmq.conf: no answer for INTERNAL_SECRET",
            "redis/redis.conf: no answer for REDIS_PASSWORD",
        ]
        assert not (tmp_path / "filled").exists()

    def test_rabbitmq_runs_on_what_a_private_node_runs_on(self, tmp_path: Path) -> None:
        secrets = dict.fromkeys(("RABBITMQ_PASSWORD", "INTERNAL_SECRET", "REDIS_PASSWORD"), "secret")
        filled = fill(secrets, tmp_path) / "rabbitmq"
        settings = Settings(home=tmp_path, internal_secret="secret")
        same = ("auth", "mqtt.", "ssl_", "log.", "channel_max", "heartbeat", "max_message_size", "management_agent")
        same += ("background_gc", "raft.")
        backend, files = "http", ["rabbitmq.conf", "cluster.conf"]
        if needs_auth_plugin(find_installation().version):
            backend = AUTH_PLUGIN
            files.append("rabbitmq-4.0.conf")
        lines = {line for line in configuration_lines(settings, backend) if line.startswith(same)}
        assert "log.console = false" in (filled / "rabbitmq.conf").read_text(), "systemd keeps it without a limit"
        differ = lines - {line for file in files for line in (filled / file).read_text().splitlines()}
        own = ("ssl_options.cacertfile", "ssl_options.certfile", "ssl_options.keyfile", "mqtt.listeners", "log.console =")
        assert {line for line in differ if not line.startswith(own)} == set()
        advanced = [line for line in (filled / "advanced.config").read_text().splitlines() if not line.startswith("%%")]
        assert advanced == ADVANCED.splitlines()
        [message] = re.findall(r"^max_message_size = (\d+)$", (filled / "rabbitmq.conf").read_text(), re.MULTILINE)
        assert f"{{max_packet_size_authenticated, {message}}}" in ADVANCED
        definitions = json.loads((filled / "definitions.json").read_text())
        assert [user["name"] for user in definitions["users"]] == [ACCOUNT]
        assert {vhost["name"] for vhost in definitions["vhosts"]} == {"/", "plants"}
        ciphers = re.findall(r"^ssl_options\.ciphers\.\d+ = (.+)$", (filled / "rabbitmq.conf").read_text(), re.MULTILINE)
        assert ciphers == list(TLS_CIPHERS)

    def test_the_proxies_speak_of_the_same_ciphers_and_paths(self) -> None:
        nginx = (DEPLOY / "proxy" / "nginx.conf").read_text()
        [ciphers] = re.findall(r"ssl_ciphers (\S+);", nginx)
        assert ciphers.split(":") == [cipher for cipher in TLS_CIPHERS if cipher.startswith("ECDHE")]
        assert nginx.count("{") == nginx.count("}")

    def test_the_proxy_counts_a_network_of_ipv6_as_one_address(self) -> None:
        rules = re.findall(r'"~(\S+)" \$gridfleet_64;', (DEPLOY / "proxy" / "nginx.conf").read_text())

        def counted(address: str) -> str:
            found = (re.search(rule, address) for rule in rules)
            return next((match["gridfleet_64"] for match in found if match), address)

        for address, network in {
            "203.0.113.9": "203.0.113.9",
            "2001:db8:1:2:3:4:5:6": "2001:db8:1:2:",
            "2001:db8:1:2::1": "2001:db8:1:2:",
            "2001:db8:1::1": "2001:db8:1::",
            "2001:db8::5:6:7:8": "2001:db8::",
            "2001::7:5:6:7:8": "2001::7:",
            "2001::5:6:7:8": "2001::",
            "::1": "::1",
        }.items():
            assert counted(address) == network


class TestUnits:
    def test_commands_and_variables_exist(self) -> None:
        commands = [command for unit in UNITS.glob("*.service") for command in unit_commands(unit.name)]
        assert len(commands) == 7
        for command in commands:
            assert knows(command), command
        named = example(UNITS / "gridfleet.env.example").keys() | example(UNITS / "owner.env.example").keys()
        assert named | set(re.findall(r"GRIDFLEET_[A-Z_]+", HARDENING.read_text())) <= VARIABLES

    def test_systemd_never_gives_up(self) -> None:
        assert re.search(r"^StartLimitIntervalSec=0$", HARDENING.read_text(), re.MULTILINE)
        for unit in UNITS.glob("*.service"):
            assert re.search(r"^Restart=(always|on-failure)$", unit.read_text(), re.MULTILINE), unit

    def test_systemd_never_ends_a_migration(self) -> None:
        """It would begin again at the next attempt, and never finish: an index on many rows takes long."""
        assert "\nTimeoutStartSec=infinity\n" in (UNITS / "gridfleet-migrate.service").read_text()

    def test_the_journal_has_the_errors_of_a_migration(self) -> None:
        """By default, errors go where the output goes: nowhere, because it may hold a password."""
        unit = (UNITS / "gridfleet-migrate.service").read_text()
        assert "\nStandardOutput=null\nStandardError=journal\n" in unit

    def test_threads_may_lower_their_priority(self) -> None:
        """`@resources` forbids it, so that every login failed."""
        filters = re.findall(r"^SystemCallFilter=(.+)$", HARDENING.read_text(), re.MULTILINE)
        assert filters[-1] == "setpriority"

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
    def test_systemd_finds_nothing_wrong_and_little_exposed(self, tmp_path: Path) -> None:
        units = tmp_path / "etc" / "systemd" / "system"
        program = tmp_path / "opt" / "gridfleet" / ".venv" / "bin" / "gridfleet"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        shutil.copytree(UNITS, units)
        (tmp_path / "usr" / "lib" / "systemd").mkdir(parents=True)
        (tmp_path / "usr" / "lib" / "systemd" / "system").symlink_to("/usr/lib/systemd/system")
        (tmp_path / "usr" / "share" / "man").mkdir(parents=True)
        names = [unit.name.replace("@", "@1") for unit in UNITS.glob("*.service")]
        verified = analyze(tmp_path, "verify", "--man=no", *names, "gridfleet.target")
        assert "gridfleet" not in verified.stderr, verified.stderr
        for name in names:
            measured = analyze(tmp_path, "security", "--offline=yes", "--threshold=20", "--no-pager", name)
            assert measured.returncode == 0, measured.stdout[-2000:]


class TestContainers:
    compose = yaml.safe_load(COMPOSE.read_text())

    def test_every_process_is_there_with_a_command_that_exists(self) -> None:
        services = self.compose["services"]
        assert services.keys() == {"setup", "serve", "ingest", "gateway", "jobs", "postgresql", "rabbitmq", "redis"}
        for name in ("serve", "ingest", "gateway", "jobs"):
            assert services[name]["command"] == [name]
            assert knows(services[name]["command"])
            assert services[name]["read_only"] is True
        for command in re.findall(r"gridfleet ([a-z ]+[a-z])", services["setup"]["command"][0]):
            assert knows(command.split()), command

    def test_variables_ports_and_volumes_fit(self) -> None:
        services = self.compose["services"]
        named = {name for service in services.values() for name in service.get("environment", {})}
        named |= set(re.findall(r"GRIDFLEET_[A-Z_]+[A-Z]", COMPOSE.read_text() + CONTAINERFILE.read_text()))
        assert {name for name in named if name.startswith("GRIDFLEET_")} <= VARIABLES
        answers = example(DEPLOY / "answers.example")
        public = (answers["RABBITMQ_MQTTS_PORT"], answers["RABBITMQ_AMQPS_PORT"])
        assert services["rabbitmq"]["ports"] == [f"{port}:{port}" for port in public]
        assert services["serve"]["ports"] == ["127.0.0.1:8080:8080"]
        assert re.search(r"^EXPOSE 8080 8081$", CONTAINERFILE.read_text(), re.MULTILINE)
        settings = Settings()
        assert (settings.http_port, settings.internal_port) == (8080, 8081)
        assert (str(settings.mqtts_port), str(settings.amqps_port)) == public
        mounted = {v.split(":")[0] for s in services.values() for v in s.get("volumes", []) if not v.startswith(".")}
        assert mounted == set(self.compose["volumes"])
        assert all(":" in service["image"] or service["image"] == "gridfleet" for service in services.values())
        assert all("/" not in service["image"] for service in services.values())

    def test_no_log_fills_the_disk(self) -> None:
        for name, service in self.compose["services"].items():
            assert service["logging"]["options"] == {"max-size": "20m", "max-file": "5"}, name

    def test_a_forgotten_name_ends_the_command(self) -> None:
        """With a default, the upgrade from another shell would issue the broker's certificate for localhost."""
        for service in ("setup", "serve", "ingest", "gateway", "jobs"):
            environment = self.compose["services"][service]["environment"]
            for name in ("GRIDFLEET_MQTT_HOST", "GRIDFLEET_PUBLIC_URL"):
                assert environment[name].startswith(f"${{{name}:?"), (service, name)

    def test_the_prepared_files_are_complete(self, tmp_path: Path) -> None:
        copy = tmp_path / "deploy"
        shutil.copytree(DEPLOY, copy, ignore=shutil.ignore_patterns("filled"))
        subprocess.run([copy / "containers" / "prepare.sh"], check=True, capture_output=True)
        filled = copy / "containers" / "filled"
        settings = example(filled / "gridfleet.env")
        assert settings.keys() <= VARIABLES
        assert (filled / "database_password").read_text() in settings["GRIDFLEET_DATABASE_URL"]
        assert (filled / "owner_password").read_text() in example(filled / "owner.env")["GRIDFLEET_DATABASE_URL"]
        assert (
            f"http://serve:8081/{settings['GRIDFLEET_INTERNAL_SECRET']}/broker/user"
            in (filled / "rabbitmq" / "rabbitmq.conf").read_text()
        )
        assert "\nlog.console = true\n" in (filled / "rabbitmq" / "rabbitmq.conf").read_text()
        postgresql = (filled / "postgresql" / "gridfleet.conf").read_text()
        [buffers] = re.findall(r"^shared_buffers = '(\d+)MB'$", postgresql, re.MULTILINE)
        assert int(buffers) == psutil.virtual_memory().total // 4 >> 20, "with more than there is, PostgreSQL does not start"
        assert (filled / "rabbitmq" / "enabled_plugins").read_text().startswith("[gridfleet_bounds,rabbitmq_")
        assert "erlc -o /gridfleet_bounds-1/ebin" in CONTAINERFILE.with_suffix(".rabbitmq").read_text()
        assert self.compose["services"]["rabbitmq"]["build"]["dockerfile"] == "deploy/containers/Containerfile.rabbitmq"
        for service in self.compose["services"].values():
            for source in (one.split(":")[0] for one in service.get("volumes", []) if one.startswith("./")):
                assert (copy / "containers" / source).exists(), source
        again = subprocess.run([copy / "containers" / "prepare.sh"], capture_output=True, check=False)
        assert again.returncode == 1, "secrets are not made twice"


def knows(words: list[str]) -> bool:
    """Whether `gridfleet {words}` is a command, with its arguments."""
    command: object = get_command(application)
    for place, word in enumerate(words):
        commands = getattr(command, "commands", None)
        if commands is None:
            return len(words) - place == sum(parameter.required for parameter in getattr(command, "params", ()))
        command = commands.get(word)
    return command is not None


def analyze(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """systemd-analyze on units below `root`."""
    command = ["systemd-analyze", arguments[0], f"--root={root}", *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
