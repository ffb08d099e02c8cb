"""Publish the newest values of plants to users who watch them.

One loop per process reads each watched plant once a second over one connection. All watchers of a plant share one object with
the changes, so that it is created and encoded once. A slow watcher gets the changes since its last read; nothing is queued for
it.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.domains.telemetry.latest.queries import latest_points
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.isolation import may_be_poison
from gridfleet.kernel.turns import FairThread

__all__ = ["LiveValues", "ValueChanges"]

log = structlog.get_logger(__name__)

_THREAD: Final = FairThread("live values")
"""Of its own: the plants of all organisations are read one after the other, and must wait for no request."""
EVERY_SECONDS: Final = 1.0
MOST_PLANTS: Final = 200
MOST_VALUES: Final = 200_000
"""Newest values of all plants. All may change every second, and each takes 5 µs then.

The event is encoded once and written to each watcher, so each watcher counts as `SHARE_OF_WATCHER` of the values.
"""
SHARE_OF_WATCHER: Final = 0.05
# These are the limits of a process. A stream is admitted while its organisation uses at most half of what the others leave of
# each, so that a few organisations cannot exclude the others.
KEPT_SECONDS: Final = 30.0
"""How long the values of a plant are kept after its last watcher has left, so that a client that reconnects can resume."""
_RETRY_AFTER_SECONDS: Final = 30


@dataclass(slots=True)
class ValueChanges:
    """Newest values that changed, possibly none, and the id of the state after them. `encoding` is for the use of watchers."""

    id: str
    points: list[TelemetryPoint]
    encoding: "asyncio.Task[bytes] | None" = None


@dataclass(slots=True)
class _Watched:
    """A plant with its newest values. Each read that finds changes makes a new version."""

    org: OrgScope
    plant_id: UUID
    name: str = field(default_factory=lambda: secrets.token_hex(4))
    """Distinguishes the versions of this object from those of another process, or of an earlier time."""
    points: dict[str, TelemetryPoint] = field(default_factory=dict)
    changed_in: dict[str, int] = field(default_factory=dict)
    """The version in which the value of each metric last changed."""
    version: int = 0
    made: dict[int, ValueChanges] = field(default_factory=dict)
    """The changes up to the current version, by the version after which they begin."""
    watchers: int = 0
    admitted: int = 0
    """Watchers that have completed their first read."""
    left_at: float = 0.0
    gone: bool = False

    @property
    def size(self) -> float:
        """The number that the plant adds to the values that the limits count."""
        return 0 if self.gone else len(self.points) * (1 + SHARE_OF_WATCHER * self.admitted)

    def update(self, points: Iterable[TelemetryPoint]) -> None:
        """Record what has changed. `points` are all newest values of the plant."""
        newest = {point.metric: point for point in points}
        if removed := self.points.keys() - newest.keys():  # their sub-device was deleted
            self.made.clear()
            for metric in removed:
                del self.points[metric], self.changed_in[metric]
        # Two reads may end in a different order from that in which they began.
        held = self.points
        changed = [
            point
            for metric, point in newest.items()
            if (old := held.get(metric)) is None or (old != point and old.time <= point.time)
        ]
        if changed:
            self.version += 1
            self.made.clear()
            self.points.update((point.metric, point) for point in changed)
            self.changed_in.update((point.metric, self.version) for point in changed)

    def changes(self, version: int) -> ValueChanges:
        """Return the values that changed after a version."""
        found = self.made.get(version)
        if found is None:
            points = [point for metric, point in self.points.items() if self.changed_in[metric] > version]
            found = self.made[version] = ValueChanges(f"{self.name}-{self.version}", points)
        return found

    def version_of(self, event_id: str | None) -> int:
        """Return the version that an id names, 0 for any other text."""
        name, _, version = (event_id or "").partition("-")
        known = name == self.name and version.isascii() and version.isdigit() and len(version) < 16
        return min(int(version), self.version) if known else 0


class LiveValues:
    """The watched plants of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plants: dict[tuple[UUID, UUID], _Watched] = {}
        self._turn = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        """The number of watchers."""
        return sum(watched.watchers for watched in self._plants.values())

    def close(self) -> None:
        """End the streams of all watchers."""
        for watched in self._plants.values():
            watched.gone = True
        self._next_turn()

    async def watch(
        self,
        org: OrgScope,
        plant_id: UUID,
        transaction: Callable[[], AbstractAsyncContextManager[Connection]],
        last_id: str | None = None,
    ) -> AsyncGenerator[ValueChanges, None]:
        """Yield all newest values, then about every second those that changed, possibly none. Ends when the plant is deleted.

        Args:
            org: The organisation.
            plant_id: The plant.
            transaction: Opens the transaction of the first read. Later reads are shared by all watchers.
            last_id: The id of the last changes that the client received. If it is known, the first changes begin after it.

        Raises:
            PlantNotFound: There is no such plant.
            TooManyRequests: The process or the organisation watches too many plants or values.
        """
        key = (org.organization_id, plant_id)
        self._remove_unwatched(time.monotonic() - KEPT_SECONDS)
        if (watched := self._plants.get(key)) is not None and watched.gone:
            del self._plants[key]  # its watchers are leaving
            watched = None
        if watched is None or not watched.watchers:
            active = [owner for (owner, _), one in self._plants.items() if one.watchers]
            own = active.count(org.organization_id)
            if 2 * own >= MOST_PLANTS - (len(active) - own):
                raise TooManyRequests(_RETRY_AFTER_SECONDS)
            if len(self._plants) >= MOST_PLANTS:
                self._remove_unwatched(time.monotonic())
            # Of the whole organisation: each watcher's own right is checked by its first read, and others may share this one.
            watched = self._plants.setdefault(key, _Watched(replace(org, plant_ids=None), plant_id))
        watched.watchers += 1
        try:
            async with transaction() as db:
                watched.update(await latest_points(db, org, plant_id))
            with self._admitting(watched):
                seen, version = watched.version_of(last_id), watched.version
                yield watched.changes(seen)
                if self._loop is None or self._loop.done():
                    self._loop = asyncio.create_task(self._read_all(), name="live values")
                while not watched.gone:
                    await self._turn.wait()
                    seen, version = version, watched.version
                    yield watched.changes(seen)
        finally:
            watched.watchers -= 1
            watched.left_at = time.monotonic()
            unused = watched.gone or not watched.points or self._has_too_many(org.organization_id)
            if unused and not watched.watchers and self._plants.get(key) is watched:
                del self._plants[key]

    @contextmanager
    def _admitting(self, watched: _Watched) -> Iterator[None]:
        watched.admitted += 1
        try:
            if self._exceeds_share(watched.org.organization_id):
                self._remove_unwatched(time.monotonic())
                if self._exceeds_share(watched.org.organization_id):
                    raise TooManyRequests(_RETRY_AFTER_SECONDS)
            yield
        finally:
            watched.admitted -= 1

    def _exceeds_share(self, organization_id: UUID) -> bool:
        """Return whether the organisation has more values than half of what the others leave."""
        own = self._values(organization_id)
        return 2 * own > MOST_VALUES - (self._values() - own)

    def _has_too_many(self, organization_id: UUID) -> bool:
        """Return whether there are too many values, or the organisation has more than half of all that there may be.

        What others watch does not count here, because their streams must not end the organisation's.
        """
        return self._values() > MOST_VALUES or self._values(organization_id) > MOST_VALUES // 2

    def _values(self, organization_id: UUID | None = None) -> float:
        return sum(one.size for (owner, _), one in self._plants.items() if organization_id in (None, owner))

    def _end_largest(self) -> None:
        """Stop watching the largest plants while there are too many values: plants may gain values while they are watched."""
        for watched in sorted(self._plants.values(), key=lambda one: one.size, reverse=True):
            if self._has_too_many(watched.org.organization_id):
                watched.gone = True

    def _remove_unwatched(self, left_before: float) -> None:
        """Remove the plants whose last watcher has left before a time of the monotonic clock."""
        for key, watched in tuple(self._plants.items()):
            if not watched.watchers and watched.left_at <= left_before:
                del self._plants[key]

    async def _read_all(self) -> None:
        """Read all watched plants once a second until there are none."""
        while self._plants:
            await asyncio.sleep(EVERY_SECONDS)
            self._remove_unwatched(time.monotonic() - KEPT_SECONDS)
            waiting = deque(one for one in self._plants.values() if one.watchers)
            while waiting:
                try:
                    async with self._database.transaction() as db:
                        while waiting:
                            await self._read(db, waiting[0])
                            waiting.popleft()
                except Exception as error:
                    if not may_be_poison(error):
                        log.warning("cannot read live values, retrying", error=type(error).__name__)
                        break
                    if waiting:  # as it is read first each time, no other plant would be read any more
                        failing = waiting.popleft()
                        failing.gone = True
                        log.error("live values of a plant cannot be read", plant_id=str(failing.plant_id), exc_info=error)
            self._next_turn()

    async def _read(self, db: Connection, watched: _Watched) -> None:
        try:
            watched.update(await latest_points(db, watched.org, watched.plant_id, thread=_THREAD))
            if self._has_too_many(watched.org.organization_id):
                self._remove_unwatched(time.monotonic())
                self._end_largest()
        except (PlantNotFound, TooManyRequests):
            watched.gone = True

    def _next_turn(self) -> None:
        self._turn.set()
        self._turn = asyncio.Event()
