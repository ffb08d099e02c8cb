"""Issues the time-based commands of sites each second. A site that fails by itself does not delay the others."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.vcp.scheduler import Selection, issue_due_commands, list_sites
from gridfleet.domains.vcp.shards import SHARDS
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements, set_aside
from gridfleet.kernel.due_work import repeat_each_second
from gridfleet.kernel.isolation import isolate, may_be_poison, reason_of

__all__ = ["SiteScheduler", "run_schedules"]

log = structlog.get_logger(__name__)

_AGAIN: Final = timedelta(minutes=5)
_APART_SECONDS: Final = 2.0
"""Time of a statement for sites that are tried apart."""
_APART_SHARE_SECONDS: Final = 3.0
"""Time of a run in which sites are tried apart. The remaining ones are tried in the next run."""
_AFTER_FAILURE_SECONDS: Final = 5.0
"""Time of a statement for the other sites while some sites count as failed. Otherwise the usual limit applies."""
CATCH_UP_SECONDS: Final = 30.0
"""Time after a start or an outage in which commands that waited are read, so that no partner counts as silent."""
HANGING_SECONDS: Final = 5.0
"""Time without a turn of the event loop after which this process, or its machine, has been suspended."""
_ALL: Final = range(SHARDS)


async def run_schedules(database: Database, served_shards: Callable[[], Collection[int]] = lambda: _ALL) -> None:
    """Issue schedule steps, ends of overrides and fallbacks within a second of their time, until cancelled.

    Args:
        database: Has the sites.
        served_shards: Returns the shards whose partner commands this process has been reading for CATCH_UP_SECONDS. Fallbacks
            of other organisations do not start here: their commands may wait for a process that hangs.
    """
    scheduler = SiteScheduler(database, served_shards)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.keep_time())
        await repeat_each_second(lambda: scheduler.run_due(utc_now()))


class SiteScheduler:
    """The scheduler of one process.

    If the work of all sites fails, the sites of each organisation are tried apart. Those of an organisation whose work fails
    again are halved until the site that fails is alone. Organisations take turns, so that many sites of one that take too long
    do not delay the others. A site that failed is tried again alone, after five minutes.

    No fallback starts in the first half minute, nor within half a minute after an outage or after the process was suspended.
    """

    def __init__(self, database: Database, served_shards: Callable[[], Collection[int]] = lambda: _ALL) -> None:
        self._database = database
        self._served_shards = served_shards
        self._apart: dict[UUID, deque[Sequence[UUID]]] = {}
        """The sites to try apart, by organisation in the order of their turns. Each element is tried at once."""
        self._again: dict[UUID, tuple[UUID, datetime]] = {}
        """The organisation of each site that failed, and when it is tried again."""
        self._catching_up_until = time.monotonic() + CATCH_UP_SECONDS
        self._noted_at = time.time()

    async def keep_time(self) -> None:
        """Record each second that the event loop is running, until cancelled.

        Without this task, a run of `run_due` that is longer than `HANGING_SECONDS` would look like a suspended process.
        """
        while True:
            self._note_time()
            await asyncio.sleep(1)

    def _note_time(self) -> None:
        # The monotonic clock stands still while the machine is suspended.
        now = time.time()
        if now - self._noted_at > HANGING_SECONDS:
            log.warning("the process was suspended, or the clock was set; waiting before fallbacks start")
            self._catching_up_until = time.monotonic() + CATCH_UP_SECONDS
        self._noted_at = now

    async def run_due(self, now: datetime) -> int:
        """Process what is due. Raises errors of an outage.

        Returns:
            The number of processed items; 0 also if a site failed.
        """
        self._note_time()
        try:
            return await self._run_due(now)
        except Exception:
            self._catching_up_until = time.monotonic() + CATCH_UP_SECONDS
            raise

    async def _run_due(self, now: datetime) -> int:
        for plant_id, (organization_id, again) in list(self._again.items()):
            if again <= now:
                # Among others, a site that is still slow would delay all of them for the time of a statement.
                self._apart.setdefault(organization_id, deque()).append([plant_id])
                del self._again[plant_id]
        await self._try_apart(now)
        failed = [*self._again, *chain(*chain(*self._apart.values()))]
        try:
            with limit_statements(_AFTER_FAILURE_SECONDS if failed else None):
                async with self._database.transaction() as db:
                    return await self._issue_due(db, now, Selection(without=failed))
        except Exception as error:
            if not may_be_poison(error):
                raise
        async with self._database.transaction() as db:
            sites = await list_sites(db, failed)
        for organization_id, plant_ids in sites.items():
            self._apart.setdefault(organization_id, deque()).appendleft(plant_ids)
        await self._try_apart(now)
        return 0

    async def _try_apart(self, now: datetime) -> None:
        until = time.monotonic() + _APART_SHARE_SECONDS
        while self._apart and time.monotonic() < until:
            organization_id, waiting = next(iter(self._apart.items()))
            with limit_statements(_APART_SECONDS):
                halves = await self._halves_if_failed(now, organization_id, waiting[0])
            # After an outage they would still be the first.
            waiting.popleft()
            waiting.extend(halves)
            del self._apart[organization_id]
            if waiting:
                self._apart[organization_id] = waiting

    async def _halves_if_failed(
        self, now: datetime, organization_id: UUID, plant_ids: Sequence[UUID]
    ) -> Sequence[Sequence[UUID]]:
        """Process sites of one organisation. Returns their halves if this failed. A single site that fails is set aside."""
        if len(plant_ids) == 1:
            set_aside = partial(self._set_aside, now, organization_id)
            await isolate(Consumer.SITES, plant_ids, partial(self._issue_for, now), set_aside)
            return ()
        try:
            await self._issue_for(now, plant_ids)
        except Exception as error:
            if not may_be_poison(error):
                raise
            middle = len(plant_ids) // 2
            return plant_ids[:middle], plant_ids[middle:]
        return ()

    async def _issue_for(self, now: datetime, plant_ids: Sequence[UUID]) -> None:
        async with self._database.transaction() as db:
            await self._issue_due(db, now, Selection(only=plant_ids))

    async def _issue_due(self, db: Connection, now: datetime, selection: Selection) -> int:
        is_catching_up = time.monotonic() < self._catching_up_until
        return await issue_due_commands(db, now, selection, () if is_catching_up else self._served_shards())

    async def _set_aside(self, now: datetime, organization_id: UUID, plant_id: UUID, error: Exception) -> None:
        self._again[plant_id] = organization_id, now + _AGAIN
        async with self._database.transaction() as db:
            await set_aside.insert(db, Consumer.SITES, reason_of(error), {"plantId": str(plant_id)}, None)
