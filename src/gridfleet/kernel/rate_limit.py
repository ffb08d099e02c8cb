"""Rate limits: a maximum number of calls per key within any minute, and of events that are stored within a day.

The minute is a sliding window, so a burst at the turn of a minute is limited too. Calls are counted in this process's memory
or, for all processes together, in Redis. While Redis is unavailable, each process counts its own calls.
"""

import contextlib
import hashlib
import math
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.redis_link import RedisLink, RedisUnavailable

__all__ = ["RateLimiter", "refuse_within_a_day"]

_PERIOD_SECONDS: Final = 60.0
_SWEEP_EVERY_CALLS: Final = 1_000
_PREFIX: Final = "gridfleet:limits"


def refuse_within_a_day(earlier: datetime | None) -> None:
    """Refuse an event if a limit of events within a day is reached.

    Args:
        earlier: Time of the earlier event that must be at least a day ago; None if there are too few events to reach the limit.

    Raises:
        TooManyRequests: It is less than a day ago.
    """
    if earlier is not None and (wait := earlier + timedelta(days=1) - utc_now()) > timedelta(0):
        raise TooManyRequests(math.ceil(wait.total_seconds()))


class RateLimiter:
    """Counts the calls of the last minute.

    Refused calls are not counted, so a caller that waits for the given time is accepted.
    """

    def __init__(self, *, enabled: bool, redis: RedisLink | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds for the calls that are counted in this process."""
        self._enabled = enabled
        self._here = _Calls(clock)
        self._shared = _SharedCalls(redis) if redis is not None else None

    async def hit(self, name: str, key: str, per_minute: int) -> None:
        """Count a call of `key` under the limit `name`.

        Raises:
            TooManyRequests: The limit is reached.
        """
        if not self._enabled:
            return
        wait = await self._wait_of(name, key, per_minute)
        if wait is not None:
            raise TooManyRequests(wait)

    async def _wait_of(self, name: str, key: str, per_minute: int) -> int | None:
        if self._shared is not None:
            with contextlib.suppress(RedisUnavailable):
                return await self._shared.wait_of(name, key, per_minute)
        return self._here.wait_of(name, key, per_minute)


class _Calls:
    """Calls counted in this process.

    The library's own memory storage scans all keys in threads after every call and uses a clock that can be changed.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._until_sweep = _SWEEP_EVERY_CALLS

    def wait_of(self, name: str, key: str, per_minute: int) -> int | None:
        """Count a call. Returns None, or the seconds until the next accepted call if the limit is reached."""
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
        # Otherwise entries of inactive callers would be kept permanently.
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
        """Count a call like `_Calls.wait_of`. Raises RedisUnavailable."""
        from limits import RateLimitItemPerMinute

        item = RateLimitItemPerMinute(per_minute)
        # Keys contain addresses of users. A hash is sufficient for counting.
        window_key = name, hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        if await self._link.run(lambda: self._window.hit(item, *window_key)):
            return None
        try:
            stats = await self._link.run(lambda: self._window.get_window_stats(item, *window_key))
        except RedisUnavailable:
            return int(_PERIOD_SECONDS)  # the call was refused: counted again by the process, it could be accepted
        # The library refuses a call exactly one minute after the oldest.
        return max(1, math.floor(stats.reset_time - time.time()) + 1)
