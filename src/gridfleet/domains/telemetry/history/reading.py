"""How a request reads history: what may read, and on which database."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from gridfleet.kernel.db import Connection

__all__ = ["Reading", "Step"]

T = TypeVar("T")
Step = Callable[[Connection], Awaitable[T]]
"""One step of a request."""


class Reading(Protocol):
    """Runs the two steps of one read, each in a transaction or both in the same one."""

    async def __call__(self, check: Step[Any], read: Step[T]) -> T:
        """Return what `read` returns, after `check` has raised no error.

        Args:
            check: Raises an error if the caller may not read. Runs on the database that accepts writes.
            read: Reads values. May run on a replica that lacks the last seconds. If the replica fails, it runs a second time.
        """
