"""A RabbitMQ node of the tests' own with its MQTT plugin: plain and TLS listeners, internal users, one durable queue."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import aiormq
import msgspec
import pytest

from gridfleet.kernel.security.certificates import Authority
from gridfleet.local.broker.installation import find_installation
from gridfleet.protocol import signature
from gridfleet.protocol.envelope import Envelope
from gridfleet.protocol.topics import Channel, routing_key_pattern, topic
from gridfleet.sdk.plant import Package
from support.servers.free_ports import free_ports

SECRET = bytes(range(32)).hex()


@dataclass
class Plant:
    """A plant's credentials on the test broker."""

    id: str
    password: str
    authority: Authority
    port: int
    tls_port: int

    def package(self, method: str = "PASSWORD", **security: str | None) -> Package:
        """Its provisioning package; keyword arguments replace members of `security`."""
        issued = self.authority.issue_client(self.id)
        tls = method != "PASSWORD"
        document = {
            "plantId": self.id,
            "authMethod": method,
            "mqtt": {
                "broker": "localhost",
                "port": self.tls_port if tls else self.port,
                "tls": tls,
                "username": None if method == "MTLS" else self.id,
                "clientId": self.id,
                "topics": {channel.value: topic(self.id, channel) for channel in Channel},
            },
            "protocol": {
                "version": 1,
                "envelope": "v1",
                "signature": "HMAC-SHA256",
                "qos": 1,
                "keepAliveSeconds": 30,
                "maxMessageBytes": 262144,
            },
            "security": {
                "caCert": self.authority.certificate_pem if tls else None,
                "clientCert": issued.certificate_pem if method == "MTLS" else None,
                "clientKey": issued.key_pem if method == "MTLS" else None,
                "hmacSecret": SECRET,
                "password": self.password if method == "PASSWORD" else None,
                **security,
            },
        }
        return Package.parse(json.dumps(document))


@dataclass(frozen=True)
class Received:
    """A message as the service would read it."""

    plant_id: str
    channel: Channel
    body: bytes

    def payload(self) -> bytes:
        """What the envelope holds, its signature checked."""
        envelope = msgspec.json.decode(self.body, type=Envelope)
        payload = bytes(envelope.payload)
        address = topic(self.plant_id, self.channel)
        assert signature.verify(bytes.fromhex(SECRET), envelope.sig, address, envelope.id, envelope.sent_at, payload)
        return payload


