"""Checks of everything else that the service needs: certificates, mail, Redis, disk, file permissions."""

import asyncio
import os
import shutil
import socket
import ssl
import stat
from collections.abc import Iterable
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import aiosmtplib

from gridfleet.cli.doctor.models import Examination, Finding, fail, ok, reason, warn
from gridfleet.kernel.mail.delivery import SmtpDelivery
from gridfleet.kernel.security.server_trust import shown_certificate
from gridfleet.kernel.settings import unknown_variables
from gridfleet.kernel.time_zones import IANA_VERSION
from gridfleet.local.broker.configuration import reachable_host

__all__ = [
    "check_authority_file",
    "check_certificates",
    "check_disk",
    "check_mail",
    "check_permissions",
    "check_redis",
    "check_time_zones",
    "check_variables",
]

_SECONDS: Final = 10
_SOON: Final = timedelta(days=30)
_RENEW: Final = "restart `gridfleet up`, which renews it; at a broker of your own, install a new one and reload it"
_RESTART: Final = "put a new one into GRIDFLEET_HTTP_CERTIFICATE, and restart `gridfleet serve`, which reads it when it starts"
_REPLACE: Final = (
    "the certificate must contain GRIDFLEET_MQTT_HOST and GRIDFLEET_MQTT_FURTHER_HOSTS, and be issued by the plants' authority"
)
_GIB: Final = 1 << 30


def check_authority_file(examined: Examination) -> list[Finding]:
    """Check that the file with the authorities for servers' certificates can be read, if it is set."""
    path = examined.settings.ca_file
    if path is None:
        return []
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        remedy = "set GRIDFLEET_CA_FILE to a file (PEM) of the authorities of our servers that the service can read"
        return [fail("authority of the servers", f"{path}: {error.strerror or 'contains no certificate'}", remedy)]
    return [ok("authority of the servers", f"{path} contains certificates")]


def check_variables(environment: Iterable[str]) -> Finding:
    """Report variables that are named like a setting and are not one."""
    complaints = list(unknown_variables(environment))
    if complaints:
        return warn("variables", "; ".join(complaints), "use a name from docs/settings.md, or remove it")
    return ok("variables", "each GRIDFLEET_ variable is a setting")


def check_time_zones() -> Finding:
    """Report the release of the rules of time zones, which must be the same on all machines."""
    return ok("time zones", f"rules of IANA's release {IANA_VERSION}")


async def check_certificates(examined: Examination) -> list[Finding]:
    """Check the certificates that users, plants and partners see: expiry; at the broker also host names and authority."""
    settings = examined.settings
    ports = {"plants": settings.mqtts_port, "partners": settings.amqps_port}
    names = {name: f" at {name}" for name in settings.broker_hosts} | {settings.mqtt_host: ""}
    at_broker = [
        await _shown(examined, f"certificate for {who}{at}", name, port)
        for name, at in names.items()
        for who, port in ports.items()
    ]
    return at_broker if settings.http_certificate is None else [*at_broker, await _shown_to_users(examined)]


async def _shown_to_users(examined: Examination) -> Finding:
    """Check what `serve` shows: it keeps the certificate with which it started, also after the file was renewed."""
    check = "certificate for users"
    host, port = reachable_host(examined.settings.http_host), examined.settings.http_port
    try:
        ends = (await shown_certificate(host, port, _SECONDS)).not_valid_after_utc
    except OSError as error:
        return fail(check, f"{host}:{port} shows no certificate: {reason(error)}", "start `gridfleet serve`")
    if ends <= examined.clock():
        return fail(check, f"{host}:{port} shows a certificate that ended {ends:%Y-%m-%d}", _RESTART)
    text = f"{host}:{port} shows one that ends {ends:%Y-%m-%d}"
    return warn(check, text, _RESTART) if ends <= examined.clock() + _SOON else ok(check, text)


