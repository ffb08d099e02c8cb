"""Users' passwords: argon2id, hashed in a few threads beside the event loop.

The threads have a lower priority (niceness), so a burst of logins uses only the processor time that other requests leave. A
queued password has at most 256 characters. When MAX_WAITING are queued, further callers are refused and asked to retry later,
so neither memory nor waiting time grows with the burst.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gridfleet.kernel.errors import TooManyRequests

__all__ = ["MAX_PASSWORD_CHARACTERS", "MAX_WAITING", "Passwords"]

P = ParamSpec("P")
T = TypeVar("T")

MAX_PASSWORD_CHARACTERS: Final = 256
"""Maximum length of a password (spec, Limits). Longer input is never hashed."""

MAX_WAITING: Final = 200
"""Maximum number of running and queued hashes: about five seconds of one core."""

_NICENESS: Final = 10
_RETRY_SECONDS: Final = 5

# OWASP's second recommendation for argon2id: 19 MiB, two iterations, one lane.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

# Hash of an unknown random password. It is compared if there is no account, so that both cases take the same time.
_NO_ACCOUNT: Final = _HASHER.hash(os.urandom(32))


class Passwords:
    """Hashes and verifies passwords, `threads` at a time. Each takes 19 MiB and about 20 ms of one core."""

    def __init__(self, threads: int | None = None) -> None:
        count = threads or min(4, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="argon2", initializer=_be_nice)
        self._room = threading.BoundedSemaphore(MAX_WAITING)

    def close(self) -> None:
        """Let running hashes finish and discard queued ones."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        """Return the hash to store.

        Raises:
            ValueError: The password is longer than MAX_PASSWORD_CHARACTERS.
            TooManyRequests: Too many hashes are queued.
        """
        if len(password) > MAX_PASSWORD_CHARACTERS:
            raise ValueError(f"a password has at most {MAX_PASSWORD_CHARACTERS} characters")
        return await self._run(_HASHER.hash, password)

    async def matches(self, password: str, stored: str | None) -> bool:
        """Return whether the password matches the stored hash.

        Without a hash (no such account) and for input that is too long, it takes the same time and returns False.

        Raises:
            TooManyRequests: Too many hashes are queued.
        """
        comparable = stored is not None and len(password) <= MAX_PASSWORD_CHARACTERS
        against = stored if stored is not None and comparable else _NO_ACCOUNT
        given = password[:MAX_PASSWORD_CHARACTERS]
        verified = await self._run(_verify, against, given)
        return verified and comparable

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._room.acquire(blocking=False):
            raise TooManyRequests(_RETRY_SECONDS)
        try:
            future = self._pool.submit(work, *args, **kwargs)
        except RuntimeError:  # the pool is closed
            self._room.release()
            raise
        # Released by the thread and not by the caller, which may be cancelled while the thread still works.
        future.add_done_callback(lambda _: self._room.release())
        return await asyncio.wrap_future(future)

    @staticmethod
    def is_outdated(stored: str) -> bool:
        """Return whether the hash was created with other parameters than the current ones, and should be replaced."""
        return _HASHER.check_needs_rehash(stored)


def _be_nice() -> None:
    # Linux applies niceness to a thread by its id. On other systems it would slow down the whole process.
    # A process may have a lower priority already; without privileges it cannot raise it.
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, thread) < _NICENESS:
            os.setpriority(os.PRIO_PROCESS, thread, _NICENESS)


def _verify(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
