"""The private node: what it asks, whom it lets in, and that it comes back after kill -9."""

import asyncio
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import aiomqtt
import aiormq
import httpx
import psutil
import pytest

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.probe import probe
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.configuration import TLS_CIPHERS
from gridfleet.local.broker.installation import find_installation
from gridfleet.local.broker.private_node import PrivateBroker, PrivateBrokerError
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.secrets import ensure_local_secrets
from support.clients.lean_mqtt import Login, Refused, connect, packet, read_packet, text
from support.servers.broker_version import broker_version
from support.servers.free_ports import settings_at
from support.servers.tls_files import tls_files

PLANT = "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d"


class Answers(ThreadingHTTPServer):
    """A stand-in for the internal listener: keeps what it is asked, answers by user name."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Question)
        self.asked: list[tuple[str, dict[str, str]]] = []


class _Question(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        fields = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
        assert isinstance(self.server, Answers)
        question = self.path.rsplit("/", 1)[-1]
        self.server.asked.append((question, fields))
        known = PLANT in fields["username"] and fields.get("password", "right") == "right"
        answer = b"allow" if known else b"deny"
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, PrivateBroker, Answers, Authority]]:
    """A running node whose questions a stand-in answers."""
    home = tmp_path_factory.mktemp("node")
    settings = settings_at(home)
    ensure_local_secrets(home)
    authority = Authority.create()
    write_server_certificate(home / "ca", authority, ["localhost", "127.0.0.1"])
    answers = Answers(settings.internal_port)
    threading.Thread(target=answers.serve_forever, daemon=True).start()
    broker = PrivateBroker(settings)
    try:
        broker.start()
        yield settings, broker, answers, authority
    finally:
        broker.stop()
        answers.shutdown()
        answers.server_close()


Node = tuple[Settings, PrivateBroker, Answers, Authority]


async def test_a_password_login_is_asked_by_post_and_refused_when_denied(node: Node) -> None:
    settings, _, answers, _ = node
    answers.asked.clear()
    async with aiomqtt.Client("127.0.0.1", settings.mqtt_port, identifier=PLANT, username=PLANT, password="right") as client:
        await client.publish(f"v1/plants/{PLANT}/telemetry", b"{}", qos=1)
    questions = [question for question, _ in answers.asked]
    assert list(dict.fromkeys(questions))[:2] == ["user", "vhost"]
    assert set(questions) == {"user", "vhost", "resource", "topic"}
    assert answers.asked[0][1] == {"username": PLANT, "password": "right", "vhost": "plants", "client_id": PLANT}
    with pytest.raises(aiomqtt.MqttError):
        async with aiomqtt.Client("127.0.0.1", settings.mqtt_port, identifier=PLANT, username=PLANT, password="wrong"):
            pass
    with pytest.raises(aiomqtt.MqttError):
        async with aiomqtt.Client("127.0.0.1", settings.mqtt_port, identifier=PLANT):
            pass


async def test_a_certificate_login_brings_the_subject_and_no_password(node: Node, tmp_path: Path) -> None:
    settings, _, answers, authority = node
    issued = authority.issue_client(PLANT)
    (tmp_path / "client.pem").write_text(issued.certificate_pem + issued.key_pem)
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    context.load_cert_chain(tmp_path / "client.pem")
    answers.asked.clear()
    async with aiomqtt.Client("localhost", settings.mqtts_port, identifier=PLANT, tls_context=context) as client:
        await client.publish(f"v1/plants/{PLANT}/telemetry", b"{}", qos=1)
    asked = answers.asked[0][1]
    assert asked["username"] == f"SERIALNUMBER={issued.serial_number},CN={PLANT}"
    assert "password" not in asked


@pytest.mark.parametrize("password", ["none", "undefined", ""])
async def test_a_password_is_never_taken_for_a_certificate(node: Node, password: str) -> None:
    """RabbitMQ 4.0 forwards the atom `none` in the password's place: the text must stay a password."""
    settings, _, answers, authority = node
    name = f"SERIALNUMBER=1,CN={PLANT}"
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    answers.asked.clear()
    for port, tls in ((settings.mqtt_port, None), (settings.mqtts_port, context)):
        with pytest.raises(Refused):
            await connect(port, Login(PLANT, name, password), tls)
    assert all(fields["password"] == password for question, fields in answers.asked if question == "user")
    assert password == "" or len(answers.asked) == 2, "the broker itself refuses an empty password from 3.12 on"


