"""The publisher of changes ends when it is cancelled, also in the moment in which the database ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg

from gridfleet.domains.plants.changes import ChangePublisher
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id


class EndingDatabase:
    """A database that ends while a statement is being cancelled: psycopg then raises its error in place of the cancellation."""

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Any]:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is lost") from None
        yield None


async def test_a_cancellation_that_the_end_of_the_database_replaces_ends_the_publisher() -> None:
    """Otherwise the task group of the ingest waits for it for ever, with messages that no other process receives."""
    publisher = ChangePublisher(cast("Database", EndingDatabase()))
    publisher.note({new_id(): {new_id()}})
    running = asyncio.create_task(publisher.run())
    await asyncio.sleep(0.3)
    running.cancel()
    await asyncio.wait({running}, timeout=5)
    assert running.cancelled()
