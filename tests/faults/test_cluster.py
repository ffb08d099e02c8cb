"""Three RabbitMQ nodes on the files of `deploy/rabbitmq`: what was confirmed outlives the node that confirmed it, and plants,
partners and upkeep go on while any one of the nodes is down."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiormq
import httpx
import pytest
from aiormq.abc import DeliveredMessage
from aiormq.exceptions import AMQPError
from pydantic import SecretStr

from gridfleet.amqp.upkeep import keep_broker
from gridfleet.domains.partners.legacy.topology import (
    LEGACY_EVENTS,
    ensure_legacy_vhost,
)
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost, inbound_queue
from gridfleet.domains.plants.topology import PLANTS_VHOST, declare, ingest_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.configuration import ACCOUNT
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.processes import Program, spawn, stop_process
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST, EventKind, event_queue
from gridfleet.protocol.topics import Channel, topic
from gridfleet.sdk.partner import CommandKind, Partner
from gridfleet.sdk.plant import Package, PlantClient, Snapshot
from support.clients.fleet_under_test import wait_for
from support.clients.lean_mqtt import Connection, Login, Lost, Refused, connect
from support.figures import Figure
from support.servers.broker_version import broker_version
from support.servers.deployed_stack import fill, install_plugins, plugin_folders
from support.servers.free_ports import free_ports, settings_at
from support.servers.tls_files import tls_files

NAMES = ["gridfleet1@localhost", "gridfleet2@localhost", "gridfleet3@localhost"]
SHARDS = 4
MESSAGES = 500
PLANTS = 12
GOAL_SECONDS = 60
PARTNER = PartnerQueues("acme", "acme")
PARTNER_VHOST = "partner-cluster"


@dataclass(frozen=True)
class Node:
    """One of the three, and the child process that it is."""

    settings: Settings
    password: str
    program: Program
    process: "subprocess.Popen[bytes]"

    @property
    def url(self) -> str:
        """AMQP with the service's account."""
        return f"amqp://_gridfleet:{self.password}@127.0.0.1:{self.settings.amqp_port}"

    @property
    def management_url(self) -> str:
        """Its management API."""
        return f"http://_gridfleet:{self.password}@127.0.0.1:{self.settings.management_port}"


@pytest.fixture
def cluster() -> Iterator[list[Node]]:
    """Three nodes that have found each other, with one port mapper. They start as docs/deployment.md says."""
    root = Path(tempfile.mkdtemp(prefix="gridfleet-cluster-"))
    tls_files(root / "tls", "localhost")
    cookie, password, [epmd_port] = secrets.token_hex(20), secrets.token_hex(16), free_ports(1)
    running: list[tuple[Program, subprocess.Popen[bytes]]] = []
    nodes: list[Node] = []
    try:
        for name in NAMES:
            settings = settings_at(root / name, mqtt_port=0, epmd_port=epmd_port)
            mapper, program = _programs(settings, name, cookie, password, root / "tls")
            with (root / f"{name}.log").open("ab") as log:
                if not nodes:
                    running.append((mapper, spawn(mapper, log)))
                running.append((program, spawn(program, log)))
            nodes.append(Node(settings, password, *running[-1]))
            if broker_version() < (4, 0):
                _wait_until_ready(nodes[0])
        for node in nodes:
            _wait_until_ready(node)
        wait_for(lambda: all(_is_complete(node) for node in nodes), 300)
        yield nodes
    finally:
        running[1:] = [(node.program, node.process) for node in nodes] or running[1:]
        for _, process in running[1:]:
            process.kill()
        for program, process in reversed(running):
            stop_process(program, process)
        shutil.rmtree(root, ignore_errors=True)


