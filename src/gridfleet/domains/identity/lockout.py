"""Lockout: ten failed logins of one e-mail address within fifteen minutes lock it for fifteen minutes.

An address is held by its hash, known or not, so that nobody can tell accounts from inventions. Results are judged one at
a time under a row lock: guesses sent in parallel get no more tries than guesses sent in turn.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Final

from gridfleet.domains.identity import store
from gridfleet.kernel.db import Connection

__all__ = ["LIMIT", "LOCK", "WINDOW", "clear", "email_hash", "record_failure"]

LIMIT: Final = 10
WINDOW: Final = timedelta(minutes=15)
LOCK: Final = timedelta(minutes=15)


def email_hash(email: str) -> bytes:
    """What stands for a normalised address."""
    return hashlib.sha256(email.encode()).digest()


async def record_failure(db: Connection, email: str, now: datetime) -> bool:
    """Counts a failed login, unless the address is locked already; whether it was."""
    key = email_hash(email)
    failed_at, locked_until = await store.lock_failures(db, key)
    if locked_until is not None and locked_until > now:
        return True
    recent = [*(moment for moment in failed_at if moment > now - WINDOW), now]
    await store.save_failures(db, key, store.LoginFailures(recent, now + LOCK if len(recent) >= LIMIT else None))
    return False


async def clear(db: Connection, email: str, now: datetime) -> bool:
    """Forgives an address whose owner brought the right password, unless it is locked; whether it is."""
    key = email_hash(email)
    _, locked_until = await store.lock_failures(db, key)
    if locked_until is not None and locked_until > now:
        return True
    await store.delete_failures(db, key)
    return False
