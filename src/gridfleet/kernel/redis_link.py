"""Connection to Redis or Valkey, which may be unavailable at any time. Callers wait for it briefly.

A request that fails, or by default takes longer than half a second, marks the server as away. Further requests are then
refused immediately, until a background probe succeeds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import structlog

__all__ = ["RedisLink", "RedisUnavailable", "redis_address"]

T = TypeVar("T")

_ANSWER_SECONDS: Final = 0.5
_MOST_REQUESTS: Final = 16
"""Requests at a time. Each needs a connection of its own, of which the client opens at most 100."""
_PROBE_SECONDS: Final = 1.0
_PROBE_KEY: Final = "gridfleet:probe"

log = structlog.get_logger(__name__)


class RedisUnavailable(Exception):
    """Redis does not respond, or responds with an error."""

    def __init__(self) -> None:
        super().__init__("redis is unavailable")


def redis_address(url: str) -> str:
    """Return the URL with a scheme that the client supports.

    Valkey uses the same protocol, but the client only accepts the name redis.
    """
    scheme = urlsplit(url).scheme
    return url.replace(scheme, scheme.replace("valkey", "redis"), 1)


class RedisLink:
    """One process's connections to the Redis or Valkey at `url`, opened when needed.

    A request that takes longer than `answer_seconds` has failed. One that waits as long for its turn is refused.
    """

    def __init__(self, url: str, answer_seconds: float = _ANSWER_SECONDS) -> None:
        # Imported here: a process without Redis saves 24 MB.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as RedisConnectionError
        from redis.exceptions import RedisError

        self._failures = (RedisError, OSError, TimeoutError)
        self.client: Redis = Redis.from_url(
            redis_address(url),
            socket_timeout=answer_seconds,
            socket_connect_timeout=answer_seconds,
            # A restarted server has closed its connections. The first request that detects this is retried.
            retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        )
        self._answer_seconds = answer_seconds
        self._turns = asyncio.Semaphore(_MOST_REQUESTS)
        self._probe: asyncio.Task[None] | None = None

    @property
    def is_unavailable(self) -> bool:
        """Whether the last request failed and no probe has succeeded since."""
        return self._probe is not None

    async def run_at_once(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a small and rare `request`, which waits for no turn. Raises RedisUnavailable."""
        return await self._run(request)

    async def run(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `request`. Raises RedisUnavailable."""
        if self.is_unavailable:
            raise RedisUnavailable
        try:
            async with asyncio.timeout(self._answer_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise RedisUnavailable from None  # Redis responds, but too slowly for all requests
        try:
            return await self._run(request)
        finally:
            self._turns.release()

    async def _run(self, request: Callable[[], Awaitable[T]]) -> T:
        if self.is_unavailable:
            raise RedisUnavailable
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await request()
        except self._failures as error:
            if not self.is_unavailable:
                # The client's error text may contain the URL with its password.
                log.warning("redis unavailable; rate limits and responses are not shared", error=type(error).__name__)
                self._probe = asyncio.create_task(self._wait_for_return(), name="redis probe")
            raise RedisUnavailable from error

    async def ping(self) -> None:
        """Check that Redis accepts writes. Raises RedisUnavailable."""
        await self.run(self._write_probe)

    async def close(self) -> None:
        """Close every connection."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait([self._probe])
        await self.client.aclose()

    async def _wait_for_return(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            try:
                async with asyncio.timeout(self._answer_seconds):
                    await self._write_probe()
            except self._failures:
                continue
            self._probe = None
            log.info("redis available again")
            return

    async def _write_probe(self) -> None:
        # A replica, or a server without free memory, answers a ping but accepts no writes.
        await cast("Awaitable[Any]", self.client.set(_PROBE_KEY, "1", ex=10))
