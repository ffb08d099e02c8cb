"""Publish the newest values of plants to users who watch them.

One loop per process reads each watched plant once a second over one connection, however many users watch it. A slow watcher
gets the changes since its last read; nothing is queued for it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import psycopg
import psycopg_pool
import structlog

from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.telemetry.history.latest import latest_points
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests

__all__ = ["LiveValues"]

log = structlog.get_logger(__name__)

EVERY_SECONDS: Final = 1.0
MOST_PLANTS: Final = 200
MOST_WATCHERS: Final = 1_000
MOST_VALUES: Final = 200_000
"""Newest values of all watched plants, times their watchers. All may change every second, and each takes 5 µs then."""
# These are the limits of a process. One organisation may use half of each, so that it cannot exclude the others.
_RETRY_AFTER_SECONDS: Final = 30


@dataclass(slots=True)
class _Watched:
    org: OrgScope
    plant_id: UUID
    points: dict[str, TelemetryPoint] = field(default_factory=dict)
    watchers: int = 0
    values: int = 0
    gone: bool = False


class LiveValues:
    """The watches of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plants: dict[tuple[UUID, UUID], _Watched] = {}
        self._turn = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self.watchers = 0
        """The number of watches."""

    def close(self) -> None:
        """End all current watches."""
        for watched in self._plants.values():
            watched.gone = True
        self._next_turn()

    async def watch(
        self, org: OrgScope, plant_id: UUID, transaction: Callable[[], AbstractAsyncContextManager[Connection]]
    ) -> AsyncGenerator[list[TelemetryPoint], None]:
        """Yield all newest values, then about every second those that changed, possibly none. Ends when the plant is deleted.

        `transaction` opens the transaction of the first read. Later reads are those of all watches.

        Raises:
            PlantNotFound: There is no such plant.
            TooManyRequests: The process or the organisation has too many watches, or watches too many values.
        """
        key = (org.organization_id, plant_id)
        own = [watched.watchers for (owner, _), watched in self._plants.items() if owner == org.organization_id]
        is_full = self.watchers >= MOST_WATCHERS or sum(own) >= MOST_WATCHERS // 2
        no_plant = len(self._plants) >= MOST_PLANTS or len(own) >= MOST_PLANTS // 2
        if is_full or (key not in self._plants and no_plant):
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        self.watchers += 1
        watched = self._plants.setdefault(key, _Watched(org, plant_id))
        watched.watchers += 1
        try:
            async with transaction() as db:
                seen = {point.metric: point for point in await latest_points(db, org, plant_id)}
            watched.values = len(seen)
            if self._values() > MOST_VALUES or self._values(org.organization_id) > MOST_VALUES // 2:
                raise TooManyRequests(_RETRY_AFTER_SECONDS)
            yield list(seen.values())
            if self._loop is None or self._loop.done():
                self._loop = asyncio.create_task(self._read_all(), name="live values")
            while not watched.gone:
                await self._turn.wait()
                changed = [point for metric, point in watched.points.items() if seen.get(metric) != point]
                seen.update((point.metric, point) for point in changed)
                yield changed
        finally:
            self.watchers -= 1
            watched.watchers -= 1
            if not watched.watchers:
                del self._plants[key]

    def _values(self, organization_id: UUID | None = None) -> int:
        plants = self._plants.items()
        return sum(one.values * one.watchers for (owner, _), one in plants if organization_id in (None, owner))

    async def _read_all(self) -> None:
        """Read all watched plants once a second until there are no watches."""
        while self._plants:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                async with self._database.transaction() as db:
                    for watched in list(self._plants.values()):
                        try:
                            points = await latest_points(db, watched.org, watched.plant_id)
                            watched.points = {point.metric: point for point in points}
                            watched.values = len(points)
                            if watched.values > MOST_VALUES // 2:  # it has grown
                                watched.gone = True
                        except (PlantNotFound, TooManyRequests):
                            watched.gone = True
            except (psycopg.Error, psycopg_pool.PoolTimeout) as error:
                log.warning("cannot read live values, retrying", error=type(error).__name__)
            self._next_turn()

    def _next_turn(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()
