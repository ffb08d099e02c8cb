"""Lockout: ten wrong passwords for one e-mail address within fifteen minutes lock it for fifteen minutes.

An address is stored as its hash, with or without an account, so that the lock does not show which accounts exist. Results
are counted one at a time under a row lock: parallel attempts get no more tries than sequential ones.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gridfleet.domains.identity import store
from gridfleet.domains.identity.accounts.tokens import digest
from gridfleet.kernel.db import Connection

__all__ = ["LIMIT", "LOCK", "WINDOW", "Verdict", "clear", "record_failure"]

LIMIT: Final = 10
WINDOW: Final = timedelta(minutes=15)
LOCK: Final = timedelta(minutes=15)


class Verdict(NamedTuple):
    """The result of a failure. Both members are False while the failures are fewer than `LIMIT`; never are both True."""

    was_locked: bool
    """The lock was set before, and the failure was not counted."""
    locks: bool
    """This failure set the lock."""


async def record_failure(db: Connection, what: str, now: datetime) -> Verdict:
    """Count a wrong password, unless the lock is set.

    Args:
        what: A normalised address, or another text that identifies the account.

    Returns:
        Whether the lock was already set, and whether this failure set it. Both can be False.
    """
    key = digest(what)
    failed_at, locked_until = await store.lock_failures(db, key)
    if locked_until is not None and locked_until > now:
        return Verdict(was_locked=True, locks=False)
    recent = [*(moment for moment in failed_at if moment > now - WINDOW), now]
    locks = len(recent) >= LIMIT
    await store.save_failures(db, key, store.LoginFailures(recent, now + LOCK if locks else None))
    return Verdict(was_locked=False, locks=locks)


async def clear(db: Connection, what: str, now: datetime) -> bool:
    """Reset the failure counter after a right password, unless the lock is set. Returns True if it is set."""
    key = digest(what)
    _, locked_until = await store.lock_failures(db, key)
    if locked_until is not None and locked_until > now:
        return True
    await store.delete_failures(db, key)
    return False
