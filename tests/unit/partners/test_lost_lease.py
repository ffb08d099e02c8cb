"""The process that removes forbidden queues ends when its lease is lost, so that no two of them work."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from gridfleet.amqp import partner_queues
from gridfleet.kernel.db.leases import Leases


class LostConnection:
    """A connection that is lost once the lease is taken."""

    def __init__(self) -> None:
        self.is_lost = False

    async def execute(self, statement: str, *_: Any) -> Any:
        if self.is_lost:
            raise psycopg.OperationalError("the connection is lost")
        self.is_lost = "pg_try_advisory_lock" in statement

        async def fetchone() -> tuple[int, int]:
            return 1, 0

        return SimpleNamespace(fetchone=fetchone)


async def test_a_lost_lease_ends_the_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def queues_with_arguments() -> list[Any]:
        return []

    @asynccontextmanager
    async def open_leases(_: str, kind: int, pieces: int) -> AsyncIterator[Leases]:
        connection: Any = LostConnection()
        yield Leases(connection, kind, pieces)

    @asynccontextmanager
    async def open_management(_: str) -> AsyncIterator[Any]:
        yield SimpleNamespace(queues_with_arguments=queues_with_arguments)

    @asynccontextmanager
    async def transaction() -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(partner_queues, "open_leases", open_leases)
    monkeypatch.setattr(partner_queues, "open_management", open_management)
    settings: Any = SimpleNamespace(secret=lambda _: SecretStr("http://127.0.0.1:1"))
    database: Any = SimpleNamespace(url="", transaction=transaction)
    async with asyncio.timeout(10):
        with pytest.raises(psycopg.OperationalError):
            await partner_queues.remove_forbidden_queues(settings, database)
