"""Changes of plants, their values, alerts and commands, for users who watch them.

Triggers publish changes of rows, in their transactions. Ingest publishes which plants have new values, after its commits: with
a notification in each transaction, the commits of its processes would wait for each other. Each API process receives both over
one connection.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import psycopg
import structlog

from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notifications import listen, notify_all

__all__ = ["Change", "ChangeKind", "ChangePublisher", "ChangeStream", "ChangeSubscriber", "parse_change"]

log = structlog.get_logger(__name__)

CHANNEL: Final = "live_changed"
_LISTENER: Final = "gridfleet-live"
_PUBLISH_SECONDS: Final = 0.1
"""How long an ingest process collects changes before it publishes them."""
_MOST_IDS: Final = 200
"""Ids in one notification, whose payload has at most 8,000 bytes."""
_RETRY_SECONDS: Final = 1.0


class ChangeKind(StrEnum):
    """What has changed: a plant's row, its newest values, an alert, a command."""

    PLANT = "plant"
    VALUES = "values"
    ALERT = "alert"
    COMMAND = "command"


class Change(NamedTuple):
    """Ids of plants, alerts or commands of an organisation that have changed."""

    kind: ChangeKind
    organization_id: UUID
    ids: list[UUID]


class ChangePublisher:
    """Publishes the plants with new values that an ingest process has committed, several times a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: dict[UUID, set[UUID]] = {}
        self._noted = asyncio.Event()

    def note(self, plants: Mapping[UUID, AbstractSet[UUID]]) -> None:
        """Note plants, by organisation, whose new values are committed."""
        for organization_id, plant_ids in plants.items():
            self._waiting.setdefault(organization_id, set()).update(plant_ids)
        if self._waiting:
            self._noted.set()

    async def run(self) -> None:
        """Publish without end. Changes wait while the database is unavailable, and after a cancellation for the next run."""
        while True:
            await self._noted.wait()
            await asyncio.sleep(_PUBLISH_SECONDS)
            waiting, self._waiting = self._waiting, {}
            self._noted.clear()
            try:
                async with self._database.autocommit() as db:
                    await notify_all(db, CHANNEL, list(_payloads(waiting)))
            except psycopg.Error as error:
                log.warning("cannot publish changes, retrying", error=type(error).__name__)
                self.note(waiting)
                await asyncio.sleep(_RETRY_SECONDS)
            except asyncio.CancelledError:
                self.note(waiting)
                raise


class ChangeSubscriber(Protocol):
    """Receives the changes of an organisation."""

    def changed(self, change: Change) -> None:
        """Take a change that is committed."""

    def missed(self) -> None:
        """Note that changes may have been missed until now."""


class ChangeStream:
    """The changes of the organisations with subscribers. Connects to the database when the first one subscribes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscribers: dict[UUID, list[ChangeSubscriber]] = {}
        self._connected = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def subscribe(self, organization_id: UUID, subscriber: ChangeSubscriber, seconds: float) -> bool:
        """Add a subscriber. Returns whether it receives all changes from now on: False if no connection is made in time."""
        self._subscribers.setdefault(organization_id, []).append(subscriber)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="live changes")
        try:
            async with asyncio.timeout(seconds):
                await self._connected.wait()
        except TimeoutError:
            return False
        return True

    def unsubscribe(self, organization_id: UUID, subscriber: ChangeSubscriber) -> None:
        """Remove a subscriber."""
        subscribers = self._subscribers[organization_id]
        subscribers.remove(subscriber)
        if not subscribers:
            del self._subscribers[organization_id]

    def close(self) -> None:
        """End the connection."""
        if self._task is not None:
            self._task.cancel()

    async def _listen(self) -> None:
        while True:
            try:
                await listen(self._database.url, (CHANNEL,), self._on_listening, self._on_notification, name=_LISTENER)
            except (psycopg.Error, OSError, TimeoutError) as error:
                log.warning("cannot receive changes, retrying", error=type(error).__name__)
            except Exception:
                log.exception("a change cannot be read, retrying")
            finally:
                self._connected.clear()
            await asyncio.sleep(_RETRY_SECONDS)

    def _on_listening(self) -> None:
        self._connected.set()
        for subscribers in self._subscribers.values():
            for subscriber in subscribers:
                subscriber.missed()

    def _on_notification(self, _: str, payload: str) -> None:
        # Most organisations have no subscribers: only the id is read of their changes.
        change = parse_change(payload, self._subscribers)
        if change is not None:
            for subscriber in self._subscribers[change.organization_id]:
                subscriber.changed(change)


def parse_change(payload: str, organizations: Mapping[UUID, object]) -> Change | None:
    """Return the change in a notification; None if it is of an organisation that is not among those."""
    kind, organization, ids = payload.split(":")
    organization_id = UUID(organization)
    if organization_id not in organizations:
        return None
    return Change(ChangeKind(kind), organization_id, [UUID(text) for text in ids.split(",")])


def _payloads(plants: Mapping[UUID, AbstractSet[UUID]]) -> Iterator[str]:
    for organization_id, plant_ids in plants.items():
        ids: Sequence[UUID] = list(plant_ids)
        for start in range(0, len(ids), _MOST_IDS):
            yield f"{ChangeKind.VALUES}:{organization_id}:{','.join(map(str, ids[start : start + _MOST_IDS]))}"
