"""Rate limits: so many calls of a key within any minute, whenever it begins: no burst at the turn of a minute gets through.

Counted in this process's memory or, for all processes together, in Redis. While Redis is away each process counts by
itself.
"""

import contextlib
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.redis_link import RedisAway, RedisLink

__all__ = ["RateLimiter"]

_PERIOD_SECONDS: Final = 60.0
_SWEEP_EVERY_CALLS: Final = 1_000
_PREFIX: Final = "gridfleet:limits"


class RateLimiter:
    """Remembers the calls of the last minute. A refused call is not counted: who waits as told gets through."""

    def __init__(self, *, enabled: bool, redis: RedisLink | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that only grow, for what is counted here."""
        self._enabled = enabled
        self._here = _Calls(clock)
        self._shared = _SharedCalls(redis) if redis is not None else None

    async def hit(self, name: str, key: str, per_minute: int) -> None:
        """Counts a call of `key` under the limit `name`. Raises TooManyRequests for one too many."""
        if not self._enabled:
            return
        wait = await self._wait_of(name, key, per_minute)
        if wait is not None:
            raise TooManyRequests(wait)

    async def _wait_of(self, name: str, key: str, per_minute: int) -> int | None:
        if self._shared is not None:
            with contextlib.suppress(RedisAway):
                return await self._shared.wait_of(name, key, per_minute)
        return self._here.wait_of(name, key, per_minute)


class _Calls:
    """Calls counted in this process. The library's own memory storage walks all keys in threads after every call, and goes by
    a clock that may be set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._until_sweep = _SWEEP_EVERY_CALLS

    def wait_of(self, name: str, key: str, per_minute: int) -> int | None:
        """Counts a call: None, or for one too many the seconds until the next is let through."""
        now = self._clock()
        self._sweep(now)
        calls = self._calls.setdefault((name, key), deque())
        while calls and calls[0] <= now - _PERIOD_SECONDS:
            calls.popleft()
        if len(calls) >= per_minute:
            return max(1, math.ceil(calls[0] + _PERIOD_SECONDS - now))
        calls.append(now)
        return None

    def _sweep(self, now: float) -> None:
        # Without it, everybody who ever called would be kept.
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._until_sweep = _SWEEP_EVERY_CALLS + len(self._calls)
            self._calls = {key: calls for key, calls in self._calls.items() if calls and calls[-1] > now - _PERIOD_SECONDS}


class _SharedCalls:
    """Calls of all processes, counted in Redis."""

    def __init__(self, link: RedisLink) -> None:
        from limits.aio.storage import RedisStorage
        from limits.aio.strategies import MovingWindowRateLimiter

        self._link = link
        storage = RedisStorage(
            "async+redis://",
            implementation="redispy",
            key_prefix=_PREFIX,
            connection_pool=link.client.connection_pool,  # type: ignore[arg-type]
        )
        self._window = MovingWindowRateLimiter(storage)

    async def wait_of(self, name: str, key: str, per_minute: int) -> int | None:
        """As `_Calls.wait_of`. Raises RedisAway."""
        from limits import RateLimitItemPerMinute

        item = RateLimitItemPerMinute(per_minute)
        # Keys hold addresses of people: what stands for them is enough to count by.
        place = name, hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        if await self._link.ask(lambda: self._window.hit(item, *place)):
            return None
        stats = await self._link.ask(lambda: self._window.get_window_stats(item, *place))
        # The library still refuses a call that comes exactly a minute after the oldest.
        return max(1, math.floor(stats.reset_time - time.time()) + 1)
