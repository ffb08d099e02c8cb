"""The content of `/metrics`: the metrics of this process, of the queues and of the certificates.

A scrape never fails because the database or the broker is unavailable. The database is queried at most once in ten seconds, the
broker's certificate at most once a minute.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
import structlog
from cryptography import x509
from prometheus_client import REGISTRY, generate_latest
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolTimeout

from gridfleet.api.state import AppState
from gridfleet.domains.maintenance import queues
from gridfleet.domains.partner_events.queue import count_events, oldest_seconds
from gridfleet.domains.partner_events.queue_starts import QueueStarts
from gridfleet.kernel import metrics
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.pool import TidyConnection
from gridfleet.kernel.security.server_trust import shown_certificate

__all__ = ["Scrape"]

KEPT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 2.0
CERTIFICATE_SECONDS: Final = 60.0
_EVENTS: Final = "partner_events"
_CERTIFICATES: Final = {"server": "server.pem", "authority": "ca.pem"}

log = structlog.get_logger(__name__)


class Scrape:
    """The metrics endpoint of one process."""

    def __init__(self, state: AppState, *, shared_ports: bool) -> None:
        """Initialize the endpoint.

        With `shared_ports`, a scrape can reach any of several processes. It then returns only metrics that are the same in all.
        """
        self._state = state
        self._registries = (metrics.ON_REQUEST,) if shared_ports else (REGISTRY, metrics.ON_REQUEST)
        self._read_at: float | None = None
        self._certificates_read_at: float | None = None
        self._has_shown = False
        self._reading = asyncio.Lock()
        self._event_starts = QueueStarts[None]()
        if (own := state.settings.http_certificate) is not None:
            # Read once: `serve` shows the certificate with which it started, also after the file was renewed.
            _read_certificate_file("rest", own)

    async def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        async with self._reading:
            if self._read_at is None or time.monotonic() - self._read_at > KEPT_SECONDS:
                if self._certificates_read_at is None or time.monotonic() - self._certificates_read_at > CERTIFICATE_SECONDS:
                    await self._read_shown_certificates()
                    self._read_certificate_files()
                    self._certificates_read_at = time.monotonic()
                if await self._read_queues():
                    await self._read_large("commands", self._read_commands)
                    await self._read_large(_EVENTS, self._read_events)
                self._read_at = time.monotonic()
        return await asyncio.to_thread(lambda: b"".join(map(generate_latest, self._registries)))

    async def _read_queues(self) -> bool:
        """Read the queues that are read quickly. Returns False if the database did not respond in time."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._state.reserved.transaction() as db:
                found = await queues.waiting(db)
        except (TimeoutError, psycopg.Error) as error:
            log.warning("cannot read the queues", error=type(error).__name__)
            # The reserved connections may all be in use, as when many users log in at once, or a queue may be long: neither is
            # a failure of the database.
            is_slow = isinstance(error, TimeoutError | PoolTimeout | QueryCanceled)
            metrics.DATABASE_UP.set(is_slow and await self._can_connect())
            metrics.QUEUE_LENGTH.clear()
            metrics.QUEUE_OLDEST_SECONDS.clear()
            return False
        metrics.DATABASE_UP.set(1)
        for queue, length, seconds in found:
            metrics.QUEUE_LENGTH.labels(queue).set(length)
            metrics.QUEUE_OLDEST_SECONDS.labels(queue).set(max(0.0, seconds))
        return True

    async def _read_large(self, queue: str, read: Callable[[Connection], Awaitable[None]]) -> None:
        """Read a queue that may take too long. Its numbers are then missing, and those of the others stay."""
        for gauge in (metrics.QUEUE_LENGTH, metrics.QUEUE_OLDEST_SECONDS):
            with suppress(KeyError):  # it has no value
                gauge.remove(queue)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS), self._state.reserved.transaction() as db:
                await read(db)
        except (TimeoutError, psycopg.Error) as error:
            log.warning("cannot read a queue", queue=queue, error=type(error).__name__)

    async def _read_commands(self, db: Connection) -> None:
        _, length, seconds = await queues.waiting_commands(db)
        metrics.QUEUE_OLDEST_SECONDS.labels("commands").set(max(0.0, seconds))
        metrics.QUEUE_LENGTH.labels("commands").set(length)

    async def _read_events(self, db: Connection) -> None:
        seconds = await oldest_seconds(db, self._event_starts)
        metrics.QUEUE_OLDEST_SECONDS.labels(_EVENTS).set(max(0.0, seconds))
        # It passes all events that were published since a dump began, if an older one waits.
        length = await count_events(db, self._event_starts)
        metrics.QUEUE_LENGTH.labels(_EVENTS).set(length)

    async def _can_connect(self) -> bool:
        try:
            await (await TidyConnection.connect(self._state.reserved.url, connect_timeout=int(_ANSWER_SECONDS))).close()
        except psycopg.Error:
            return False
        return True

    async def _read_shown_certificates(self) -> None:
        """Read what the broker shows to plants: it may still use a file that was replaced, or be on another machine."""
        settings = self._state.settings
        connecting = (shown_certificate(host, settings.mqtts_port, _ANSWER_SECONDS) for host in settings.broker_hosts)
        expiries: list[float] = []
        for found in await asyncio.gather(*connecting, return_exceptions=True):
            if isinstance(found, x509.Certificate):
                expiries.append(found.not_valid_after_utc.timestamp())
            elif isinstance(found, ValueError):
                log.warning("cannot read the broker's certificate", error=str(found))
            elif not isinstance(found, OSError):  # the name may not be reachable from here
                raise found
        if expiries:
            metrics.CERTIFICATE_EXPIRY.labels("server").set(min(expiries))
            self._has_shown = True

    def _read_certificate_files(self) -> None:
        for certificate, name in _CERTIFICATES.items():
            if certificate == "server" and self._has_shown:
                continue  # even if the broker is unavailable now: the file may be newer than what it shows
            _read_certificate_file(certificate, self._state.settings.home / "ca" / name)


def _read_certificate_file(certificate: str, path: Path) -> None:
    try:
        expiry = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except FileNotFoundError:
        return  # the certificate is on another machine
    except (OSError, ValueError) as error:
        log.warning("cannot read a certificate", path=str(path), error=str(error))
        return
    metrics.CERTIFICATE_EXPIRY.labels(certificate).set(expiry.timestamp())
