"""Passwords and plant passwords: argon2id, hashed on a few threads beside the event loop."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

__all__ = ["MAX_PASSWORD_CHARACTERS", "Passwords"]

MAX_PASSWORD_CHARACTERS: Final = 256
"""The longest password anybody may have (spec, Limits); longer input is never hashed."""

# OWASP's second recommendation for argon2id: 19 MiB, two passes, one lane.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

# Hash of a random password nobody knows: what is compared when there is no account, so that both take the same time.
_NOBODY: Final = _HASHER.hash(os.urandom(32))


class Passwords:
    """Hashes and checks passwords, `threads` at a time; each takes 19 MiB and some 20 ms of one core."""

    def __init__(self, threads: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(threads or min(4, os.cpu_count() or 1), thread_name_prefix="argon2")

    def close(self) -> None:
        """Lets running checks end and drops those that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        """The hash to store. Raises ValueError for a password over MAX_PASSWORD_CHARACTERS."""
        if len(password) > MAX_PASSWORD_CHARACTERS:
            raise ValueError(f"a password has at most {MAX_PASSWORD_CHARACTERS} characters")
        return await asyncio.get_running_loop().run_in_executor(self._pool, _HASHER.hash, password)

    async def matches(self, password: str, stored: str | None) -> bool:
        """Whether the password is the one behind the stored hash. Without one (no such account) and for input that is too
        long it takes as long and is False.
        """
        comparable = stored is not None and len(password) <= MAX_PASSWORD_CHARACTERS
        against = stored if stored is not None and comparable else _NOBODY
        given = password[:MAX_PASSWORD_CHARACTERS]
        verified = await asyncio.get_running_loop().run_in_executor(self._pool, _verify, against, given)
        return verified and comparable

    @staticmethod
    def is_outdated(stored: str) -> bool:
        """Whether the hash was made with other parameters than today's, so that it should be made anew."""
        return _HASHER.check_needs_rehash(stored)


def _verify(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
