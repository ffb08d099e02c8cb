"""`gridfleet doctor` at a service that is well, and with one part after the other really broken."""

import asyncio
import contextlib
import json
import re
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from gridfleet.cli.doctor import broker as brokers
from gridfleet.cli.doctor import database as databases
from gridfleet.cli.doctor import environment, examination, logins
from gridfleet.cli.doctor.models import Examination, Finding
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db.migrate import head_revision
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.time_zones import IANA_VERSION
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.broker.server_certificate import write_server_certificate
from gridfleet.local.secrets import ensure_local_secrets
from support.builders.encrypted_rows import EncryptedRows
from support.clients.command_line import gridfleet
from support.servers.broker_node import evaluate
from support.servers.free_ports import free_ports, settings_at
from support.servers.running_stack import RunningStack
from support.servers.served import served

RING = Keyring.generate()


def settings_of(stack: RunningStack, **changes: Any) -> Settings:
    chosen: dict[str, Any] = {**stack.ports, "home": stack.home, **changes}
    return Settings(**chosen)


@pytest.fixture
def well(stack: RunningStack) -> Examination:
    """The running service, examined from beside it."""
    return examination(settings_of(stack))


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def assert_bad(finding: Finding, *words: str, status: str = "fail") -> None:
    """It is not ok, says these words, and says what to do."""
    assert finding.status == status, finding
    assert finding.remedy
    for word in words:
        assert word in f"{finding.found} {finding.remedy}", finding


def test_a_service_that_is_well(stack: RunningStack) -> None:
    done = gridfleet("doctor", "--json", "--min-free-gib", "0.5", environment=stack.environment)
    found = {one["check"]: (one["status"], one["found"]) for one in json.loads(done.stdout)}
    assert done.returncode == 0, (found, done.stderr)
    assert {status for status, _ in found.values()} == {"ok"}, found
    assert (
        found["broker login over MQTT"]
        == found["broker login over AMQP"]
        == ("ok", "a wrong password is refused by this service")
    )
    assert found["broker login with a certificate"] == (
        "ok",
        "reaches this service as one, and is refused for a plant that does not exist",
    )
    assert found["migrations"] == ("ok", f"schema at revision {head_revision()}")
    assert found["time zones"] == ("ok", f"rules of IANA's release {IANA_VERSION}")
    assert {"clock against the database", "clock against the broker", "keyring", "disk", "file permissions"} <= found.keys()
    shown = gridfleet("doctor", environment=stack.environment | {"GRIDFLEET_MQTT_PORT": "1"})
    assert shown.returncode == 1
    assert "fail  broker login over MQTT" in shown.stdout
    assert "→ start the broker" in shown.stdout


