"""The statements that this process sends to the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import AsyncCursor

__all__ = ["executed_statements"]


@contextmanager
def executed_statements() -> Iterator[list[str]]:
    """Record the statements that are executed in the block."""
    executed: list[str] = []
    execute = AsyncCursor.execute

    async def recorded(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        executed.append(str(query))
        return await execute(self, query, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AsyncCursor, "execute", recorded)
        yield executed
