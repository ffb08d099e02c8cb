"""`/api/v1/admin`: administration of the service, for SuperAdmins."""

from uuid import UUID

from gridfleet.api.http import SA, Call, endpoint, super_admin
from gridfleet.domains.maintenance import cache
from gridfleet.domains.maintenance.cache import CacheStatistics
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection


@endpoint("DELETE", "/api/v1/admin/cache/flush", caller=super_admin(), codes=SA, success=204)
async def flush_cache(call: Call, caller: UserCaller, db: Connection) -> None:
    """Delete every cached response. Counters and rate limits stay."""
    await cache.flush_cache(db, call.state.cache, caller.as_actor)


@endpoint("DELETE", "/api/v1/admin/cache/flush/{orgId}", caller=super_admin(), codes=("INVALID_UUID", *SA), success=204)
async def flush_organization_cache(call: Call, caller: UserCaller, db: Connection, org_id: UUID) -> None:
    """Delete the cached responses of one organisation, which need not exist."""
    await cache.flush_cache(db, call.state.cache, caller.as_actor, org_id)


@endpoint("GET", "/api/v1/admin/cache/stats", caller=super_admin(), codes=SA)
async def get_cache_statistics(call: Call) -> CacheStatistics:
    """Return hits and misses since the cache was started, and its current size."""
    return await cache.cache_statistics(call.state.cache)