async def _shown(examined: Examination, check: str, name: str, port: int) -> Finding:
    host = reachable_host(examined.settings.mqtt_bind) if examined.embedded_broker else name
    authority = examined.home / "ca" / "ca.pem"
    try:
        ends = (await shown_certificate(host, port, _SECONDS)).not_valid_after_utc
    except OSError as error:
        return fail(
            check,
            f"{host}:{port} shows no certificate: {reason(error)}",
            "start the broker, and check its TLS listener and files",
        )
    text = f"{host}:{port} shows one for {name} that ends {ends:%Y-%m-%d}"
    if ends <= examined.clock():
        return fail(check, f"{host}:{port} shows a certificate that ended {ends:%Y-%m-%d}", _RENEW)
    if complaint := await asyncio.to_thread(_distrusted, host, port, name, authority if authority.exists() else None):
        return fail(check, complaint, _RENEW if "not yet valid" in complaint else _REPLACE)
    return warn(check, text, _RENEW) if ends <= examined.clock() + _SOON else ok(check, text)


def _distrusted(host: str, port: int, name: str, authority: "os.PathLike[str] | None") -> str | None:
    """Return why a plant would reject the server's certificate; None if it would not."""
    context = ssl.create_default_context(cafile=None if authority is None else os.fspath(authority))
    try:
        with socket.create_connection((host, port), _SECONDS) as plain:
            context.wrap_socket(plain, server_hostname=name).close()
    except ssl.SSLCertVerificationError as error:
        return f"{host}:{port} is not trusted as {name}: {error.verify_message}"
    except OSError as error:
        return f"the TLS handshake with {host}:{port} fails: {error}"
    return None


async def check_mail(examined: Examination) -> Finding:
    """Check the mail server's greeting, TLS and login. No mail is sent."""
    settings = examined.settings
    if settings.smtp_url is None:
        text = f"none: mails are written as files below {examined.home / 'mail'}"
        production = settings.environment == "production"
        return warn("mail", text, "set GRIDFLEET_SMTP_URL") if production else ok("mail", text)
    delivery = SmtpDelivery(settings.smtp_url.get_secret_value(), settings.sender, settings.ca_file)
    try:
        await delivery.try_login(_SECONDS)
    except aiosmtplib.SMTPAuthenticationError as error:
        return fail("mail", f"the login is refused with {error.code}", "check user and password in GRIDFLEET_SMTP_URL")
    except (aiosmtplib.SMTPException, OSError) as error:
        remedy = "check host, port and kind of TLS in GRIDFLEET_SMTP_URL, and whether a firewall blocks the connection"
        return fail("mail", f"{delivery.address} does not work: {type(error).__name__}: {error}", remedy)
    return ok("mail", f"{delivery.address} accepts connection and login")


async def check_redis(examined: Examination) -> list[Finding]:
    """Check that Redis responds, if it is configured."""
    if examined.settings.redis_url is None:
        return []
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    from gridfleet.kernel.redis_link import redis_address

    url = redis_address(examined.settings.secret("redis_url").get_secret_value())
    host = urlsplit(url).hostname or urlsplit(url).path
    client = Redis.from_url(url, socket_connect_timeout=_SECONDS, socket_timeout=_SECONDS)
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        remedy = "start it, and check GRIDFLEET_REDIS_URL"
        return [fail("redis", f"{host} does not respond: {type(error).__name__}", remedy)]
    finally:
        await client.aclose()
    return [ok("redis", f"{host} responds")]


async def check_disk(examined: Examination) -> Finding:
    """Check the free disk space of the home folder."""
    folder = examined.home if examined.home.exists() else examined.home.parent
    free = shutil.disk_usage(folder).free
    text = f"{free / _GIB:.1f} GiB free for {examined.home}"
    remedy = "free disk space or lower GRIDFLEET_TELEMETRY_RAW_DAYS: below 200 MB the broker accepts no messages"
    if free < examined.min_free_bytes // 4:
        return fail("disk", text, remedy)
    return warn("disk", text, remedy) if free < examined.min_free_bytes else ok("disk", text)


async def check_permissions(examined: Examination) -> Finding:
    """Check that only their owner can access files with secrets."""
    open_to_others = [
        str(path.relative_to(examined.home))
        for name in ("secrets", "ca", "mail")
        for path in (examined.home / name, *sorted((examined.home / name).glob("*")))
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    if not open_to_others:
        return ok("file permissions", "only the owner can read secrets")
    some = ", ".join(open_to_others[:5]) + (f" and {len(open_to_others) - 5} more" if len(open_to_others) > 5 else "")
    folders = " ".join(f"{examined.home}/{name}" for name in ("secrets", "ca", "mail"))
    remedy = f"run `chmod -R go= {folders}`, and replace what may have been read"
    return fail("file permissions", f"others can read {some}", remedy)
