"""A Redis server for this folder's tests."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gridfleet.kernel.cache import Cache, MemoryBackend, RedisBackend
from gridfleet.kernel.redis_link import RedisLink
from support.servers.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def running_redis() -> Iterator[RedisServer]:
    """One server for all."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-redis-"))
    try:
        with redis_server(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def link(running_redis: RedisServer) -> AsyncIterator[RedisLink]:
    """A link to it; it is empty. A busy machine may answer later than the half second after which Redis is away."""
    opened = RedisLink(running_redis.url, answer_seconds=20)
    await opened.client.flushall()
    yield opened
    await opened.close()


@pytest.fixture
def own_redis(home: Path) -> Iterator[RedisServer]:
    """A server of the test's own, which it may kill."""
    with redis_server(home) as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
def cache(request: pytest.FixtureRequest) -> Cache:
    """The cache over each of its two places."""
    if request.param == "memory":
        return Cache(MemoryBackend(1_000_000))
    return Cache(RedisBackend(request.getfixturevalue("link")))