async def test_confirmed_messages_outlive_the_node_that_is_killed(cluster: list[Node]) -> None:
    first, second, third = cluster
    await declare(first.url, first.management_url, shards=SHARDS, queue_type="quorum")
    await asyncio.sleep(4)  # younger than three seconds, a quorum queue may be lost with its node
    sent = {str(number).encode() for number in range(MESSAGES)}
    async with open_channel(second.url, PLANTS_VHOST) as channel:
        for body in sent:
            confirmed = await channel.basic_publish(
                body,
                exchange="amq.topic",
                routing_key=f"v1.plants.{body.decode()}.telemetry",
                properties=aiormq.spec.Basic.Properties(delivery_mode=2),
            )
            assert isinstance(confirmed, aiormq.spec.Basic.Ack)
    os.kill(first.process.pid, signal.SIGKILL)
    received: set[bytes] = set()
    async with open_channel(third.url, PLANTS_VHOST) as channel:

        async def take(message: DeliveredMessage) -> None:
            received.add(message.body)
            await channel.basic_ack(message.delivery_tag or 0)

        for shard in range(SHARDS):
            await channel.basic_consume(ingest_queue(shard), take)
        async with asyncio.timeout(300):
            while received != sent:
                await asyncio.sleep(0.1)
        confirmed = await channel.basic_publish(b"more", exchange="amq.topic", routing_key="v1.plants.x.telemetry")
        assert isinstance(confirmed, aiormq.spec.Basic.Ack)
    assert _running(second) == 2


@pytest.mark.timeout(3_600)
@pytest.mark.faults
async def test_plants_partners_and_upkeep_go_on_while_any_node_is_down(cluster: list[Node], figure: Figure) -> None:
    first = cluster[0]
    await declare(first.url, first.management_url, shards=SHARDS, queue_type="quorum")
    async with open_management(first.management_url) as management:
        # From before there was a cluster.
        await ensure_legacy_vhost(management, first.url, PARTNER, queue_type="classic")
    await _settle(first)
    for number in range(PLANTS):
        async with _session(cluster[number % 3], number):
            pass
    await asyncio.sleep(4)
    for index, victim in enumerate(cluster):
        alive = [node for node in cluster if node is not victim]
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.wait()
        started = time.monotonic()
        await asyncio.gather(*(_is_commanded(alive[number % 2], alive[0], number) for number in range(PLANTS)))
        seconds = time.monotonic() - started
        figure(f"all {PLANTS} plants get commands after a kill of node {index + 1}", seconds, "s", GOAL_SECONDS)
        await _upkeep_goes_on(alive[0])
        await _settle(alive[1])
        await _partner_is_served(alive)
        cluster[index] = _restarted(victim)
        async with asyncio.timeout(300):
            while _running(alive[0]) < len(NAMES):
                await asyncio.sleep(0.5)


@pytest.mark.timeout(3_600)
@pytest.mark.faults
async def test_clients_continue_at_another_node_by_themselves(cluster: list[Node], tmp_path: Path, figure: Figure) -> None:
    await declare(cluster[0].url, cluster[0].management_url, shards=SHARDS, queue_type="quorum")
    await _settle(cluster[0])
    await asyncio.sleep(4)
    authority = (cluster[0].settings.home.parent / "tls" / "ca.pem").read_text()
    snapshots: list[int] = []
    commands: list[str] = []
    async with (
        PlantClient(_package(cluster, authority), queue_path=tmp_path / "queue", on_problem=print) as plant,
        Partner(_partner_urls(cluster), authority=authority) as partner,
    ):

        async def send() -> None:
            for number in count():
                await plant.send(Snapshot(time=1, seq=number))
                snapshots.append(number)
                await asyncio.sleep(0.02)

        async def command() -> None:
            while True:
                commands.append(await partner.send(CommandKind.MODE, "site", mode="AUTO"))
                await asyncio.sleep(0.02)

        async def progress() -> None:
            delivered, confirmed = len(snapshots) + 100, len(commands) + 100
            async with asyncio.timeout(300):
                while plant.counters.snapshots < delivered or len(commands) < confirmed:
                    assert not any(task.done() for task in sending)
                    await asyncio.sleep(0.1)

        sending = [asyncio.create_task(send()), asyncio.create_task(command())]
        await progress()
        for index, victim in enumerate(cluster):  # so also the leader of every queue
            os.kill(victim.process.pid, signal.SIGKILL)
            victim.process.wait()
            started = time.monotonic()
            await progress()
            seconds = time.monotonic() - started
            name = f"plant and partner: 100 more confirmations after a kill of node {index + 1}"
            figure(name, seconds, "s", GOAL_SECONDS)
            cluster[index] = await asyncio.to_thread(_restarted, victim)
            await asyncio.to_thread(wait_for, lambda: all(_is_complete(node) for node in cluster), 300)
        for task in sending:
            task.cancel()
        await asyncio.wait(sending)
        await plant.drain(timeout_seconds=300)

    shards = [ingest_queue(shard) for shard in range(SHARDS)]
    await _all_arrive(cluster[2], PLANTS_VHOST, shards, _sequence, set(snapshots))
    await _all_arrive(
        cluster[2],
        PARTNER_VHOST,
        [inbound_queue("acme")],
        lambda message: {message.header.properties.message_id},
        set(commands),
    )


