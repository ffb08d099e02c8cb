"""Deletion of data that logins and sessions no longer need."""

from datetime import timedelta
from functools import partial
from typing import Final

from gridfleet.domains.identity import lockout, store
from gridfleet.domains.identity.accounts import store as accounts_store
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.batches import in_batches

__all__ = ["sweep"]

_ROWS: Final = 20_000
"""The most rows that one statement deletes: no index finds them, so that fewer would take longer."""


async def sweep(database: Database) -> None:
    """Delete sessions that ended over a day ago, expired tokens, and failed logins that no longer count.

    A user may have millions of tokens and sessions, because each refresh leaves a token for a month. One statement that deletes
    all of them would reach its time limit and be rolled back, each time.
    """
    now = utc_now()
    async with database.transaction() as db:
        await store.delete_failures_before(db, now - max(lockout.WINDOW, lockout.LOCK))
        await accounts_store.delete_expired_requests(db, now)
    await in_batches(database, partial(store.delete_refresh_tokens_expired_before, moment=now), _ROWS)
    ended = now - timedelta(days=1)
    await in_batches(database, partial(store.delete_tokens_of_sessions_ended_before, moment=ended), _ROWS)
    await in_batches(database, partial(store.delete_sessions_ended_before, moment=ended), _ROWS)
