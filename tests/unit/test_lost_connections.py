"""A task that uses the database ends when it is cancelled, also in the moment in which the database ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
import pytest

from gridfleet.domains.plants.changes import ChangePublisher
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id


class EndingPool:
    """A pool that loses its connections while a statement is being cancelled: psycopg's error replaces the cancellation."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is lost") from None
        yield None


@pytest.fixture
def database() -> Database:
    return Database(cast("Any", EndingPool()), "")


async def is_cancelled(run: Callable[[], Awaitable[object]]) -> bool:
    """Cancel a task that waits for the database, and return whether it has ended for that reason."""

    async def running() -> None:
        await run()

    task = asyncio.create_task(running())
    await asyncio.sleep(0.3)
    task.cancel()
    ended, _ = await asyncio.wait({task}, timeout=5)
    if not ended:
        task.cancel()  # it is not cancelled twice in a service
    return bool(ended) and task.cancelled()


@pytest.mark.parametrize("kind", ["transaction", "autocommit"])
async def test_a_lost_connection_does_not_replace_a_cancellation(database: Database, kind: str) -> None:
    async def use() -> None:
        async with getattr(database, kind)():
            raise AssertionError("there is no connection")

    assert await is_cancelled(use)


async def test_without_a_cancellation_the_error_is_that_of_the_connection() -> None:
    class LostPool:
        @asynccontextmanager
        async def connection(self) -> AsyncIterator[Any]:
            raise psycopg.OperationalError("the connection is lost")
            yield

    database = Database(cast("Any", LostPool()), "")
    with pytest.raises(psycopg.OperationalError):
        async with database.transaction():
            raise AssertionError("there is no connection")


async def test_the_publisher_of_changes_ends(database: Database) -> None:
    """Otherwise the task group of the ingest waits for it for ever, with messages that no other process receives."""
    publisher = ChangePublisher(database)
    publisher.note({new_id(): {new_id()}})
    assert await is_cancelled(publisher.run)
