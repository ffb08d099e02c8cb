"""Responses that may be some seconds old, cached in this process's memory or, shared by all processes, in Redis.

    body = await cache.look_up(org, "/plants/…/energy/today", 10, make)

An entry belongs to an organisation. Its key is derived from the `OrgScope` of the authorisation, so an entry cannot be written
without a scope or read before the caller is authorised. Every entry expires. `outdate` invalidates all entries of an
organisation, including those that are being computed: entries carry the organisation's generation that was current when their
computation began.

Redis keys: `gridfleet:cache:{organisation}:…` entries, `gridfleet:cache-generation:{organisation}`, `gridfleet:cache-reads`
(hits and misses since the key exists; `flush` keeps it).
"""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast
from uuid import UUID

from gridfleet.kernel import metrics
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.redis_link import RedisLink, RedisUnavailable

__all__ = ["Cache", "CacheReads", "MemoryBackend", "RedisBackend"]

_MOST_ENTRIES: Final = 10_000
_LARGEST_SHARE: Final = 8
_ENTRY_OVERHEAD_BYTES: Final = 300
_LARGEST_IN_REDIS_BYTES: Final = 4 * 1024 * 1024
"""Many reads of larger ones would take Redis longer than it may take to respond, and would evict other entries."""
_SCAN_COUNT: Final = 1_000
_GENERATION_SECONDS: Final = 3_600
"""Longer than the lifetime of any entry: an older entry must not be found after its generation has expired."""

_PREFIX: Final = "gridfleet:cache"
_READS: Final = "gridfleet:cache-reads"
_FIND: Final = """
local generation = redis.call('GET', KEYS[1]) or '0'
local body = redis.call('GET', KEYS[2] .. ':' .. generation)
redis.call('HINCRBY', KEYS[3], body and 'hits' or 'misses', 1)
return {generation, body}
"""


@dataclass(frozen=True, slots=True)
class CacheReads:
    """Cache statistics: hits and misses since its start, current entries, and their size in bytes."""

    hits: int
    misses: int
    keys: int
    size_bytes: int


class _Backend(Protocol):
    """Storage of entries. `owner` is the organisation, `name` the entry's name within it."""

    name: str

    async def find(self, owner: UUID, name: str) -> tuple[bytes | None, str]: ...
    async def keep(self, owner: UUID, name: str, generation: str, body: bytes, seconds: float) -> None: ...
    async def outdate(self, owner: UUID) -> None: ...
    async def flush(self, owner: UUID | None) -> None: ...
    async def reads(self) -> CacheReads: ...
    async def ping(self) -> None: ...


