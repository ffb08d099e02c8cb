"""The way to Redis or Valkey, which may be away at any time: nobody waits long for it, and nobody waits twice.

A question that fails, or takes longer than half a second, marks the server as away. From then on questions are refused
without asking, until a probe beside them finds that it answers again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import structlog

__all__ = ["RedisAway", "RedisLink", "redis_address"]

T = TypeVar("T")

_ANSWER_SECONDS: Final = 0.5
_PROBE_SECONDS: Final = 1.0
_PROBE_KEY: Final = "gridfleet:probe"

log = structlog.get_logger(__name__)


class RedisAway(Exception):
    """Redis does not answer, or not as it should."""

    def __init__(self) -> None:
        super().__init__("redis is away")


def redis_address(url: str) -> str:
    """The address as the client wants it: Valkey speaks the same protocol, and is known to it by one name alone."""
    scheme = urlsplit(url).scheme
    return url.replace(scheme, scheme.replace("valkey", "redis"), 1)


class RedisLink:
    """One process's connections to the Redis or Valkey at `url`, made as they are needed."""

    def __init__(self, url: str) -> None:
        # Imported here: 24 MB that a process without Redis need not have.
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError as RedisConnectionError
        from redis.exceptions import RedisError

        self._failures = (RedisError, OSError, TimeoutError)
        self.client: Redis = Redis.from_url(
            redis_address(url),
            socket_timeout=_ANSWER_SECONDS,
            socket_connect_timeout=_ANSWER_SECONDS,
            # A server that was started again has closed its connections: the first to find out asks anew.
            retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        )
        self._probe: asyncio.Task[None] | None = None

    @property
    def away(self) -> bool:
        """Whether the last question failed and no probe has succeeded since."""
        return self._probe is not None

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """What `question` answers, within half a second. Raises RedisAway."""
        if self.away:
            raise RedisAway
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await question()
        except self._failures as error:
            if not self.away:
                # The client's words may hold the address with its password.
                log.warning("redis is away; nothing is shared until it is back", error=type(error).__name__)
                self._probe = asyncio.create_task(self._wait_for_return(), name="redis probe")
            raise RedisAway from error

    async def ping(self) -> None:
        """Raises RedisAway when it is."""
        await self.ask(self._write_probe)

    async def close(self) -> None:
        """Closes every connection."""
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait([self._probe])
        await self.client.aclose()

    async def _wait_for_return(self) -> None:
        while True:
            await asyncio.sleep(_PROBE_SECONDS)
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._write_probe()
            except self._failures:
                continue
            self._probe = None
            log.info("redis is back")
            return

    async def _write_probe(self) -> None:
        # A replica, or a server without memory left, answers a ping and takes nothing.
        await cast("Awaitable[Any]", self.client.set(_PROBE_KEY, "1", ex=10))