async def test_a_certificate_of_another_authority_is_refused(node: Node, tmp_path: Path) -> None:
    settings, _, _, authority = node
    issued = Authority.create().issue_client(PLANT)
    (tmp_path / "client.pem").write_text(issued.certificate_pem + issued.key_pem)
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    context.load_cert_chain(tmp_path / "client.pem")
    with pytest.raises((aiomqtt.MqttError, ssl.SSLError)):
        async with aiomqtt.Client("localhost", settings.mqtts_port, identifier=PLANT, tls_context=context, timeout=5):
            pass


async def test_the_first_start_warns_of_no_peers(node: Node) -> None:
    settings, _, _, _ = node
    assert "list of nodes does not contain the local node" not in (settings.home / "logs" / "broker.log").read_text()


async def test_only_the_service_account_is_known(node: Node) -> None:
    settings, broker, _, _ = node
    connection = await aiormq.connect(f"{broker.url}/plants")
    await connection.close()
    with pytest.raises(aiormq.exceptions.AMQPError):
        await aiormq.connect(f"amqp://guest:guest@127.0.0.1:{settings.amqp_port}/plants")
    with pytest.raises(aiormq.exceptions.AMQPError):
        await aiormq.connect(f"amqp://_gridfleet:wrong@127.0.0.1:{settings.amqp_port}/plants")


def processes_of(settings: Settings) -> list[psutil.Process]:
    """Return the Erlang machine and the port mapper of the node."""
    folder = str(settings.home.resolve() / "broker")
    found = [process for process in psutil.process_iter(["name", "cwd"]) if process.info["cwd"] == folder]
    return [process for process in found if process.info["name"] in ("beam.smp", "epmd")]


async def test_nothing_listens_beyond_loopback(node: Node) -> None:
    settings, _, _, _ = node
    ours = processes_of(settings)
    assert {p.name() for p in ours} == {"beam.smp", "epmd"}
    listening = {c.laddr.ip for p in ours for c in p.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN}
    assert listening <= {"127.0.0.1", "::1"}


async def test_what_a_full_queue_drops_is_in_the_brokers_own_metrics(node: Node) -> None:
    """The publisher gets no error; the alert about partners' lost events depends on this."""
    settings, broker, _, _ = node
    connection = await aiormq.connect(broker.url)
    channel = await connection.channel()
    await channel.queue_declare("full", exclusive=True, arguments={"x-max-length": 1, "x-overflow": "drop-head"})
    for _ in range(3):
        await channel.basic_publish(b"event", routing_key="full")
    await connection.close()
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"http://127.0.0.1:{settings.broker_metrics_port}/metrics")).text
    name = "rabbitmq_global_messages_dead_lettered_maxlen_total"
    counts = re.findall(
        rf'^{name}\{{queue_type="rabbit_classic_queue",dead_letter_strategy="disabled"\}} (\d+)$', text, re.MULTILINE
    )
    assert counts == ["2"]


async def test_clients_verify_the_brokers_certificate(node: Node, home: Path) -> None:
    settings, broker, _, _ = node
    own, stranger = settings.home / "ca" / "ca.pem", tls_files(home, "localhost").authority
    user = httpx.URL(broker.url)

    def url(authority: Path) -> str:
        address = f"amqps://{user.userinfo.decode()}@localhost:{settings.amqps_port}"
        return Settings(broker_url=address, ca_file=authority).secret("broker_url").get_secret_value()

    async with open_channel(url(own), "/") as channel:
        await channel.queue_declare(exclusive=True)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        async with open_channel(url(stranger), "/"):
            pass
    good, bad = [await probe(url(one), "/", user.username, user.password, "amq.topic") for one in (own, stranger)]
    assert good.error is None
    assert "CERTIFICATE_VERIFY_FAILED" in str(bad.error)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_listeners_take_strong_tls_alone(node: Node) -> None:
    settings, _, _, authority = node

    async def speak(port: int, version: ssl.TLSVersion, ciphers: str = "DEFAULT:@SECLEVEL=0") -> str:
        context = ssl.create_default_context(cadata=authority.certificate_pem)
        context.set_ciphers(ciphers)
        context.minimum_version = context.maximum_version = version
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
        cipher: str = writer.get_extra_info("cipher")[0]
        writer.close()
        return cipher

    for port in (settings.mqtts_port, settings.amqps_port):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert await speak(port, version) in TLS_CIPHERS
        for ciphers in ("DEFAULT:@SECLEVEL=0", "AES256-GCM-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA"):
            old = ssl.TLSVersion.TLSv1_1 if ciphers.startswith("DEFAULT") else ssl.TLSVersion.TLSv1_2
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await speak(port, old, ciphers)


