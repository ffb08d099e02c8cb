"""The cache, in memory and in Redis: the same promises."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from gridfleet.kernel import metrics
from gridfleet.kernel.cache import Cache, CacheReads, MemoryBackend, RedisBackend
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.errors import NotFound
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.rate_limit import RateLimiter
from gridfleet.kernel.redis_link import RedisLink
from support.builders.counters import value_of
from support.servers.redis_server import RedisServer


def scope(plant_ids: frozenset[UUID] | None = None, organization_id: UUID | None = None) -> OrgScope:
    caller = UserCaller(new_id(), new_id(), "a@example.com", "A", False, None)
    return OrgScope(organization_id or new_id(), OrgRole.VIEWER, caller, plant_ids)


class Maker:
    """Makes another answer each time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def __call__(self) -> bytes:
        return b"%d" % next(self._numbers)


async def counts(cache: Cache) -> tuple[int, int, int]:
    reads: CacheReads = await cache.reads()
    return reads.hits, reads.misses, reads.keys


async def test_an_answer_is_made_once(cache: Cache) -> None:
    org, make = scope(), Maker()
    assert [await cache.look_up(org, "a", 60, make) for _ in range(3)] == [b"1"] * 3
    assert await counts(cache) == (2, 1, 1)
    assert (await cache.reads()).size_bytes > 0


async def test_an_answer_ends(cache: Cache) -> None:
    org, make = scope(), Maker()
    assert await cache.look_up(org, "a", 0.05, make) == b"1"
    await asyncio.sleep(0.1)
    assert await cache.look_up(org, "a", 60, make) == b"2"


async def test_organizations_names_and_visible_plants_are_kept_apart(cache: Cache) -> None:
    own, stranger, make = scope(), scope(), Maker()
    plants = frozenset({new_id(), new_id()})
    of_keys = [scope(wanted, own.organization_id) for wanted in (plants, frozenset(list(plants)[:1]), frozenset[UUID]())]
    seen = [await cache.look_up(one, "a", 60, make) for one in (own, stranger, *of_keys)]
    assert seen == [b"1", b"2", b"3", b"4", b"5"]
    assert await cache.look_up(own, "b", 60, make) == b"6"
    assert await cache.look_up(scope(plants, own.organization_id), "a", 60, make) == b"3"


async def test_a_write_outdates_what_the_organization_has(cache: Cache) -> None:
    own, stranger, make = scope(), scope(), Maker()
    for org in (own, stranger):
        await cache.look_up(org, "a", 60, make)
    await cache.outdate(own.organization_id)
    assert await cache.look_up(own, "a", 60, make) == b"3"
    assert await cache.look_up(stranger, "a", 60, make) == b"2"


@pytest.mark.parametrize("end", ["outdate", "flush"])
async def test_an_answer_that_is_being_made_meanwhile_is_not_kept(cache: Cache, end: str) -> None:
    org, make = scope(), Maker()

    async def overtaken() -> bytes:
        await getattr(cache, end)(org.organization_id)
        return b"stale"

    assert await cache.look_up(org, "a", 60, overtaken) == b"stale"
    assert await cache.look_up(org, "a", 60, make) == b"1"


async def test_a_refusal_is_not_kept(cache: Cache) -> None:
    async def refuse() -> bytes:
        raise NotFound

    org = scope()
    with pytest.raises(NotFound):
        await cache.look_up(org, "a", 60, refuse)
    assert await cache.look_up(org, "a", 60, Maker()) == b"1"


async def test_flushing_leaves_the_counters(cache: Cache) -> None:
    own, stranger, make = scope(), scope(), Maker()
    for org in (own, stranger, own):
        await cache.look_up(org, "a", 60, make)
    await cache.flush(own.organization_id)
    assert await counts(cache) == (1, 2, 1)
    assert await cache.look_up(stranger, "a", 60, make) == b"2"
    await cache.flush()
    assert await counts(cache) == (2, 2, 0)
    assert await cache.look_up(own, "a", 60, make) == b"3"


async def test_a_body_of_any_bytes_comes_back(cache: Cache) -> None:
    org, body = scope(), bytes(range(256)) * 300

    async def make() -> bytes:
        return body

    assert await cache.look_up(org, "a", 60, make) == body
    assert await cache.look_up(org, "a", 60, Maker()) == body


async def test_flushing_leaves_everything_else_in_redis(link: RedisLink) -> None:
    cache, limiter = Cache(RedisBackend(link)), RateLimiter(enabled=True, redis=link)
    await limiter.hit("login", "a", 3)
    await cache.look_up(scope(), "a", 60, Maker())
    await link.client.set("somebody:else", "1")
    limits = await link.client.keys("gridfleet:limits*")
    await cache.flush()
    assert len(limits) == 1
    assert await link.client.keys("gridfleet:limits*") == limits
    assert await link.client.get("somebody:else") == b"1"
    assert await link.client.keys("gridfleet:cache:*") == []


async def test_processes_share_entries_counters_and_writes(link: RedisLink, running_redis: RedisServer) -> None:
    there = RedisLink(running_redis.url, answer_seconds=20)
    try:
        first, second = Cache(RedisBackend(link)), Cache(RedisBackend(there))
        org, make = scope(), Maker()
        assert [await cache.look_up(org, "a", 60, make) for cache in (first, second)] == [b"1", b"1"]
        await first.outdate(org.organization_id)
        assert await second.look_up(org, "a", 60, make) == b"2"
        assert await counts(first) == await counts(second) == (1, 2, 2)
        await second.flush()
        assert await first.look_up(org, "a", 60, make) == b"3"
    finally:
        await there.close()


async def test_reads_are_counted_for_the_scraper(cache: Cache) -> None:
    def counted(result: str) -> float:
        found = [value_of(metrics.CACHE_READS.labels(backend, result)) for backend in ("memory", "redis")]
        return float(sum(found))

    before = counted("hit"), counted("miss")
    org = scope()
    for _ in range(3):
        await cache.look_up(org, "a", 60, Maker())
    assert (counted("hit"), counted("miss")) == (before[0] + 2, before[1] + 1)


async def test_every_entry_in_redis_has_its_end(link: RedisLink) -> None:
    cache, org = Cache(RedisBackend(link)), scope()
    await cache.look_up(org, "a", 60, Maker())
    await cache.outdate(org.organization_id)
    await link.ping()
    for key in await link.client.keys("*"):
        assert await link.client.ttl(key) > 0 or key == b"gridfleet:cache-reads", key


async def test_memory_is_bounded() -> None:
    cache = Cache(MemoryBackend(80_000))
    org = scope()

    def of_size(size: int) -> Callable[[], Awaitable[bytes]]:
        async def make() -> bytes:
            return bytes(size)

        return make

    await cache.look_up(org, "first", 60, of_size(5_000))
    for number in range(40):
        await cache.look_up(org, "first", 60, of_size(5_000))  # used all the time
        await cache.look_up(org, str(number), 60, of_size(5_000))
    reads = await cache.reads()
    assert reads.size_bytes <= 80_000
    assert reads.hits == 40
    await cache.look_up(org, "large", 60, of_size(40_000))
    assert (await cache.reads()).size_bytes <= 80_000
    assert await cache.look_up(org, "large", 60, Maker()) == b"1"


async def test_many_small_answers_are_bounded_too() -> None:
    cache, org, make = Cache(MemoryBackend(100_000_000)), scope(), Maker()
    for number in range(10_100):
        await cache.look_up(org, str(number), 60, make)
    assert (await cache.reads()).keys == 10_000
