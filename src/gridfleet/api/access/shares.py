"""One organisation's share of the database connections for requests.

A request holds a connection until its response is made. Some take minutes, such as a preview of an alert rule over a million
values: without shares, ten of them from one user would keep the requests of every other organisation waiting.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from gridfleet.kernel.caller import OrgScope, PlatformScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests

__all__ = ["ConnectionShares"]

WAIT_SECONDS: Final = 10.0
"""As long as a request waits for a connection of the pool."""
_RETRY_AFTER_SECONDS: Final = 10


class ConnectionShares:
    """Transactions for requests, at most `most` at the same time for each organisation."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._most = most
        self._free: WeakValueDictionary[UUID, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def transaction(self, org: OrgScope | PlatformScope | None) -> AsyncIterator[Connection]:
        """Yield a connection as `Database.transaction`, when the organisation holds fewer than its share.

        Requests without an organisation have no limit: they are those of SuperAdmins, logins, and other short ones.

        Raises:
            TooManyRequests: The organisation held its share for ten seconds.
        """
        if not isinstance(org, OrgScope):
            async with self._database.transaction() as db:
                yield db
            return
        free = self._free.get(org.organization_id)
        if free is None:
            free = self._free[org.organization_id] = asyncio.Semaphore(self._most)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await free.acquire()
        except TimeoutError as error:
            raise TooManyRequests(_RETRY_AFTER_SECONDS) from error
        try:
            async with self._database.transaction() as db:
                yield db
        finally:
            free.release()