def _sequence(message: DeliveredMessage) -> set[int]:
    """Return the numbers of the snapshots in a message; a status has none."""
    payload = json.loads(message.body).get("payload", [])
    return {snapshot["seq"] for snapshot in (payload if isinstance(payload, list) else [payload])}


def _package(cluster: list[Node], authority: str) -> Package:
    """Return a plant's package that lists every node, with the broker's own account in place of a plant's."""
    plant_id = str(uuid4())
    addresses = [{"host": "localhost", "port": node.settings.mqtts_port} for node in cluster]
    document = {
        "plantId": plant_id,
        "authMethod": "PASSWORD",
        "mqtt": {
            "broker": addresses[0]["host"],
            "port": addresses[0]["port"],
            "tls": True,
            "username": ACCOUNT,
            "clientId": plant_id,
            "topics": {channel.value: topic(plant_id, channel) for channel in Channel},
            "addresses": addresses,
        },
        "security": {"caCert": authority, "hmacSecret": "ab" * 32, "password": cluster[0].password},
    }
    return Package.parse(json.dumps(document))


def _partner_urls(cluster: list[Node]) -> list[str]:
    """Return the URL of each node for a new user of the partner's vhost."""
    node, rights = cluster[0], {"configure": "", "write": ".*", "read": ".*"}
    for path, content in (
        ("users/acme", {"password": node.password, "tags": ""}),
        (f"permissions/{PARTNER_VHOST}/acme", rights),
    ):
        httpx.put(f"{node.management_url}/api/{path}", json=content, timeout=30).raise_for_status()
    return [f"amqps://acme:{node.password}@localhost:{each.settings.amqps_port}/{PARTNER_VHOST}" for each in cluster]


async def _all_arrive(
    node: Node, vhost: str, queues: list[str], names: Callable[[DeliveredMessage], set[Any]], expected: set[Any]
) -> None:
    """Consume the queues until every expected name has arrived."""
    received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    async with open_channel(node.url, vhost) as channel, asyncio.timeout(300):
        for queue in queues:
            await channel.basic_consume(queue, received.put, no_ack=True)
        while expected:
            expected -= names(await received.get())


@asynccontextmanager
async def _session(node: Node, number: int) -> AsyncIterator[Connection]:
    """A lasting session at a node, with the broker's own account in place of a plant's."""
    login = Login(f"plant-{number}", ACCOUNT, node.password, clean_session=False)
    authority = node.settings.home.parent / "tls" / "ca.pem"
    tls = ssl.create_default_context(cafile=authority)
    async with await connect(node.settings.mqtts_port, login, tls, seconds=30) as connection:
        assert await connection.subscribe(f"v1/plants/plant-{number}/commands", seconds=30) == [1]
        yield connection


async def _is_commanded(node: Node, sender: Node, number: int) -> None:
    """A plant that tries as often as it takes gets a command within a minute."""
    async with asyncio.timeout(300):
        while True:
            try:
                async with _session(node, number) as connection, open_channel(sender.url, PLANTS_VHOST) as channel:
                    await channel.basic_publish(
                        b"do", exchange="amq.topic", routing_key=f"v1.plants.plant-{number}.commands", mandatory=True
                    )
                    assert (await connection.received.get())[1] == b"do"
                    return
            except (Refused, Lost, TimeoutError, OSError, AMQPError):
                await asyncio.sleep(1)


async def _upkeep_goes_on(node: Node) -> None:
    addresses = {"broker_url": SecretStr(node.url), "broker_management_url": SecretStr(node.management_url)}
    settings = node.settings.model_copy(update={**addresses, "broker_queue_type": "quorum", "ingest_shards": SHARDS})
    task = asyncio.create_task(keep_broker(settings))
    done, _ = await asyncio.wait({task}, timeout=20)
    task.cancel()
    assert not done, task.exception()


