"""Logins at the broker as a user that does not exist.

The broker must first send a request to this service, and then refuse the login. The process that receives such a request
publishes it through the database, so the check works with any number of processes.
"""

import asyncio
import secrets
import ssl
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg

from gridfleet.cli.doctor.models import Examination, Finding, fail, ok, reason
from gridfleet.domains.plants.certificates.authority import find_authority
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.broker.probe import LOGIN_CHANNEL, PROBE_PREFIX, login_text, probe
from gridfleet.kernel.db import open_database
from gridfleet.kernel.db.notifications import received_during
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion
from gridfleet.kernel.security.server_trust import unverified_tls
from gridfleet.local.broker.configuration import reachable_host
from gridfleet.local.broker.plugins import AUTH_PLUGIN

__all__ = ["check_logins"]

_SECONDS: Final = 10
_NOTICE_SECONDS: Final = 2
_CERTIFICATE_LIFETIME: Final = timedelta(minutes=10)
_ACCEPTED: Final = b"\x20\x02\x00\x00"
_PASSWORD: Final = "wrong"  # noqa: S105 - of a user that does not exist


async def check_logins(examined: Examination) -> list[Finding]:
    """Log in with a wrong password over AMQP and MQTT, and with a certificate of the plants' authority over MQTT."""
    if examined.broker_url is None or examined.database_url is None:
        return []
    users = {way: f"{PROBE_PREFIX}{way}_{secrets.token_hex(8)}" for way in ("amqp", "mqtt", "mtls")}
    outcomes: dict[str, str | None] = {}
    broker_url = examined.broker_url

    async def over_amqp() -> None:
        outcomes["amqp"] = (await probe(broker_url, PLANTS_VHOST, users["amqp"], _PASSWORD, "amq.topic")).error

    async def over_mqtt() -> None:
        outcomes["mqtt"] = await _password_login(examined, users["mqtt"])

    async def with_certificate(authority: Authority) -> None:
        outcomes["mtls"] = await _certificate_login(examined, users["mtls"], authority)

    async def log_in() -> None:
        # At the same time: RabbitMQ 4.0 takes three seconds to refuse a login over MQTT.
        async with asyncio.TaskGroup() as logins:
            logins.create_task(over_amqp())
            logins.create_task(over_mqtt())
            if authority is not None:
                logins.create_task(with_certificate(authority))

    try:
        authority = await _authority(examined, examined.database_url)
        expected = {login_text(users[way], _PASSWORD) for way in ("amqp", "mqtt")}
        if authority is not None:
            expected.add(login_text(users["mtls"], None))
        received = await received_during(examined.database_url, LOGIN_CHANNEL, log_in, expected, _NOTICE_SECONDS)
    except psycopg.Error as error:
        return [fail("broker logins", f"cannot be observed: {type(error).__name__}", "see the finding about the database")]
    found = [_password_finding(way, outcomes[way], login_text(users[way], _PASSWORD) in received) for way in ("amqp", "mqtt")]
    return found if authority is None else [*found, _certificate_finding(users["mtls"], outcomes["mtls"], received)]


async def _authority(examined: Examination, database_url: str) -> Authority | None:
    """Return the plants' authority; None if there is none or it cannot be decrypted.

    The database checks report an authority that cannot be decrypted.
    """
    try:
        keyring = Keyring.parse(examined.settings.secret("keys").get_secret_value())
        async with open_database(database_url, name="gridfleet-doctor", size=1) as database, database.transaction() as db:
            return await find_authority(db, keyring)
    except (LookupError, ValueError, DecryptionFailed, UnknownKeyVersion, psycopg.errors.UndefinedTable):
        return None


def _password_finding(way: str, refusal: str | None, reached_service: bool) -> Finding:
    check = f"broker login over {way.upper()}"
    if refusal is None:
        return fail(check, "a wrong password was accepted", "remove other backends from auth_backends: docs/operations.md")
    if reached_service:
        return ok(check, "a wrong password is refused by this service")
    if _unreachable(refusal):
        start = "start it (`gridfleet up` starts the private node), and check GRIDFLEET_BROKER_URL"
        plugin = f"start the broker; it needs the plugin rabbitmq_{way} and its listener"
        return fail(check, refusal, plugin if way == "mqtt" else start)
    remedy = (
        "the broker did not query this service: enable rabbitmq_auth_backend_http, put it into auth_backends, and let the four"
        " auth_http paths lead to the internal listener (docs/operations.md)"
    )
    return fail(check, f"refused without a request to this service ({refusal})", remedy)


