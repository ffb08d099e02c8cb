"""Rate limits counted by several processes together."""

import time

import pytest

from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.rate_limit import RateLimiter
from gridfleet.kernel.redis_link import RedisLink


async def passes(limiter: RateLimiter, key: str = "a", per_minute: int = 5) -> bool:
    try:
        await limiter.hit("test", key, per_minute)
    except TooManyRequests:
        return False
    return True


async def test_two_processes_count_together(link: RedisLink) -> None:
    first, second = (RateLimiter(enabled=True, redis=link) for _ in range(2))
    passed = [await passes(limiter) for limiter in (first, second) * 4]
    assert passed == [True] * 5 + [False] * 3
    assert await passes(first, "b")
    await second.hit("another", "a", 1)


async def test_a_refused_call_is_not_counted_and_says_when_to_retry(link: RedisLink) -> None:
    limiter = RateLimiter(enabled=True, redis=link)
    began = time.time()
    assert [await passes(limiter) for _ in range(5)] == [True] * 5
    for _ in range(20):
        with pytest.raises(TooManyRequests) as refusal:
            await limiter.hit("test", "a", 5)
    (key,) = await link.client.keys("gridfleet:limits*")
    times = [float(each) for each in await link.client.lrange(key, 0, -1)]
    assert len(times) == 5
    # The oldest leaves the window a minute after it came: that long, and no longer, is to be waited.
    left = times[-1] + 60 - time.time()
    assert left <= refusal.value.retry_after <= 61 - (time.time() - began) + 1


async def test_calls_leave_the_window_one_by_one(link: RedisLink) -> None:
    limiter = RateLimiter(enabled=True, redis=link)
    assert [await passes(limiter) for _ in range(5)] == [True] * 5
    (key,) = await link.client.keys("gridfleet:limits*")
    # The two oldest came a minute ago.
    for index in (-1, -2):
        await link.client.lset(key, index, str(time.time() - 60.5))
    assert [await passes(limiter) for _ in range(4)] == [True, True, False, False]


async def test_no_address_of_a_person_is_in_a_key(link: RedisLink) -> None:
    await RateLimiter(enabled=True, redis=link).hit("login account", "ada@example.com", 5)
    assert not any(b"ada" in key for key in await link.client.keys("*"))