class Cache:
    """One process's access to the cached responses."""

    def __init__(self, backend: _Backend) -> None:
        self._backend = backend
        self._reads = {result: metrics.CACHE_READS.labels(backend.name, result) for result in ("hit", "miss", "away")}

    async def look_up(self, org: OrgScope, name: str, seconds: float, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return the entry `name` of the organisation. If there is none, compute it with `make` and cache it for `seconds`.

        Callers who may see different plants have different entries. Errors of `make` are raised and never cached. While Redis
        is unavailable, every call computes the response.
        """
        owner, key = org.organization_id, _key(org, name)
        try:
            body, generation = await self._backend.find(owner, key)
        except RedisUnavailable:
            self._reads["away"].inc()
            return await make()
        self._reads["miss" if body is None else "hit"].inc()
        if body is None:
            body = await make()
            try:
                await self._backend.keep(owner, key, generation, body, seconds)
            except RedisUnavailable:
                return body
        return body

    async def outdate(self, organization_id: UUID) -> None:
        """Invalidate all entries of the organisation in every process.

        If Redis does not respond, entries are used until they expire.
        """
        try:
            await self._backend.outdate(organization_id)
        except RedisUnavailable:
            return

    async def flush(self, organization_id: UUID | None = None) -> None:
        """Delete all entries, or those of the organisation. Counters and rate limits are kept. Raises RedisUnavailable."""
        await self._backend.flush(organization_id)

    async def reads(self) -> CacheReads:
        """Return the cache statistics. Raises RedisUnavailable."""
        return await self._backend.reads()

    async def ping(self) -> None:
        """Check that the storage responds. Raises RedisUnavailable."""
        await self._backend.ping()


def _key(org: OrgScope, name: str) -> str:
    """Return a text of fixed length for `name` and the plants that the caller may see."""
    digest = hashlib.blake2b(name.encode(), digest_size=16)
    if org.plant_ids is not None:
        digest.update(b"\0only\0" + b"".join(sorted(plant_id.bytes for plant_id in org.plant_ids)))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class _Entry:
    generation: str
    body: bytes
    ends_at: float

    @property
    def size(self) -> int:
        return len(self.body) + _ENTRY_OVERHEAD_BYTES


class MemoryBackend:
    """Entries in this process's memory. When they exceed the limit, the least recently used are removed."""

    name = "memory"

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns monotonic seconds. An entry larger than an eighth of `max_bytes` is not cached."""
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[tuple[UUID, str], _Entry] = OrderedDict()
        self._generations: dict[UUID, int] = {}
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    async def find(self, owner: UUID, name: str) -> tuple[bytes | None, str]:
        """Return the current entry, or None if there is none, and the generation to `keep` an entry computed now."""
        generation = str(self._generations.get(owner, 0))
        entry = self._entries.get((owner, name))
        if entry is None or entry.generation != generation or entry.ends_at <= self._clock():
            self._misses += 1
            return None, generation
        self._hits += 1
        self._entries.move_to_end((owner, name))
        return entry.body, generation

    async def keep(self, owner: UUID, name: str, generation: str, body: bytes, seconds: float) -> None:
        """Store the entry, unless its generation is outdated or it is too large."""
        entry = _Entry(generation, body, self._clock() + seconds)
        if generation != str(self._generations.get(owner, 0)) or entry.size > self._max_bytes // _LARGEST_SHARE:
            return
        self._remove((owner, name))
        self._entries[owner, name] = entry
        self._bytes += entry.size
        while self._bytes > self._max_bytes or len(self._entries) > _MOST_ENTRIES:
            self._remove(next(iter(self._entries)))

    async def outdate(self, owner: UUID) -> None:
        """Invalidate the owner's entries, and those that are being computed, by a new generation number."""
        self._generations[owner] = self._generations.get(owner, 0) + 1

    async def flush(self, owner: UUID | None) -> None:
        """Delete the owner's entries, or all if `owner` is None."""
        for key in [key for key in self._entries if owner in (None, key[0])]:
            self._remove(key)
        for one in self._generations if owner is None else [owner]:
            await self.outdate(one)

    async def reads(self) -> CacheReads:
        """Return the cache statistics. Expired entries are deleted first."""
        now = self._clock()
        for key in [key for key, entry in self._entries.items() if entry.ends_at <= now]:
            self._remove(key)
        return CacheReads(self._hits, self._misses, len(self._entries), self._bytes)

    async def ping(self) -> None:
        """Do nothing: memory is always available."""

    def _remove(self, key: tuple[UUID, str]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


class RedisBackend:
    """Entries in Redis, for all processes. Every method raises RedisUnavailable."""

    name = "redis"

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._client = link.client
        self._find = link.client.register_script(_FIND)

    async def find(self, owner: UUID, name: str) -> tuple[bytes | None, str]:
        """Return the current entry, or None if there is none, and the generation to `keep` an entry computed now."""
        keys = [_generation_key(owner), f"{_PREFIX}:{owner}:{name}", _READS]

        async def read() -> Any:
            return await self._find(keys)

        generation, body = await self._link.run(read)
        return body, generation.decode()

    async def keep(self, owner: UUID, name: str, generation: str, body: bytes, seconds: float) -> None:
        """Store the entry, unless it is too large. An entry of an outdated generation is never found."""
        if len(body) > _LARGEST_IN_REDIS_BYTES:
            return
        key = f"{_PREFIX}:{owner}:{name}:{generation}"
        await self._link.run(lambda: self._client.set(key, body, px=max(1, int(seconds * 1000))))

    async def outdate(self, owner: UUID) -> None:
        """Invalidate the owner's entries, and those that are being computed, by a new generation number."""
        generation = secrets.token_hex(8)
        # Without it, the writer would read its earlier responses from a Redis that is slow, but not away.
        await self._link.run_at_once(lambda: self._client.set(_generation_key(owner), generation, ex=_GENERATION_SECONDS))

    async def flush(self, owner: UUID | None) -> None:
        """Delete the owner's entries, or all if `owner` is None."""
        if owner is not None:
            await self.outdate(owner)
        async for keys in self._scan(owner):
            await self._link.run(lambda keys=keys: self._client.unlink(*keys))  # type: ignore[misc]

    async def reads(self) -> CacheReads:
        """Return the cache statistics from Redis. The duration grows with the number of entries."""
        counted = await self._link.run(lambda: cast("Awaitable[dict[bytes, bytes]]", self._client.hgetall(_READS)))
        entries = size = 0
        async for keys in self._scan(None):
            pipeline = self._client.pipeline(transaction=False)
            for key in keys:
                pipeline.memory_usage(key)
            sizes = [each for each in await self._link.run(pipeline.execute) if each is not None]
            entries += len(sizes)
            size += sum(sizes)
        return CacheReads(int(counted.get(b"hits", 0)), int(counted.get(b"misses", 0)), entries, size)

    async def ping(self) -> None:
        """Check that Redis accepts writes."""
        await self._link.ping()

    async def _scan(self, owner: UUID | None) -> AsyncIterator[list[bytes]]:
        pattern = f"{_PREFIX}:{'*' if owner is None else owner}:*"
        cursor = 0
        while True:
            cursor, keys = await self._link.run(lambda at=cursor: self._client.scan(at, pattern, _SCAN_COUNT))  # type: ignore[misc]
            if keys:
                yield cast("list[bytes]", keys)
            if not cursor:
                return


def _generation_key(owner: UUID) -> str:
    return f"{_PREFIX}-generation:{owner}"
