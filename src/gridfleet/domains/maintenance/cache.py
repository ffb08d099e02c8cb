"""The cache as SuperAdmins see it: statistics and flushing."""

from uuid import UUID

import msgspec

from gridfleet.domains.audit.models import Event
from gridfleet.domains.audit.recorder import record
from gridfleet.kernel.cache import Cache
from gridfleet.kernel.caller import Actor
from gridfleet.kernel.db import Connection

__all__ = ["CacheStatistics", "cache_statistics", "flush_cache"]

_UNIT = 1000


class CacheStatistics(msgspec.Struct, frozen=True, rename="camel"):
    """Reads since the cache was started, and its content. `hit_rate` is written as `87.5%`, `memory` as `1.4 MB`."""

    hit_rate: str
    hits: int
    misses: int
    total_keys: int
    memory: str


async def cache_statistics(cache: Cache) -> CacheStatistics:
    """Return the statistics of the cache, with Redis those of all processes together. Raises RedisUnavailable."""
    reads = await cache.reads()
    share = reads.hits / max(1, reads.hits + reads.misses)
    return CacheStatistics(f"{share:.1%}", reads.hits, reads.misses, reads.keys, _size(reads.size_bytes))


async def flush_cache(db: Connection, cache: Cache, actor: Actor, organization_id: UUID | None = None) -> None:
    """Remove all entries, or those of one organisation, whether it exists or not. Raises RedisUnavailable."""
    await record(db, Event.CACHE_FLUSHED, actor, organization_id=organization_id)
    await cache.flush(organization_id)


def _size(size_bytes: int) -> str:
    if size_bytes < _UNIT:
        return f"{size_bytes} B"
    size, units = size_bytes / _UNIT, ["GB", "MB", "kB"]
    while size >= _UNIT and len(units) > 1:
        size /= _UNIT
        units.pop()
    return f"{size:.1f} {units[-1]}"
