"""Rate limits: how many get through, and when the next may."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.rate_limit import RateLimiter


class Clock:
    """Seconds a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def passes(limiter: RateLimiter, key: str = "a", per_minute: int = 3) -> bool:
    try:
        await limiter.hit("test", key, per_minute)
    except TooManyRequests:
        return False
    return True


async def test_keys_and_limits_are_counted_apart() -> None:
    limiter = RateLimiter(enabled=True, clock=Clock())
    assert [await passes(limiter) for _ in range(4)] == [True, True, True, False]
    assert await passes(limiter, "b")
    await limiter.hit("another", "a", 1)


async def test_a_caller_that_waits_as_required_is_admitted() -> None:
    clock = Clock()
    limiter = RateLimiter(enabled=True, clock=clock)
    for second in (0, 10.5, 20):
        clock.now = second
        assert await passes(limiter)
    clock.now = 30
    with pytest.raises(TooManyRequests) as refusal:
        await limiter.hit("test", "a", 3)
    assert refusal.value.headers == {"retry-after": "30"}
    clock.now += refusal.value.retry_after
    assert await passes(limiter)
    assert not await passes(limiter)


@given(st.lists(st.floats(0, 40), max_size=60))
async def test_no_minute_ever_sees_more_than_the_limit(pauses: list[float]) -> None:
    clock = Clock()
    limiter = RateLimiter(enabled=True, clock=clock)
    passed = []
    for pause in pauses:
        clock.now += pause
        if await passes(limiter):
            passed.append(clock.now)
    assert all(later - earlier >= 60 for earlier, later in zip(passed, passed[3:], strict=False))


async def test_callers_who_left_are_forgotten() -> None:
    clock = Clock()
    limiter = RateLimiter(enabled=True, clock=clock)
    tracemalloc.start()
    try:
        for number in range(20_000):
            clock.now += 0.1
            assert await passes(limiter, str(number))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 5_000 * 1_000, "a caller takes about 900 bytes"


async def test_off_is_off() -> None:
    limiter = RateLimiter(enabled=False)
    assert all([await passes(limiter, per_minute=1) for _ in range(5)])