def _certificate_finding(user: str, refusal: str | None, received: set[str]) -> Finding:
    check = "broker login with a certificate"
    if refusal is None:
        remedy = "remove other backends from auth_backends: docs/operations.md"
        return fail(check, "a certificate of a plant that does not exist was accepted", remedy)
    if login_text(user, None) in received:
        return ok(check, "reaches this service as one, and is refused for a plant that does not exist")
    if login_text(user, "") in received:
        remedy = f"install its plugin {AUTH_PLUGIN} (docs/deployment.md, RabbitMQ 4.0), or run 3.13, 4.1 or newer"
        return fail(check, "the broker adds a password, as RabbitMQ 4.0 does: plants with certificates are refused", remedy)
    if _unreachable(refusal):
        return fail(check, refusal, "start the broker; it needs the plugin rabbitmq_mqtt and its listener for TLS")
    remedy = (
        "set ssl_options.verify = verify_peer, ssl_options.cacertfile to the plants' authority, mqtt.ssl_cert_login = true and"
        " ssl_cert_login_from = distinguished_name (deploy/rabbitmq/rabbitmq.conf)"
    )
    return fail(check, f"refused without a request to this service ({refusal})", remedy)


def _unreachable(refusal: str) -> bool:
    return "connect" in refusal.lower() or "not respond" in refusal.lower()


async def _password_login(examined: Examination, user: str) -> str | None:
    settings = examined.settings
    # Another broker than the private node may have no plain listener: deploy/rabbitmq/rabbitmq.conf opens none. Its certificate
    # is checked by another finding.
    is_plain = examined.embedded_broker and settings.mqtt_port
    port, tls = (settings.mqtt_port, None) if is_plain else (settings.mqtts_port, unverified_tls())
    return await _mqtt_login(examined, port, tls, _mqtt_connect(user, user, _PASSWORD))


async def _certificate_login(examined: Examination, user: str, authority: Authority) -> str | None:
    issued = authority.issue_client(user, _CERTIFICATE_LIFETIME)
    context = unverified_tls()
    with tempfile.TemporaryDirectory(prefix="gridfleet-doctor-") as folder:
        file = Path(folder) / "client.pem"
        file.write_text(issued.certificate_pem + authority.intermediates_pem + issued.key_pem)
        context.load_cert_chain(file)
    return await _mqtt_login(examined, examined.settings.mqtts_port, context, _mqtt_connect(user))


async def _mqtt_login(examined: Examination, port: int, tls: ssl.SSLContext | None, packet: bytes) -> str | None:
    """Return why an MQTT 3.1.1 login was refused, None when it was accepted."""
    settings = examined.settings
    host = reachable_host(settings.mqtt_bind) if examined.embedded_broker else settings.mqtt_host
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(packet)
                answer = await reader.readexactly(4)
            finally:
                writer.close()
    except TimeoutError:
        return f"{host}:{port} does not respond"
    except asyncio.IncompleteReadError:
        return "the broker closed the session"
    except ssl.SSLError as error:
        return f"TLS ends with {error.reason or error}"
    except OSError as error:
        return f"cannot connect to {host}:{port}: {reason(error)}"
    return None if answer == _ACCEPTED else f"CONNACK code {answer[3]}"


def _mqtt_connect(client_id: str, *credentials: str) -> bytes:
    """Return a CONNECT packet (MQTT 3.1.1, section 3.1): clean session; user name and password if given."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(2, "big") + value.encode()

    flags = b"\xc2" if credentials else b"\x02"
    body = text("MQTT") + b"\x04" + flags + b"\x00\x0a" + text(client_id) + b"".join(map(text, credentials))
    if len(body) > 127:  # the length takes two bytes
        return b"\x10" + bytes([len(body) % 128 | 0x80, len(body) // 128]) + body
    return b"\x10" + bytes([len(body)]) + body
