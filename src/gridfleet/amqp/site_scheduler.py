"""Issues the time-based commands of sites each second. A site that fails by itself does not delay the others."""

import asyncio
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
from gridfleet.kernel.db import Database, set_aside
from gridfleet.kernel.isolation import is_poison, isolate, reason_of

__all__ = ["SiteScheduler", "run_schedules"]

log = structlog.get_logger(__name__)

_POLL_SECONDS: Final = 1.0
_AGAIN: Final = timedelta(minutes=5)


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
    """The scheduler of one process. A site that failed is left out for five minutes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._again: dict[UUID, datetime] = {}

    async def run_due(self, now: datetime) -> int:
        """Process what is due. Raises errors of an outage.

        Returns:
            The number of processed items; 0 also if a site failed.
        """
        failed = [plant_id for plant_id, again in self._again.items() if again > now]
        try:
            async with self._database.transaction() as db:
                return await steer(db, now, Selection(without=failed))
        except Exception as error:
            if not is_poison(error):
                raise
        async with self._database.transaction() as db:
            plant_ids = await list_sites(db, failed)
        await isolate(Consumer.SITES, plant_ids, partial(self._steer, now), partial(self._set_aside, now))
        return 0

    async def _steer(self, now: datetime, plant_ids: Sequence[UUID]) -> None:
        async with self._database.transaction() as db:
            await steer(db, now, Selection(only=plant_ids))

    async def _set_aside(self, now: datetime, plant_id: UUID, error: Exception) -> None:
        self._again[plant_id] = now + _AGAIN
        async with self._database.transaction() as db:
            await set_aside.insert(db, Consumer.SITES, reason_of(error), {"plantId": str(plant_id)}, None)