async def test_a_killed_node_comes_back_with_its_durable_messages(node: Node) -> None:
    settings, broker, _, _ = node
    connection = await aiormq.connect(f"{broker.url}/plants")
    channel = await connection.channel()
    await channel.queue_declare("kept", durable=True)
    await asyncio.sleep(3)  # a kill loses what the broker declared in the seconds before
    sent = await channel.basic_publish(b"1", routing_key="kept", properties=aiormq.spec.Basic.Properties(delivery_mode=2))
    assert isinstance(sent, aiormq.spec.Basic.Ack)
    [machine] = [process for process in processes_of(settings) if process.name() == "beam.smp"]
    machine.kill()
    await asyncio.to_thread(broker.stop)
    broker.start()
    connection = await aiormq.connect(f"{broker.url}/plants")
    channel = await connection.channel()
    message = await channel.basic_get("kept", no_ack=True)
    assert message.body == b"1"
    await connection.close()


async def test_mqtt_5_works_or_is_closed_without_an_answer(node: Node) -> None:
    settings, _, _, _ = node
    if broker_version() < (3, 13):
        with pytest.raises(asyncio.IncompleteReadError) as closed:
            await first_answer(settings.mqtt_port, version=5)
        assert closed.value.partial == b""
    else:
        kind, answer = await first_answer(settings.mqtt_port, version=5)
        assert (kind, answer[1]) == (0x20, 0)
        assert b"\x24\x01" in answer, "maximum QoS 1"


async def test_a_publish_with_qos_2_is_confirmed_as_one_with_qos_1_or_ends_the_connection(node: Node) -> None:
    settings, _, _, _ = node
    assert await first_answer(settings.mqtt_port, version=4, publish=True) == (0x40, b"\0\x01")
    if broker_version() >= (3, 13):
        assert await first_answer(settings.mqtt_port, version=5, publish=True) == (0xE0, b"\x9b\0")


async def first_answer(port: int, version: int, *, publish: bool = False) -> tuple[int, bytes]:
    """The broker's answer to a login, or to a publish with QoS 2 after it: kind of the packet and its content."""
    properties = b"\0" if version == 5 else b""
    credentials = text(PLANT) + text(PLANT) + text("right")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(20):
            writer.write(packet(0x10, text("MQTT") + bytes([version, 0xC2, 0, 60]) + properties + credentials))
            answer = await read_packet(reader)
            if publish:
                writer.write(packet(0x34, text(f"v1/plants/{PLANT}/telemetry") + b"\0\x01" + properties + b"{}"))
                answer = await read_packet(reader)
            return answer
    finally:
        writer.transport.abort()


def test_a_home_folder_that_was_moved_is_refused_where_the_node_would_end(tmp_path: Path) -> None:
    """The data of RabbitMQ 3.10 contain the path: it would end without a reason that a user understands. 4.0 starts."""
    created, moved = tmp_path / "created", tmp_path / "moved"
    created.mkdir()
    ensure_local_secrets(created)
    PrivateBroker(settings_at(created)).prepare()
    created.rename(moved)
    is_old = (find_installation().version or "").startswith("3.10.")
    refusal = pytest.raises(PrivateBrokerError, match=f"data in {created}/broker and cannot read it in {moved}/broker")
    with refusal if is_old else nullcontext():
        PrivateBroker(settings_at(moved)).prepare()
    moved.rename(created)
    PrivateBroker(settings_at(created)).prepare()
