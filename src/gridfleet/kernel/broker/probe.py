"""Test credentials at the broker with a login as their owner."""

import asyncio
import re
import time
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from aiormq.exceptions import AMQPError

from gridfleet.protocol.amqp import open_connection

__all__ = ["LOGIN_CHANNEL", "PROBE_PREFIX", "Probe", "login_text", "probe", "probe_user"]

PROBE_PREFIX: Final = "_gridfleet_nobody_"
"""Prefix of the user names of test logins. No organisation's slug can begin so.

Test logins check that the broker sends its login requests to the service.
"""

LOGIN_CHANNEL: Final = "broker_asked_for_nobody"
"""Notification channel on which the service publishes such a login request, with the text of `login_text`."""

_USER: Final = re.compile(rf"{PROBE_PREFIX}\w*", re.ASCII)
_CERTIFICATE_NAME: Final = re.compile(r"SERIALNUMBER=[0-9a-f]{1,40},CN=(.*)")

_PROBE_SECONDS: Final = 10.0


class Probe(NamedTuple):
    """Result of a test login: its duration, and the error; None if there was none."""

    duration_ms: int
    error: str | None


def probe_user(user: str) -> str | None:
    """Return the name of a test login's user, also from a certificate's subject; None for other users."""
    subject = _CERTIFICATE_NAME.fullmatch(user)
    name = subject[1] if subject else user
    return name[:100] if _USER.fullmatch(name) else None


def login_text(name: str, password: str | None) -> str:
    """Return the text that is published for the login request of such a user. `password` is None if absent."""
    return f"{name} {'without' if password is None else 'with'} a password"


async def probe(broker_url: str, vhost: str, user: str, password: str, exchange: str) -> Probe:
    """Log in to `vhost` at the broker of `broker_url` and check that `exchange` exists. The error contains no secrets."""
    parts = urlsplit(broker_url)
    address = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    url = f"{parts.scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{address}/{quote(vhost, safe='')}?{parts.query}"
    started = time.perf_counter()
    error = None
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            connection = await open_connection(url)
            try:
                channel = await connection.channel()
                await channel.exchange_declare(exchange, passive=True)
            finally:
                await connection.close()
    except TimeoutError:
        error = f"the broker did not respond within {_PROBE_SECONDS:.0f} seconds"
    except (AMQPError, OSError) as failure:
        error = f"{type(failure).__name__}: {_text_of(failure)}".replace(password, "…").replace(quote(password, safe=""), "…")
    return Probe(round((time.perf_counter() - started) * 1000), error)


def _text_of(failure: Exception) -> str:
    return str(failure.args[-1]) if failure.args else "no reason given"