@dataclass
class Broker:
    """The node. `kill` is kill -9; what was confirmed must be there again after `start`."""

    folder: Path
    authority: Authority
    plants: list[Plant]
    ports: dict[str, int]
    process: subprocess.Popen[bytes] | None = None
    port_mapper: subprocess.Popen[bytes] | None = None
    _environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, plants: int = 12) -> "Broker":
        folder = Path(tempfile.mkdtemp(prefix="gridfleet-mq-"))
        names = ("amqp", "mqtt", "mqtts", "dist", "epmd")
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        authority = Authority.create()
        credentials = [
            Plant(str(uuid4()), f"pass-{number}", authority, ports["mqtt"], ports["mqtts"]) for number in range(plants)
        ]
        broker = cls(folder, authority, credentials, ports)
        broker._write_configuration()
        return broker

    def take_plant(self) -> Plant:
        return self.plants.pop()

    def start(self) -> None:
        if self.port_mapper is None:  # a child of ours: one that the node starts would outlive the tests
            self.port_mapper = subprocess.Popen(["epmd", "-port", str(self.ports["epmd"]), "-address", "127.0.0.1"])
        self.process = subprocess.Popen(
            [find_installation().server],
            env=self._environment,
            stdout=(self.folder / "out").open("ab"),
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 600  # as long as the service waits for its own node
        for port in ("amqp", "mqtt", "mqtts"):
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.ports[port]), 1):
                    break
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "out").read_text()[-4000:])
                time.sleep(0.1)

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.port_mapper is not None:
            self.port_mapper.kill()
            self.port_mapper.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def received(self, plant_id: str, *channels: Channel) -> list[Received]:
        """Take what has arrived so far from one plant on these channels; the rest is kept for the other tests."""
        wanted = {topic(plant_id, channel).replace("/", "."): channel for channel in channels}
        connection = await aiormq.connect(f"amqp://service:service@127.0.0.1:{self.ports['amqp']}/plants")
        try:
            amqp = await connection.channel()
            found = []
            others = []
            while (delivery := await amqp.basic_get("all", no_ack=True)).routing_key:
                key = delivery.routing_key
                if key in wanted:
                    found.append(Received(plant_id, wanted[key], delivery.body))
                else:
                    others.append((key, delivery.body))
            for key, body in others:
                await amqp.basic_publish(body, routing_key=key, exchange="amq.topic")
            return found
        finally:
            await connection.close()

    async def publish(self, plant_id: str, channel: Channel, body: bytes) -> None:
        """Publish as the service does."""
        connection = await aiormq.connect(f"amqp://service:service@127.0.0.1:{self.ports['amqp']}/plants")
        try:
            amqp = await connection.channel()
            await amqp.basic_publish(
                body,
                exchange="amq.topic",
                routing_key=topic(plant_id, channel).replace("/", "."),
                properties=aiormq.spec.Basic.Properties(delivery_mode=2, headers={"x-mqtt-publish-qos": 1}),
            )
        finally:
            await connection.close()

    def _write_configuration(self) -> None:
        files = {name: self.folder / name for name in ("ca.pem", "cert.pem", "key.pem", "definitions.json", "plugins")}
        issued = self.authority.issue_server(["localhost", "127.0.0.1"])
        files["ca.pem"].write_text(self.authority.certificate_pem)
        files["cert.pem"].write_text(issued.certificate_pem)
        files["key.pem"].write_text(issued.key_pem)
        files["plugins"].write_text("[rabbitmq_mqtt].\n")
        users = {plant.id: plant.password for plant in self.plants} | {"service": "service"}
        definitions = {
            "vhosts": [{"name": "plants"}],
            "users": [{"name": name, "password_hash": _hash(password), "tags": ""} for name, password in users.items()],
            "permissions": [
                {"user": name, "vhost": "plants", "configure": ".*", "write": ".*", "read": ".*"} for name in users
            ],
            "queues": [{"name": "all", "vhost": "plants", "durable": True, "auto_delete": False, "arguments": {}}],
            "bindings": [
                {
                    "source": "amq.topic",
                    "vhost": "plants",
                    "destination": "all",
                    "destination_type": "queue",
                    "routing_key": routing_key_pattern(channel),
                    "arguments": {},
                }
                for channel in (Channel.TELEMETRY, Channel.ACK, Channel.STATUS)
            ],
        }
        files["definitions.json"].write_text(json.dumps(definitions))
        configuration = f"""
            listeners.tcp.local = 127.0.0.1:{self.ports["amqp"]}
            mqtt.listeners.tcp.local = 127.0.0.1:{self.ports["mqtt"]}
            mqtt.listeners.ssl.local = 127.0.0.1:{self.ports["mqtts"]}
            mqtt.vhost = plants
            mqtt.allow_anonymous = false
            mqtt.ssl_cert_login = true
            ssl_cert_login_from = common_name
            ssl_options.cacertfile = {files["ca.pem"]}
            ssl_options.certfile = {files["cert.pem"]}
            ssl_options.keyfile = {files["key.pem"]}
            ssl_options.verify = verify_peer
            ssl_options.fail_if_no_peer_cert = false
            load_definitions = {files["definitions.json"]}
        """
        lines = [line.strip() for line in configuration.splitlines() if line.strip()]
        (self.folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"test{self.ports['dist']}@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(files["plugins"]),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_DIST_PORT": str(self.ports["dist"]),
            "ERL_EPMD_PORT": str(self.ports["epmd"]),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }


def _hash(password: str) -> str:
    salt = os.urandom(4)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A running node for the tests that leave it running."""
    node = Broker.create(60)
    try:
        node.start()
        yield node
    finally:
        node.stop()


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A running node that the test may kill."""
    node = Broker.create(3)
    try:
        node.start()
        yield node
    finally:
        node.stop()


@pytest.fixture
def plant(broker: Broker) -> Plant:
    """A plant that no other test uses."""
    return broker.take_plant()


@pytest.fixture
def authority() -> Authority:
    """A certificate authority that the broker does not know."""
    return Authority.create()


@pytest.fixture
def context_without_trust() -> Callable[[], ssl.SSLContext]:
    """TLS contexts that verify nothing, for tests that look at the listener itself."""

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context

    return make
