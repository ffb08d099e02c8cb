"""Deletion of data that logins and sessions no longer need."""

from datetime import timedelta

from gridfleet.domains.identity import lockout, store
from gridfleet.domains.identity.accounts import store as accounts_store
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["sweep"]


async def sweep(db: Connection) -> None:
    """Delete sessions that ended over a day ago, expired tokens, and failed logins that no longer count."""
    now = utc_now()
    await store.delete_failures_before(db, now - max(lockout.WINDOW, lockout.LOCK))
    await store.delete_refresh_tokens_expired_before(db, now)
    await accounts_store.delete_expired_requests(db, now)
    await store.delete_sessions_ended_before(db, now - timedelta(days=1))