def test_a_service_that_is_not_there(home: Path) -> None:
    environment = {"GRIDFLEET_HOME": home / "none", "GRIDFLEET_INTERNAL_PORT": free_ports(1)[0]}
    done = gridfleet("doctor", "--json", environment=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert "gridfleet up" in found["database"]["remedy"]
    assert found["broker"]["status"] == found["authorisation requests"]["status"] == "fail"
    assert not (home / "none").exists()


def test_addresses_that_cannot_be_used_hide_no_other_finding(home: Path) -> None:
    environment = {
        "GRIDFLEET_HOME": home / "none",
        "GRIDFLEET_BROKER_URL": "amqp://a:hush@h:port",
        "GRIDFLEET_BROKER_MANAGEMENT_URL": "http://a:hush@h:port",
        "GRIDFLEET_SMTP_URL": "smtp://a:hush@h:port",
        "GRIDFLEET_CA_FILE": home / "missing.pem",
        "GRIDFLEET_INTERNAL_PORT": free_ports(1)[0],
    }
    done = gridfleet("doctor", "--json", environment=environment)
    assert (done.returncode, done.stderr) == (1, "")
    found = {one["check"]: one for one in json.loads(done.stdout)}
    assert "GRIDFLEET_BROKER_URL" in found["broker"]["remedy"]
    assert "GRIDFLEET_SMTP_URL" in found["mail"]["remedy"]
    assert str(home / "missing.pem") in found["authority of the servers"]["found"]
    assert found["disk"]["status"] == "ok"
    assert "hush" not in done.stdout


def test_a_home_that_cannot_be_read_or_that_others_reach_is_a_finding(home: Path) -> None:
    nowhere = home / "file"
    nowhere.touch()
    done = gridfleet("doctor", "--json", environment={"GRIDFLEET_HOME": nowhere, "GRIDFLEET_INTERNAL_PORT": free_ports(1)[0]})
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").touch()
    (home / "postgres-socket").mkdir(mode=0o755)
    (home / "postgres-socket").chmod(0o755)
    done = gridfleet("doctor", "--json", environment={"GRIDFLEET_HOME": home})
    [finding] = json.loads(done.stdout)
    assert finding["check"] == "home folder"
    assert "chmod" in finding["found"]


async def test_a_database_that_is_away_behind_ahead_or_unsafe(database_url: str, home: Path) -> None:
    away = examination(Settings(home=home, database_url=f"postgresql://127.0.0.1:{free_ports(1)[0]}/x"))  # type: ignore[arg-type]
    [finding] = await databases.check_database(away)
    assert_bad(finding, "does not respond", "GRIDFLEET_DATABASE_URL")
    examined = examination(Settings(home=home, database_url=database_url, keys=RING))  # type: ignore[arg-type]
    found = by_name(await databases.check_database(examined))
    # The tests' own server runs so, for speed.
    assert_bad(found["database durability"], "fsync", "power cut")
    assert found["database"].status == found["database connections"].status == found["migrations"].status == "ok"
    assert_bad(found["certificate authority"], "does not exist yet", status="warn")
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE alembic_version SET version_num = '0060'")
    found = by_name(await databases.check_database(examined))
    assert_bad(found["migrations"], "gridfleet db upgrade")
    assert "keyring" not in found
    with psycopg.connect(database_url) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    found = by_name(await databases.check_database(examined))
    assert_bad(found["migrations"], "later release's", status="warn")
    assert "certificate authority" in found
    with psycopg.connect(database_url) as db:
        db.execute("DROP TABLE alembic_version")
    assert_bad(by_name(await databases.check_database(examined))["migrations"], "revision None", "gridfleet db upgrade")


async def test_a_role_without_rights(database_url: str, home: Path) -> None:
    with psycopg.connect(database_url) as db:
        if db.execute("SELECT FROM pg_roles WHERE rolname = 'gridfleet_stranger'").fetchone() is None:
            db.execute("CREATE ROLE gridfleet_stranger LOGIN")
    url = database_url.replace("//gridfleet@", "//gridfleet_stranger@")
    examined = examination(Settings(home=home, database_url=url, keys=RING))  # type: ignore[arg-type]
    found = by_name(await databases.check_database(examined))
    assert found["database"].status == "ok"
    assert_bad(found["database rights"], "gridfleet_stranger may not read", "gridfleet db grant gridfleet_stranger")
    done = gridfleet("db", "check", environment={"GRIDFLEET_DATABASE_URL": url})
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "permission denied for table alembic_version" in done.stderr


async def test_a_keyring_that_does_not_fit(database_url: str, home: Path) -> None:
    from gridfleet.kernel.db import open_database

    async with open_database(database_url, name="test", size=2) as database:
        await EncryptedRows(database, Keyring.parse(RING)).fill(plants=2)

    async def keyring(ring: str | None) -> Finding:
        settings = Settings(home=home, database_url=database_url, keys=ring)  # type: ignore[arg-type]
        return by_name(await databases.check_database(examination(settings)))["keyring"]

    assert (await keyring(f"{RING},2:{'22' * 32}")).found == "versions 1, 2; 2 encrypts"
    assert_bad(await keyring(f"2:{'22' * 32}"), "rows need version 1, the keyring has 2", "docs/operations.md")
    assert_bad(await keyring(f"1:{'22' * 32}"), "does not fit the database")
    assert_bad(await keyring("nonsense"), "a keyring (GRIDFLEET_KEYS, else secrets/keys) is written")
    assert_bad(await keyring(None), "GRIDFLEET_KEYS is not set")


async def test_a_broker_that_is_away_or_lacks_something(well: Examination, stack: RunningStack) -> None:
    [closed] = free_ports(1)
    [finding] = await brokers.check_broker(replace(well, broker_url=f"amqp://a:b@127.0.0.1:{closed}"))
    assert_bad(finding, "AMQP fails", "GRIDFLEET_BROKER_URL")
    assert well.broker_url is not None
    [finding] = await brokers.check_broker(replace(well, broker_url=well.broker_url.replace("_gridfleet:", "_gridfleet:x")))
    assert_bad(finding, "AMQP fails")
    *_, finding = await brokers.check_broker(replace(well, management_url=f"http://a:b@127.0.0.1:{closed}"))
    assert_bad(finding, "does not respond", "rabbitmq_management")
    found = by_name(await brokers.check_broker(well, {"rabbitmq_random_exchange": "x-random"}))
    assert_bad(found["broker plugins"], "missing: rabbitmq_random_exchange", "rabbitmq-plugins enable rabbitmq_random_exchange")
    late = replace(well, clock=lambda: utc_now() + timedelta(seconds=90))
    assert_bad(by_name(await brokers.check_broker(late))["clock against the broker"], "ahead", "chrony")


async def test_a_broker_with_an_alarm_a_stopped_vhost_and_without_a_log_of_errors(home: Path) -> None:
    settings = settings_at(home)
    ensure_local_secrets(home)
    write_server_certificate(home / "ca", Authority.create(), ["localhost"])
    (home / "broker" / "conf.d").mkdir(parents=True)
    (home / "broker" / "conf.d" / "low.conf").write_text("vm_memory_high_watermark.relative = 0.00001\nlog.exchange = false\n")
    node = PrivateBroker(settings)
    try:
        node.start()
        evaluate(home, settings.epmd_port, 'ok = rpc:call(N, rabbit_vhost_sup_sup, stop_and_delete_vhost, [<<"/">>])')
        add = 'ok = rpc:call(N, rabbit_auth_backend_internal, add_user, [<<"guest">>, <<"guest">>, <<"x">>])'
        evaluate(home, settings.epmd_port, add)
        found = by_name(await brokers.check_broker(examination(settings)))
        assert found["broker version"].found.endswith(", one node")
        old = found["broker version"].found < "RabbitMQ 3.12"
    finally:
        node.stop()
    assert_bad(found["broker alarms"], "memory at gridfleet@localhost", "no messages", "vm_memory_high_watermark")
    assert_bad(found["broker users"], "guest", "rabbitmqctl delete_user guest", status="warn")
    assert_bad(found["broker vhosts"], "stopped: / at gridfleet@localhost.", "restart_vhost")
    if old:
        assert_bad(found["broker error log"], "too large a message", "log.exchange = true")


async def test_clocks_that_differ(well: Examination) -> None:
    for seconds, status in ((0, "ok"), (-30, "warn"), (30, "warn"), (90, "fail"), (-90, "fail")):
        off = replace(well, clock=lambda seconds=seconds: utc_now() + timedelta(seconds=seconds))
        finding = by_name(await databases.check_database(off))["clock against the database"]
        assert finding.status == status, seconds
        assert ("ahead" in finding.found) == (seconds > 0) or seconds == 0


async def test_a_broker_that_asks_another_service(well: Examination, stack: RunningStack, database_url: str) -> None:
    # Another service answers its questions than the one whose database this is.
    for finding in await logins.check_logins(replace(well, database_url=database_url)):
        assert_bad(finding, "without a request to this service", "auth_http")
    closed = replace(well, settings=settings_of(stack, mqtt_port=free_ports(1)[0]))
    amqp, mqtt, certificate = await logins.check_logins(closed)
    assert amqp.status == certificate.status == "ok"
    assert_bad(mqtt, "cannot connect", "rabbitmq_mqtt")


async def test_a_broker_that_takes_no_certificates_or_adds_a_password(
    well: Examination, stack: RunningStack, home: Path
) -> None:
    settings = settings_at(home, internal_secret="inside", broker_metrics_port=free_ports(1)[0])
    ensure_local_secrets(home)
    shutil.copytree(stack.home / "ca", home / "ca")
    secret = (stack.home / "secrets" / "internal_secret").read_text().strip()
    node = PrivateBroker(settings)

    async def certificate() -> Finding:
        ports = {name: getattr(settings, name) for name in ("mqtt_port", "mqtts_port", "amqp_port")}
        there = replace(well, broker_url=node.url, settings=settings_of(stack, **ports))
        return by_name(await logins.check_logins(there))["broker login with a certificate"]

    async with password_adder(settings.internal_port, f"http://127.0.0.1:{stack.ports['internal_port']}/{secret}"):
        try:
            await asyncio.to_thread(node.start)
            assert_bad(await certificate(), "as RabbitMQ 4.0 does", "gridfleet_auth_http", "docs/deployment.md")
            await asyncio.to_thread(node.stop)
            (home / "broker" / "conf.d").mkdir()
            (home / "broker" / "conf.d" / "none.conf").write_text("mqtt.ssl_cert_login = false\n")
            await asyncio.to_thread(node.start)
            assert_bad(await certificate(), "refused without a request", "mqtt.ssl_cert_login = true")
        finally:
            await asyncio.to_thread(node.stop)
    assert_bad(await certificate(), "cannot connect", "listener for TLS")


@contextlib.asynccontextmanager
async def password_adder(port: int, target: str) -> AsyncIterator[None]:
    """Passes the broker's requests on to the service, with the password `none` where there is none: as RabbitMQ 4.0 does."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(re.search(r"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
        form = (await reader.readexactly(length)).decode()
        question = head.split()[1].rpartition("/")[2]
        if question == "user" and "password=" not in form:
            form += "&password=none"
        kind = {"content-type": "application/x-www-form-urlencoded"}
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{target}/broker/{question}", content=form, headers=kind)
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(answer.content))
        writer.write(answer.content)
        writer.close()

    async with await asyncio.start_server(relay, "127.0.0.1", port):
        yield


async def test_a_listener_that_does_not_answer_as_it_should(well: Examination, stack: RunningStack, home: Path) -> None:
    assert (await brokers.check_auth_listener(well)).status == "ok"
    wrong = replace(well, settings=settings_of(stack, internal_secret="wrong"))
    assert_bad(await brokers.check_auth_listener(wrong), "answers wrongly", "_SECRET")
    away = replace(well, settings=settings_of(stack, internal_port=free_ports(1)[0]))
    assert_bad(await brokers.check_auth_listener(away), "does not respond", "gridfleet serve")


async def test_certificates_that_ended_or_that_no_plant_trusts(well: Examination, stack: RunningStack, home: Path) -> None:
    assert [one.status for one in await environment.check_certificates(well)] == ["ok", "ok"]
    for ahead, status, word in ((340, "warn", "ends"), (370, "fail", "ended")):
        later = replace(well, clock=lambda ahead=ahead: utc_now() + timedelta(days=ahead))
        for finding in await environment.check_certificates(later):
            assert_bad(finding, word, "gridfleet up", status=status)
    (home / "ca").mkdir()
    (home / "ca" / "ca.pem").write_text(Authority.create().certificate_pem)
    for finding in await environment.check_certificates(replace(well, home=home)):
        assert_bad(finding, "is not trusted as localhost")
    elsewhere = replace(well, settings=settings_of(stack, mqtt_host="mq.example.org"))
    for finding in await environment.check_certificates(elsewhere):
        assert_bad(finding, "mq.example.org", "GRIDFLEET_MQTT_HOST")
    further = replace(well, settings=settings_of(stack, mqtt_further_hosts="127.0.0.1,mq2.example.org"))
    found = await environment.check_certificates(further)
    assert [one.status for one in found] == ["ok"] * 4 + ["fail"] * 2
    assert [one.check for one in found[1:3]] == ["certificate for partners", "certificate for plants at 127.0.0.1"]
    for finding in found[4:]:
        assert_bad(finding, "is not trusted as mq2.example.org", "GRIDFLEET_MQTT_FURTHER_HOSTS")
    closed = replace(well, settings=settings_of(stack, mqtts_port=free_ports(1)[0]))
    assert_bad((await environment.check_certificates(closed))[0], "shows no certificate")


async def test_a_certificate_that_has_ended(well: Examination, stack: RunningStack, home: Path) -> None:
    authority = Authority.create()
    issued = authority.issue_server(["localhost"], timedelta(seconds=-1))
    (home / "ca").mkdir()
    (home / "ca" / "ca.pem").write_text(authority.certificate_pem)
    (home / "server.pem").write_text(issued.certificate_pem + issued.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "server.pem")
    [port] = free_ports(1)
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port, ssl=context):
        there = replace(well, home=home, settings=settings_of(stack, mqtts_port=port, amqps_port=port))
        for finding in await environment.check_certificates(there):
            assert_bad(finding, f"shows a certificate that ended {utc_now():%Y-%m-%d}", "gridfleet up")


async def test_a_certificate_for_users_that_was_renewed_without_a_restart(
    well: Examination, stack: RunningStack, home: Path
) -> None:
    issued = Authority.create().issue_server(["localhost"], timedelta(days=3))
    (home / "rest.pem").write_text(issued.certificate_pem + issued.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "rest.pem")
    [port] = free_ports(1)
    changes = {"http_port": port, "http_certificate": home / "rest.pem", "http_key": home / "rest.pem"}
    there = replace(well, settings=settings_of(stack, **changes))
    assert_bad((await environment.check_certificates(there))[-1], "certificate", "gridfleet serve")
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port, ssl=context):
        found = by_name(await environment.check_certificates(there))
        assert found.keys() == {"certificate for plants", "certificate for partners", "certificate for users"}
        assert_bad(found["certificate for users"], "ends", "restart `gridfleet serve`", status="warn")
        later = replace(there, clock=lambda: utc_now() + timedelta(days=4))
        assert_bad(by_name(await environment.check_certificates(later))["certificate for users"], "ended")
        earlier = replace(there, clock=lambda: utc_now() - timedelta(days=90))
        assert by_name(await environment.check_certificates(earlier))["certificate for users"].status == "ok"


@contextlib.contextmanager
def smtp_server(password: str | None = None) -> Iterator[int]:
    """A real server on loopback; with a password it wants a login."""

    def check(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        return AuthResult(success=data.password.decode() == password, handled=False)

    [port] = free_ports(1)
    more: dict[str, Any] = {"authenticator": check, "auth_required": True, "auth_require_tls": False} if password else {}
    controller = Controller(Sink(), hostname="127.0.0.1", port=port, **more)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
async def test_mail_servers(well: Examination, stack: RunningStack) -> None:
    async def mail(url: str | None, **more: Any) -> Finding:
        return await environment.check_mail(replace(well, settings=settings_of(stack, smtp_url=url, **more)))

    assert (await mail(None)).status == "ok"
    assert_bad(await mail(None, environment="production"), "GRIDFLEET_SMTP_URL", status="warn")
    with smtp_server() as port:
        assert (await mail(f"smtp://127.0.0.1:{port}")).status == "ok"
        assert_bad(await mail(f"smtps://127.0.0.1:{port}"), "does not work", "kind of TLS")
    assert_bad(await mail(f"smtp://127.0.0.1:{port}"), f"127.0.0.1:{port} does not work", "firewall")
    with smtp_server("right") as port:
        assert (await mail(f"smtp://us:right@127.0.0.1:{port}")).status == "ok"
        refused = await mail(f"smtp://us:wrong@127.0.0.1:{port}")
        assert_bad(refused, "the login is refused with 535", "password")
        assert "wrong" not in refused.found


async def test_redis_disk_and_permissions(well: Examination, stack: RunningStack, home: Path) -> None:
    assert await environment.check_redis(well) == []
    away = replace(well, settings=settings_of(stack, redis_url=f"redis://:secret@127.0.0.1:{free_ports(1)[0]}/0"))
    [finding] = await environment.check_redis(away)
    assert_bad(finding, "127.0.0.1 does not respond", "GRIDFLEET_REDIS_URL")
    if program := shutil.which("redis-server"):
        [port] = free_ports(1)
        process = await asyncio.create_subprocess_exec(program, "--port", str(port), "--bind", "127.0.0.1", "--save", "")
        try:
            there = replace(well, settings=settings_of(stack, redis_url=f"redis://127.0.0.1:{port}/0"))
            async with asyncio.timeout(20):
                while (await environment.check_redis(there))[0].status != "ok":
                    await asyncio.sleep(0.05)
        finally:
            process.kill()
            await process.wait()
    free = shutil.disk_usage(stack.home).free
    for wanted, status in ((free // 4, "ok"), (free * 2, "warn"), (free * 100, "fail")):
        assert (await environment.check_disk(replace(well, min_free_bytes=wanted))).status == status
    assert (await environment.check_permissions(well)).status == "ok"
    secrets = home / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "keys").write_text("x")
    (secrets / "keys").chmod(0o640)
    finding = await environment.check_permissions(replace(well, home=home))
    assert_bad(finding, "secrets/keys", "chmod")
    (secrets / "keys").chmod(0o600)
    assert (await environment.check_permissions(replace(well, home=home))).status == "ok"


def test_an_authorisation_request_about_an_unknown_user_leaves_no_trace(
    well: Examination, stack: RunningStack, database_url: str, home: Path
) -> None:
    """No user can log in by such a name, and neither audit events nor counters mention it."""
    import httpx

    with served(database_url, home) as service, psycopg.connect(database_url, autocommit=True) as db:
        db.execute("LISTEN broker_asked_for_nobody")
        base = f"http://127.0.0.1:{service.settings.internal_port}/inside/broker"
        answer = httpx.post(f"{base}/user", data={"username": "_gridfleet_nobody_x" + "y" * 200, "password": "x"})
        assert (answer.status_code, answer.text) == (200, "deny")
        [notice] = db.notifies(timeout=5, stop_after=1)
        assert notice.payload == ("_gridfleet_nobody_x" + "y" * 200)[:100] + " with a password"
        assert db.execute("SELECT count(*) FROM audit_event WHERE event LIKE 'partner%'").fetchone() == (0,)
