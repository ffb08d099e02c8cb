"""People's passwords: argon2id, hashed on a few threads beside the event loop.

The threads are nice: a burst of logins takes the processor time that other requests leave. What waits for a thread is a
password of at most 256 characters; beyond MAX_WAITING of them a caller is told to come back, so neither memory nor the
wait grows with the burst.
"""

import asyncio
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
"""The longest password anybody may have (spec, Limits); longer input is never hashed."""

MAX_WAITING: Final = 200
"""Hashes in work and waiting at most: some five seconds of one core."""

_NICENESS: Final = 10
_RETRY_SECONDS: Final = 5

# OWASP's second recommendation for argon2id: 19 MiB, two passes, one lane.
_HASHER: Final = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

# Hash of a random password nobody knows: what is compared when there is no account, so that both take the same time.
_NOBODY: Final = _HASHER.hash(os.urandom(32))


class Passwords:
    """Hashes and checks passwords, `threads` at a time; each takes 19 MiB and some 20 ms of one core."""

    def __init__(self, threads: int | None = None) -> None:
        count = threads or min(4, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="argon2", initializer=_be_nice)
        self._places = threading.BoundedSemaphore(MAX_WAITING)

    def close(self) -> None:
        """Lets running checks end and drops those that wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def hash(self, password: str) -> str:
        """The hash to store. Raises ValueError for a password over MAX_PASSWORD_CHARACTERS, TooManyRequests in a burst."""
        if len(password) > MAX_PASSWORD_CHARACTERS:
            raise ValueError(f"a password has at most {MAX_PASSWORD_CHARACTERS} characters")
        return await self._run(_HASHER.hash, password)

    async def matches(self, password: str, stored: str | None) -> bool:
        """Whether the password is the one behind the stored hash. Without one (no such account) and for input that is too
        long it takes as long and is False. Raises TooManyRequests in a burst.
        """
        comparable = stored is not None and len(password) <= MAX_PASSWORD_CHARACTERS
        against = stored if stored is not None and comparable else _NOBODY
        given = password[:MAX_PASSWORD_CHARACTERS]
        verified = await self._run(_verify, against, given)
        return verified and comparable

    async def _run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if not self._places.acquire(blocking=False):
            raise TooManyRequests(_RETRY_SECONDS)
        future = self._pool.submit(work, *args, **kwargs)
        # By the thread and not by the caller, who may have gone away while the thread still works.
        future.add_done_callback(lambda _: self._places.release())
        return await asyncio.wrap_future(future)

    @staticmethod
    def is_outdated(stored: str) -> bool:
        """Whether the hash was made with other parameters than today's, so that it should be made anew."""
        return _HASHER.check_needs_rehash(stored)


def _be_nice() -> None:
    # Linux keeps niceness by thread, under the thread's id; elsewhere it would slow the whole process down.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _verify(stored: str, password: str) -> bool:
    try:
        return _HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
