"""Limits for the concurrent work of owners, such as organisations, so that none waits for all the work of another."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

__all__ = ["FairThread", "Turns"]

_Made = TypeVar("_Made")


class Turns:
    """A semaphore for each owner that has work: `most` pieces of it run at the same time, and others wait in order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of_owners = WeakValueDictionary[Hashable, asyncio.Semaphore]()

    def of(self, owner: Hashable) -> asyncio.Semaphore:
        """Return the semaphore of an owner, for one piece of its work."""
        semaphore = self._of_owners.get(owner)
        if semaphore is None:
            semaphore = self._of_owners[owner] = asyncio.Semaphore(self._most)
        return semaphore


class FairThread:
    """Threads, usually one, that do at most one piece of work of each owner at a time.

    Several threads would compete with the event loop and leave it a small share of the time, except for work that releases the
    interpreter's lock.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._thread = ThreadPoolExecutor(threads, name)
        self._turns = Turns(1)

    async def run(self, owner: Hashable, work: Callable[[], _Made]) -> _Made:
        """Run `work` in the thread when the owner's earlier work is done, and return its result."""
        turn = self._turns.of(owner)
        await turn.acquire()
        return await asyncio.shield(asyncio.create_task(self._run(turn, work)))

    async def _run(self, turn: asyncio.Semaphore, work: Callable[[], _Made]) -> _Made:
        """Run work that has its turn. It has a task of its own, because it goes on when its caller is cancelled."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            turn.release()
