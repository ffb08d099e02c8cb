"""The statements that a test's own tasks send to the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from psycopg import AsyncCursor

__all__ = ["executed_statements"]

_in_block: ContextVar[bool] = ContextVar("in_block", default=False)


@contextmanager
def executed_statements() -> Iterator[list[str]]:
    """Record the statements that are executed in the block, by its task and the tasks that it starts.

    A connection pool opens connections in tasks of its own. Their first statements do not count: a slow machine may need one
    connection more than a fast one.
    """
    executed: list[str] = []
    execute = AsyncCursor.execute

    async def recorded(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        if _in_block.get():
            executed.append(str(query))
        return await execute(self, query, *arguments, **more)

    token = _in_block.set(True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncCursor, "execute", recorded)
            yield executed
    finally:
        _in_block.reset(token)
