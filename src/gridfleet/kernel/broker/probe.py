"""Trying credentials at the broker, the way their owner would."""

import asyncio
import time
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import aiormq
from aiormq.exceptions import AMQPError

__all__ = ["ASKED_CHANNEL", "NOBODY", "Probe", "probe"]

NOBODY: Final = "_gridfleet_nobody_"
"""What the user name begins with of a login that only asks whether the broker asks us. No organisation's slug can begin so."""

ASKED_CHANNEL: Final = "broker_asked_for_nobody"
"""Where the database tells of such a question, with the user name."""

_PROBE_SECONDS: Final = 10.0


class Probe(NamedTuple):
    """What came of it: how long it took, and what went wrong, None if nothing did."""

    duration_ms: int
    error: str | None


async def probe(broker_url: str, vhost: str, user: str, password: str, exchange: str) -> Probe:
    """Logs in to `vhost` at the broker of `broker_url` and looks for `exchange`. The error names no secrets."""
    parts = urlsplit(broker_url)
    place = f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
    url = f"{parts.scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{place}/{quote(vhost, safe='')}?{parts.query}"
    started = time.perf_counter()
    error = None
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            connection = await aiormq.connect(url)
            try:
                channel = await connection.channel()
                await channel.exchange_declare(exchange, passive=True)
            finally:
                await connection.close()
    except TimeoutError:
        error = f"the broker did not answer within {_PROBE_SECONDS:.0f} seconds"
    except (AMQPError, OSError) as failure:
        error = f"{type(failure).__name__}: {_told(failure)}".replace(password, "…").replace(quote(password, safe=""), "…")
    return Probe(round((time.perf_counter() - started) * 1000), error)


def _told(failure: Exception) -> str:
    return str(failure.args[-1]) if failure.args else "no reason given"
