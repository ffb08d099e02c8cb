"""Issues the time-based commands of sites each second. A site that fails by itself does not delay the others."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import psycopg
import structlog

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.vcp.scheduler import Selection, list_sites, steer
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements, set_aside
from gridfleet.kernel.isolation import isolate, may_be_poison, reason_of

__all__ = ["SiteScheduler", "run_schedules"]

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 1.0
_AGAIN: Final = timedelta(minutes=5)
_RETRY_SECONDS: Final = 2.0
"""Time of a statement for a site that failed before."""
_RETRY_SHARE_SECONDS: Final = 3.0
"""Time of a run in which sites that failed before are tried. The other ones have their turn in the next run."""
CATCH_UP_SECONDS: Final = 30.0
"""Time after a start or an outage in which commands that waited are read, so that no partner counts as silent."""


async def run_schedules(database: Database) -> None:
    """Issue schedule steps, ends of overrides and fallbacks within a second of their time, until cancelled."""
    steering = SiteScheduler(database)
    while True:
        try:
            done = await steering.run_due(utc_now())
        except psycopg.OperationalError as error:
            log.warning("database error, retrying", error=type(error).__name__)
            done = 0
        await asyncio.sleep(0 if done else _POLL_SECONDS)


class SiteScheduler:
    """The scheduler of one process. A site that failed is tried again alone, after five minutes.

    No fallback starts in the first half minute, nor within half a minute after an outage.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._again: dict[UUID, datetime] = {}
        self._catching_up_until = time.monotonic() + CATCH_UP_SECONDS

    async def run_due(self, now: datetime) -> int:
        """Process what is due. Raises errors of an outage.

        Returns:
            The number of processed items; 0 also if a site failed.
        """
        try:
            return await self._run_due(now)
        except Exception:
            self._catching_up_until = time.monotonic() + CATCH_UP_SECONDS
            raise

    async def _run_due(self, now: datetime) -> int:
        until = time.monotonic() + _RETRY_SHARE_SECONDS
        for plant_id in [plant_id for plant_id, again in self._again.items() if again <= now]:
            if time.monotonic() >= until:
                break
            # Among others, a site that is still slow would delay all of them for the time of a statement, and then be searched.
            with limit_statements(_RETRY_SECONDS):
                await self._isolate(now, [plant_id])
            if self._again[plant_id] <= now:
                del self._again[plant_id]
        failed = list(self._again)
        try:
            async with self._database.transaction() as db:
                return await self._steer(db, now, Selection(without=failed))
        except Exception as error:
            if not may_be_poison(error):
                raise
        async with self._database.transaction() as db:
            plant_ids = await list_sites(db, failed)
        await self._isolate(now, plant_ids)
        return 0

    async def _isolate(self, now: datetime, plant_ids: Sequence[UUID]) -> None:
        await isolate(Consumer.SITES, plant_ids, partial(self._steer_some, now), partial(self._set_aside, now))

    async def _steer_some(self, now: datetime, plant_ids: Sequence[UUID]) -> None:
        async with self._database.transaction() as db:
            await self._steer(db, now, Selection(only=plant_ids))

    async def _steer(self, db: Connection, now: datetime, selection: Selection) -> int:
        return await steer(db, now, selection, falls_back=time.monotonic() >= self._catching_up_until)

    async def _set_aside(self, now: datetime, plant_id: UUID, error: Exception) -> None:
        self._again[plant_id] = now + _AGAIN
        async with self._database.transaction() as db:
            await set_aside.insert(db, Consumer.SITES, reason_of(error), {"plantId": str(plant_id)}, None)
