"""Liveness and readiness of the service."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec
import structlog

from gridfleet.api.http import AppState, Call, endpoint, internal, public
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db.migrate import applied_revision, is_behind
from gridfleet.kernel.security.server_trust import client_tls
from gridfleet.kernel.settings import Settings

__all__ = ["HealthStatus", "ProcessStatus", "ReadinessStatus"]

_CHECK_SECONDS = 3
_is_behind = functools.cache(is_behind)  # reads the file of every migration
_DISPENSABLE = frozenset({"cache"})

log = structlog.get_logger(__name__)


class Health(StrEnum):
    """Whether the service can work."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


class ProcessStatus(StrEnum):
    """Whether a process takes requests, or will soon end."""

    OK = "ok"
    STOPPING = "stopping"


class HealthStatus(msgspec.Struct, frozen=True):
    """The process responds."""

    status: ProcessStatus
    timestamp: datetime


class ReadinessStatus(msgspec.Struct, frozen=True):
    """Results of the readiness checks: `ok` or a short reason. The service stays healthy without the cache."""

    status: Health
    timestamp: datetime
    checks: dict[str, str]


@endpoint(
    "GET",
    "/api/v1/health",
    caller=public(),
    codes=("INTERNAL_SERVER_ERROR",),
    other_responses={503: HealthStatus},
)
async def get_health(call: Call) -> HealthStatus:
    """Report that the process takes requests, for a load balancer. 503 when it is about to end."""
    call.no_store()
    if call.state.stopping.is_set():
        call.status = 503
        return HealthStatus(ProcessStatus.STOPPING, utc_now())
    return HealthStatus(ProcessStatus.OK, utc_now())


@endpoint("GET", "/api/v1/health/live", caller=public(), codes=("INTERNAL_SERVER_ERROR",))
async def get_liveness(call: Call) -> HealthStatus:
    """Report that the process runs, for a supervisor that would restart it."""
    call.no_store()
    return HealthStatus(ProcessStatus.OK, utc_now())


@endpoint(
    "GET",
    "/api/v1/health/ready",
    caller=internal(),
    codes=("FORBIDDEN", "INTERNAL_SERVER_ERROR"),
    other_responses={503: ReadinessStatus},
)
async def get_readiness(call: Call) -> ReadinessStatus:
    """Check database, broker, migrations and cache. 503 when one of the first three fails.

    The service works without the cache, so a failed cache does not take a process out of service.
    """
    call.no_store()
    checks: dict[str, Callable[[AppState], Awaitable[None]]] = {
        "database": _database,
        "broker": _broker,
        "cache": _cache,
        "migrations": _migrations,
    }
    results = await asyncio.gather(*(_result(name, check, call.state) for name, check in checks.items()))
    healthy = all(result == "ok" for name, result in zip(checks, results, strict=True) if name not in _DISPENSABLE)
    if not healthy:
        call.status = 503
    return ReadinessStatus(Health.HEALTHY if healthy else Health.UNHEALTHY, utc_now(), dict(zip(checks, results, strict=True)))


async def _result(name: str, check: Callable[[AppState], Awaitable[None]], state: AppState) -> str:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check(state)
    except TimeoutError:
        return "timeout"
    except _Behind:
        return "behind"
    except Exception as error:
        # The failed host, user or driver is logged, not returned to the client.
        log.warning("readiness check failed", check=name, error=str(error))
        return "unavailable"
    return "ok"


class _Behind(Exception):
    """The schema of the database is older than this version requires."""


async def _database(state: AppState) -> None:
    await state.database.ping()


async def _migrations(state: AppState) -> None:
    async with state.database.transaction() as db:
        if _is_behind(await applied_revision(db)):
            raise _Behind


async def _broker(state: AppState) -> None:
    host, port, encrypted = _broker_address(state.settings)
    tls = client_tls(state.settings.ca_file) if encrypted else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls)
    try:
        # A broker that is still starting accepts connections; only a broker that speaks AMQP replies to this header.
        writer.write(b"AMQP\x00\x00\x09\x01")
        if await reader.readexactly(1) != b"\x01":
            raise ConnectionError("the broker does not speak AMQP 0-9-1")
    finally:
        writer.close()


def _broker_address(settings: Settings) -> tuple[str, int, bool]:
    """Return host, port, and whether the broker uses TLS."""
    if settings.broker_url is None:
        return "127.0.0.1", settings.amqp_port, False
    url = urlsplit(settings.broker_url.get_secret_value())
    encrypted = url.scheme == "amqps"
    return url.hostname or "localhost", url.port or (5671 if encrypted else 5672), encrypted


async def _cache(state: AppState) -> None:
    await state.cache.ping()
