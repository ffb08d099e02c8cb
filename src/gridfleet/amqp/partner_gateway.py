"""The gateway's connections to partners' vhosts, and the publishing of events to them.

Leases distribute organisations among processes: one process at a time serves an organisation's vhosts and keeps its events in
order. When a process dies, its unfinished commands are in the broker, unacknowledged, and its events in the database, not
deleted.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from gridfleet.amqp.event_upkeep import EventUpkeep
from gridfleet.amqp.partner_link import PartnerLink, PartnerWork
from gridfleet.domains.consumers import Consumer
from gridfleet.domains.partner_events.models import QueuedEvent, Room
from gridfleet.domains.partner_events.queue import (
    EVENTS_CHANNEL,
    delete_published,
    next_events,
)
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.signing import KEY_CHANGED
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.domains.vcp.events.recipients import ServedVhost, recipients, served_vhosts
from gridfleet.domains.vcp.shards import SHARDS, shard_of
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import fail_when_closed, open_channel
from gridfleet.kernel.cause import caused_by
from gridfleet.kernel.db import Connection, Database, set_aside
from gridfleet.kernel.db.leases import Leases, open_leases
from gridfleet.kernel.db.notifications import listen
from gridfleet.kernel.due_work import wait_at_most
from gridfleet.kernel.isolation import is_poison, note_set_aside, reason_of
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.tasks import Backoff, end_if_cancelled, supervise

__all__ = ["PartnerGateway"]

log = structlog.get_logger(__name__)

_LEASE_KIND: Final = 0x6F18
_POLL_SECONDS: Final = 1.0
_STOP_TRIES: Final = 2
STOP_SECONDS: Final = 5.0
_BATCH: Final = 2000
_WINDOW: Final = 4_000
"""Maximum number of events that are being published at the same time."""
_SHARE: Final = 1_000
"""The same for one organisation, counted once for each of its vhosts."""
_MIB: Final = 1024 * 1024
_WINDOW_BYTES: Final = 64 * _MIB
"""Bytes of these events, also counted for each vhost: the process keeps each event, its frames, and what is not sent yet."""
_SHARE_BYTES: Final = 16 * _MIB
"""The same for one organisation."""
_DELETE_SECONDS: Final = 0.5
"""How long confirmed events of a batch wait for the unconfirmed ones before they are deleted."""


class _Unpublished(NamedTuple):
    """Events that were not published, by id: those that the broker has not confirmed, and those that cannot be published."""

    unconfirmed: set[int]
    failed: dict[int, Exception]


class PartnerGateway:
    """One process's part of the partners' vhosts."""

    def __init__(self, settings: Settings, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._work = PartnerWork(settings, database, keyring)
        self._served_since: dict[int, float] = {}
        self._links: dict[UUID, tuple[PartnerLink, asyncio.Task[None]]] = {}
        self._sending: dict[asyncio.Task[None], list[QueuedEvent]] = {}
        self._upkeep = EventUpkeep(
            database, lambda: {link.served.key.organization_id for link, _ in self._links.values()}, self._claimed_events
        )

    def served_for(self, seconds: float) -> list[int]:
        """Return the shards that this process has served for at least `seconds` without an interruption."""
        return [shard for shard, since in self._served_since.items() if time.monotonic() - since >= seconds]

    async def run(self) -> None:
        """Serve until the database or the broker is lost, which raises."""
        self._links = {}
        self._keys: dict[UUID, AmqpKey] = {}
        self._keys_changed = asyncio.Event()
        self._queued = asyncio.Event()
        self._fetching = asyncio.Lock()
        self._sending = {}
        self._failed: set[int] = set()
        self._stopping: set[UUID] = set()  # organisations of which a link is ending
        self._is_full = False
        try:
            async with (
                # A process that cannot reach the broker holds no leases, so that others serve its organisations.
                open_channel(self._work.broker_url, PLANTS_VHOST) as channel,
                open_leases(self._database.url, _LEASE_KIND, SHARDS) as leases,
                asyncio.TaskGroup() as tasks,
            ):
                tasks.create_task(fail_when_closed(channel), name="broker")
                tasks.create_task(self._listen(), name="notifications")
                tasks.create_task(self._publish(), name="events")
                tasks.create_task(self._upkeep.run(), name="upkeep of events")
                try:
                    await self._hold_leases(leases)
                finally:
                    self._served_since.clear()
        finally:
            await self._stop(list(self._links))

    async def _listen(self) -> None:
        def wake(channel: str, payload: str) -> None:
            (self._keys_changed if channel == KEY_CHANGED else self._queued).set()

        def wake_all() -> None:
            self._keys_changed.set()
            self._queued.set()

        await listen(self._database.url, [KEY_CHANGED, EVENTS_CHANNEL], wake_all, wake)

    async def _hold_leases(self, leases: Leases) -> None:
        """Hold leases on this process's part of the organisations, and a link to each of their vhosts."""
        while True:
            self._keys_changed.clear()
            count = await leases.fair_count()
            await leases.take(count - len(leases.held))
            surplus = sorted(leases.held)[count:]
            served, now = leases.held - set(surplus), time.monotonic()
            self._served_since = {shard: self._served_since.get(shard, now) for shard in served}
            await self._serve(served)
            for shard in surplus:
                await leases.give_back(shard)
            await wait_at_most(self._keys_changed, _POLL_SECONDS)

    async def _serve(self, shards: set[int]) -> None:
        async with self._database.transaction() as db:
            served = {one.key.id: one for one in await served_vhosts(db, self._keys)}
        self._keys = {key_id: one.key for key_id, one in served.items()}
        wanted = {key_id: one for key_id, one in served.items() if shard_of(one.key.organization_id) in shards}
        await self._stop([key_id for key_id, (link, _) in self._links.items() if wanted.get(key_id) != link.served])
        for key_id in wanted.keys() - self._links.keys():
            self._start(wanted[key_id])
        metrics.PARTNER_VHOSTS.set(len(self._links))

    def _start(self, served: ServedVhost) -> None:
        link = PartnerLink(self._work, served)
        name = f"link of vhost {served.key.vhost}"
        task = asyncio.create_task(supervise(name, link.run, Backoff(first=0.2, longest=5.0)), name=name)
        self._links[served.key.id] = (link, task)

    async def _stop(self, key_ids: Sequence[UUID]) -> None:
        if not key_ids:
            return
        self._stopping = {self._links[key_id][0].served.key.organization_id for key_id in key_ids}
        async with self._fetching:  # a batch that is being read may have their events
            sending = [
                task
                for task, events in self._sending.items()
                if any(event.organization_id in self._stopping for event in events)
            ]
        # Events being published are deleted first, or another process would send them again.
        if sending:
            await asyncio.wait(sending, timeout=STOP_SECONDS)
        left = {self._links.pop(key_id)[1] for key_id in key_ids}
        for _ in range(_STOP_TRIES):
            for task in left:
                task.cancel()
            if left:
                left = (await asyncio.wait(left, timeout=STOP_SECONDS))[1]
        if left:
            log.warning("links to vhosts did not end in time; continuing")
        self._stopping = set()

    async def _publish(self) -> None:
        """Publish events within a window, so that a vhost that confirms slowly does not delay the others."""
        try:
            while True:
                self._queued.clear()
                async with self._fetching:
                    count = await self._send_batch()
                if self._claimed() >= _WINDOW:
                    self._is_full = True
                    await self._queued.wait()
                elif count < _BATCH:
                    await wait_at_most(self._queued, _POLL_SECONDS)
                for task in [task for task in self._sending if task.done()]:
                    self._failed.difference_update(event.id for event in self._sending.pop(task))
                    task.result()
        finally:
            for task in self._sending:
                task.cancel()

    def _claimed(self) -> int:
        return sum(len(events) for task, events in self._sending.items() if not task.done())

    def _claimed_events(self) -> list[QueuedEvent]:
        """Return the events that are being published, or wait for their next try."""
        return [event for events in self._sending.values() for event in events]

    async def _send_batch(self) -> int:
        """Publish the oldest events of each organisation whose vhosts are all connected. Returns the number of events."""
        links: dict[UUID, list[PartnerLink]] = defaultdict(list)
        for link, _ in self._links.values():
            links[link.served.key.organization_id].append(link)
        ready = {organization for organization, own in links.items() if all(link.connected for link in own)}
        ready -= self._retrying() | self._stopping
        if not ready:
            return 0
        sending, sizes = Counter[UUID](), Counter[UUID]()
        claimed = self._claimed_events()
        for event in claimed:
            sending[event.organization_id] += 1
            sizes[event.organization_id] += len(event.body) * max(1, len(links.get(event.organization_id, ())))
        rooms = {one: _room(len(links[one]), sending[one], sizes[one], self._upkeep.start(one)) for one in ready}
        size = _WINDOW_BYTES - sizes.total()
        # Before the query, during which there may be room again.
        self._is_full |= size <= 0 or any(min(room.events, room.size) <= 0 for room in rooms.values())
        async with self._database.transaction() as db:
            found = await next_events(db, rooms, [event.id for event in claimed], _BATCH, size)
        self._upkeep.note(found, claimed)
        retrying = self._retrying()  # again: earlier events may have failed during the query
        events = [event for event in found if event.organization_id not in retrying]
        if events:
            task = asyncio.create_task(self._send(events, {one: links[one] for one in ready}))
            self._sending[task] = events
            task.add_done_callback(lambda _: self._note_room())
            for event in events:
                room = rooms[event.organization_id] = rooms[event.organization_id].without(event)
                size -= len(event.body) * room.copies
                self._is_full |= min(room.events, room.size, size) <= 0
        return len(events)

    def _retrying(self) -> set[UUID]:
        """Return the organisations with events that wait for their next try. Newer ones would pass them."""
        return {event.organization_id for events in self._sending.values() for event in events if event.id in self._failed}

    def _note_room(self) -> None:
        """Query for events again if the window or a share was full: no notification comes for those that wait since then."""
        if self._is_full:
            self._is_full = False
            self._queued.set()

    async def _send(self, events: list[QueuedEvent], links: Mapping[UUID, Sequence[PartnerLink]]) -> None:
        """Publish events, and delete those that are confirmed. Finished events are removed from `events`, and free its window.

        Organisations whose vhosts confirm late do not delay the others: confirmed events are deleted every half second.
        """
        by_key = {link.served.key.id: link for own in links.values() for link in own}
        keys = {organization: [link.served.key for link in own] for organization, own in links.items()}
        by_link: dict[PartnerLink, list[QueuedEvent]] = defaultdict(list)
        for event in events:
            for key in recipients(event, keys[event.organization_id]):
                by_link[by_key[key.id]].append(event)
        publishing = {
            asyncio.create_task(self._send_to(link, own)): {event.id for event in own} for link, own in by_link.items()
        }
        rest = _Unpublished(set(), {})
        try:
            while True:
                if publishing:
                    await asyncio.wait(publishing, timeout=_DELETE_SECONDS)
                rest = _union([rest, *(task.result() for task in publishing if task.done())])
                publishing = {task: ids for task, ids in publishing.items() if not task.done()}
                pending = set[int]().union(*publishing.values())
                waiting = rest.unconfirmed | pending
                await self._end([event for event in events if event.id not in waiting], rest.failed)
                unfinished = {event.organization_id for event in events if event.id in pending}
                self._try_again([event for event in events if event.id in waiting and event.organization_id not in unfinished])
                events[:] = [event for event in events if event.id in waiting and event.organization_id in unfinished]
                self._note_room()
                if not publishing:
                    break
        finally:
            for task in publishing:
                task.cancel()

    def _try_again(self, events: list[QueuedEvent]) -> None:
        """Publish events again after a pause. Organisations whose vhosts confirm late do not delay it for the others."""
        if events:
            pause = asyncio.create_task(asyncio.sleep(_POLL_SECONDS))
            self._sending[pause] = events
            pause.add_done_callback(lambda _: self._queued.set())

    async def _end(self, done: Sequence[QueuedEvent], errors: Mapping[int, Exception]) -> None:
        """Delete events, set those aside that cannot be published, and count the others."""
        failed = [event for event in done if event.id in errors]
        if done:
            async with self._database.transaction() as db:
                await delete_published(db, [event.id for event in done])
                for event in failed:
                    await _set_aside(db, event, errors[event.id])
        for event in failed:
            with caused_by((event.cause or {}).get("request_id")):
                note_set_aside(Consumer.PARTNER_EVENTS, errors[event.id], kind=event.kind, event_id=str(event.event_id))
        for kind, count in Counter(event.kind for event in done if event.id not in errors).items():
            metrics.PARTNER_EVENTS.labels(kind).inc(count)

    async def _send_to(self, link: PartnerLink, events: Sequence[QueuedEvent]) -> _Unpublished:
        """Publish events to a vhost. Returns those that were not published."""
        try:
            confirmed = await link.publish(events)
        except Exception as error:
            end_if_cancelled()
            if not is_poison(error):
                log.warning("events not confirmed, retrying", events=len(events), error=type(error).__name__)
                return self._unconfirmed({event.id for event in events})
            if len(events) > 1:
                return _union([await self._send_to(link, [event]) for event in events])
            return _Unpublished(set(), {events[0].id: error})
        unconfirmed = {event.id for event, is_confirmed in zip(events, confirmed, strict=True) if not is_confirmed}
        if unconfirmed:
            log.warning("events not confirmed, retrying", events=len(unconfirmed))
        return self._unconfirmed(unconfirmed)

    def _unconfirmed(self, ids: set[int]) -> _Unpublished:
        self._failed |= ids
        return _Unpublished(ids, {})


def _room(links: int, events: int, size: int, start: int) -> Room:
    """Return the room of an organisation with so many vhosts, of which events and bytes are being published."""
    return Room(max(1, _SHARE // links) - events, _SHARE_BYTES - size, links, start)


def _union(parts: Sequence[_Unpublished]) -> _Unpublished:
    failed = {event_id: error for part in parts for event_id, error in part.failed.items()}
    return _Unpublished(set[int]().union(*(part.unconfirmed for part in parts)), failed)


async def _set_aside(db: Connection, event: QueuedEvent, error: Exception) -> None:
    content = {"kind": event.kind, "eventId": str(event.event_id), "organizationId": str(event.organization_id)}
    await set_aside.insert(db, Consumer.PARTNER_EVENTS, reason_of(error), content, event.cause)
