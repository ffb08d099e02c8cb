"""One organisation's share of the database connections for requests.

A request holds a connection until its response is made. Some take minutes, such as a preview of an alert rule over a million
values: without shares, ten of them from one user would keep the requests of every other organisation waiting.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final
from uuid import UUID

from gridfleet.kernel.caller import Caller, KeyCaller, OrgScope, PlatformScope, UserCaller
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.turns import Turns

__all__ = ["ConnectionShares"]

WAIT_SECONDS: Final = 10.0
"""The same as the time that a request waits for a connection of the pool."""
_RETRY_AFTER_SECONDS: Final = 10


class ConnectionShares:
    """Transactions for requests, at most `most` at the same time for each organisation."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._turns = Turns(most)

    def of(self, org: OrgScope) -> "OrganizationShare":
        """Return the share of an organisation, for work in several transactions."""
        return OrganizationShare(self._database, partial(self._hold, org.organization_id))

    @asynccontextmanager
    async def transaction(
        self, org: OrgScope | PlatformScope | None, reader: Caller | None = None, client: UUID | None = None
    ) -> AsyncIterator[Connection]:
        """Yield a connection as `Database.transaction` does, when the organisation holds fewer than its share.

        Requests of SuperAdmins, logins, and changes without an organisation have no limit: they are short, or must succeed.

        Args:
            org: The organisation of the request.
            reader: The caller of a read without an organisation. The read counts for the organisation of the key, or for the
                user's default organisation, because its data may be large.
            client: The organisation of a client of the sandbox ESM.

        Raises:
            TooManyRequests: The organisation held its share for ten seconds.
        """
        holder = client or _holder(org, reader)
        if holder is None:
            async with self._database.transaction() as db:
                yield db
            return
        async with self._hold(holder), self._database.transaction() as db:
            yield db

    @asynccontextmanager
    async def _hold(self, holder: UUID) -> AsyncIterator[None]:
        turn = self._turns.of(holder)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn.acquire()
        except TimeoutError as error:
            raise TooManyRequests(_RETRY_AFTER_SECONDS) from error
        try:
            yield
        finally:
            turn.release()


class OrganizationShare:
    """The transactions of one organisation. Raises TooManyRequests as `ConnectionShares.transaction`."""

    def __init__(self, database: Database, hold: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        self._database = database
        self._hold = hold

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yield a connection as `Database.transaction` does."""
        async with self._hold(), self._database.transaction() as db:
            yield db

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[Connection]:
        """Yield a connection as `Database.autocommit` does."""
        async with self._hold(), self._database.autocommit() as db:
            yield db


def _holder(org: OrgScope | PlatformScope | None, reader: Caller | None) -> UUID | None:
    """Return whose share a request takes: that of an organisation, or of a user who has none. None: without a limit."""
    if isinstance(org, OrgScope):
        return org.organization_id
    if isinstance(reader, KeyCaller):
        return reader.organization_id
    if isinstance(reader, UserCaller) and not reader.is_super_admin:
        return reader.default_organization_id or reader.user_id
    return None
