"""Rate limits: so many calls of a key within any minute, counted in this process's memory."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from gridfleet.kernel.errors import TooManyRequests

__all__ = ["RateLimiter"]

_PERIOD_SECONDS: Final = 60.0
_SWEEP_EVERY_CALLS: Final = 1_000


class RateLimiter:
    """Remembers the calls of the last minute, exactly: no burst at the turn of a minute gets through."""

    def __init__(self, *, enabled: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds that only grow."""
        self._enabled = enabled
        self._clock = clock
        self._calls: dict[tuple[str, str], deque[float]] = {}
        self._until_sweep = _SWEEP_EVERY_CALLS

    def hit(self, name: str, key: str, per_minute: int) -> None:
        """Counts a call of `key` under the limit `name`.

        Raises TooManyRequests for one too many, which is not counted: who waits as told gets through.
        """
        if not self._enabled:
            return
        now = self._clock()
        self._sweep(now)
        calls = self._calls.setdefault((name, key), deque())
        while calls and calls[0] <= now - _PERIOD_SECONDS:
            calls.popleft()
        if len(calls) >= per_minute:
            raise TooManyRequests(max(1, math.ceil(calls[0] + _PERIOD_SECONDS - now)))
        calls.append(now)

    def _sweep(self, now: float) -> None:
        # Without it, everybody who ever called would be kept.
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._until_sweep = _SWEEP_EVERY_CALLS + len(self._calls)
            self._calls = {key: calls for key, calls in self._calls.items() if calls and calls[-1] > now - _PERIOD_SECONDS}