async def _settle(node: Node) -> None:
    async with open_management(node.management_url) as management:
        await ensure_partner_vhost(management, node.url, PARTNER_VHOST, PARTNER, queue_type="quorum")
        await ensure_legacy_vhost(management, node.url, PARTNER, queue_type="quorum")


async def _partner_is_served(alive: list[Node]) -> None:
    status, mode = "acme.event.status", "acme.command.mode"
    for vhost, exchange, key, queue in (
        (PARTNER_VHOST, EXCHANGE, status, event_queue("acme", EventKind.STATUS)),
        (PARTNER_VHOST, EXCHANGE, mode, inbound_queue("acme")),
        (LEGACY_VHOST, LEGACY_EVENTS, status, event_queue("acme", EventKind.STATUS)),
        (LEGACY_VHOST, EXCHANGE, mode, inbound_queue("acme")),
    ):
        received: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        async with open_channel(alive[0].url, vhost) as sender, open_channel(alive[1].url, vhost) as receiver:
            await receiver.basic_consume(queue, received.put, no_ack=True)
            await sender.basic_publish(b"x", exchange=exchange, routing_key=key, mandatory=True)
            async with asyncio.timeout(300):
                assert (await received.get()).body == b"x"


def _restarted(node: Node) -> Node:
    with (node.settings.home.parent / f"{node.settings.home.name}.log").open("ab") as log:
        restarted = replace(node, process=spawn(node.program, log))
    _wait_until_ready(restarted)
    return restarted


def _wait_until_ready(node: Node) -> None:
    PrivateBroker(node.settings).wait_until_ready(lambda: node.process.poll() is None)


def _running(node: Node) -> int:
    """How many nodes of the cluster run."""
    return sum(found.get("running", False) for found in httpx.get(f"{node.management_url}/api/nodes", timeout=30).json())


def _is_complete(node: Node) -> bool:
    """Return whether the node's vhosts run on every node. On a busy machine they start after the listeners, and until then a
    client is refused."""
    vhosts = httpx.get(f"{node.management_url}/api/vhosts", timeout=30).json()
    return len(vhosts) > 1 and all(list(one["cluster_state"].values()) == ["running"] * len(NAMES) for one in vhosts)


def _programs(settings: Settings, name: str, cookie: str, password: str, tls: Path) -> tuple[Program, Program]:
    folder = settings.home / "broker"
    folder.mkdir(parents=True)
    (folder / ".erlang.cookie").write_text(cookie)
    (folder / ".erlang.cookie").chmod(0o400)
    (folder / "rabbitmq-env.conf").touch()
    answers = {
        "RABBITMQ_PUBLIC_ADDRESS": "127.0.0.1",
        "RABBITMQ_MQTTS_PORT": str(settings.mqtts_port),
        "RABBITMQ_AMQPS_PORT": str(settings.amqps_port),
        "RABBITMQ_AMQP_PORT": str(settings.amqp_port),
        "RABBITMQ_MANAGEMENT_PORT": str(settings.management_port),
        "RABBITMQ_METRICS_PORT": str(settings.broker_metrics_port),
        "RABBITMQ_TLS_FOLDER": str(tls),
        "RABBITMQ_CONFIGURATION_FOLDER": str(settings.home / "filled" / "rabbitmq"),
        **{f"RABBITMQ_NODE_{number}": each for number, each in enumerate(NAMES, start=1)},
        **dict.fromkeys(("RABBITMQ_PASSWORD", "INTERNAL_SECRET", "REDIS_PASSWORD"), password),
    }
    filled = fill(answers, settings.home) / "rabbitmq"
    (folder / "conf.d").mkdir()
    shutil.copy(filled / "cluster.conf", folder / "conf.d")
    install_plugins(filled, folder)
    mapper, program = PrivateBroker(settings).programs()
    environment = {
        **program.environment,
        "RABBITMQ_NODENAME": name,
        "RABBITMQ_CONFIG_FILE": str(filled / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(filled / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(filled / "enabled_plugins"),
        "RABBITMQ_PLUGINS_DIR": plugin_folders(folder),
    }
    return mapper, replace(program, environment=environment)
