"""Cache of the rights of connected partners, for the time that the database is unavailable.

The broker repeats its requests once a minute and closes the connection when it gets no answer. The last answer of the database
therefore holds until the database can be queried again. This grants nothing new: a login queries the database or fails, and
a key whose access ends loses its vhost, even while its rights are cached.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Final
from uuid import UUID

import psycopg
import structlog

from gridfleet.domains.partners.amqp_access.decisions import Rights, find_rights
from gridfleet.kernel.db import Database

__all__ = ["RightsCache"]

_PATIENCE_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 3_600.0
"""Seconds for which a cached answer may be used."""
_LOG_AGAIN_SECONDS: Final = 60.0
_MOST: Final = 10_000
"""Maximum number of cached keys."""

log = structlog.get_logger(__name__)


class RightsCache:
    """The cached rights of one process."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, tuple[Rights, float]] = OrderedDict()
        self._queries: set[asyncio.Task[Rights | None]] = set()
        self._waiting: dict[UUID, asyncio.Task[Rights | None]] = {}
        """The query of each key that waits for a database connection."""
        self._logged_at = -_LOG_AGAIN_SECONDS

    async def of(self, database: Database, key_id: UUID) -> Rights | None:
        """Return the key's rights, or None for a key that has none.

        If the database is unavailable or does not respond within two seconds, rights read at most an hour ago are returned.

        Requests for a key share the query that waits for a database connection: a partner can cause thousands of requests at
        once, and the logins of all plants use the same connections.

        Raises:
            psycopg.OperationalError: The database failed, or the pool has no connection, and no rights are cached.
        """
        query = self._waiting.get(key_id)
        if query is None:
            query = self._waiting[key_id] = asyncio.create_task(self._query(database, key_id), name="partner rights")
            self._queries.add(query)
            query.add_done_callback(self._query_ended)
        # The query is not cancelled: cancelling it at a server that hangs takes ten seconds.
        await asyncio.wait({query}, timeout=_PATIENCE_SECONDS)
        answered = query.done() and not isinstance(query.exception(), psycopg.OperationalError)
        rights = None if answered else self._cached(key_id)
        if rights is None:
            return await asyncio.shield(query)
        self._log_outage()
        return rights

    def _log_outage(self) -> None:
        if time.monotonic() - self._logged_at >= _LOG_AGAIN_SECONDS:
            self._logged_at = time.monotonic()
            log.warning("database unavailable: partners' cached rights apply")

    async def _query(self, database: Database, key_id: UUID) -> Rights | None:
        try:
            async with database.transaction() as db:
                # A request that comes from here on must see what is committed before it, so it needs a query of its own.
                del self._waiting[key_id]
                rights = await find_rights(db, key_id)
        except BaseException:
            if self._waiting.get(key_id) is asyncio.current_task():
                del self._waiting[key_id]
            raise
        self._known.pop(key_id, None)
        if rights is not None:
            self._known[key_id] = rights, time.monotonic()
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return rights

    def _cached(self, key_id: UUID) -> Rights | None:
        rights, since = self._known.get(key_id, (None, 0.0))
        return rights if time.monotonic() - since < _LONGEST_SECONDS else None

    def _query_ended(self, query: asyncio.Task[Rights | None]) -> None:
        self._queries.discard(query)
        if not query.cancelled():
            query.exception()  # mark the exception as retrieved; callers that await the task get it too
