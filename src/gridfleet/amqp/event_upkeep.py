"""Upkeep of the queue of partner events: where reads begin, and which events are dropped."""

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import Final
from uuid import UUID

import structlog
from psycopg.errors import QueryCanceled

from gridfleet.domains.partner_events.models import QueuedEvent
from gridfleet.domains.partner_events.queue import drop_stale, drop_surplus, drop_unserved, first_ids, may_have_surplus
from gridfleet.domains.partner_events.queue_starts import QueueStarts
from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.vcp.events.recipients import served_vhosts
from gridfleet.kernel import metrics
from gridfleet.kernel.db import Database

__all__ = ["EventUpkeep"]

log = structlog.get_logger(__name__)

_LATE_SECONDS: Final = 600.0
"""How long a transaction may take from queueing its events until its commit, so that they are found after later ones."""
UPKEEP_SECONDS: Final = 60.0
"""How often events are dropped that have waited for too long, or of which too many wait, and late ones are looked for."""


class EventUpkeep:
    """The upkeep of the events of the organisations that a gateway serves, and of those without a vhost.

    It outlives lost connections: without the starts, reads would begin at 0, which is slow during a dump.
    """

    def __init__(
        self, database: Database, organizations: Callable[[], Collection[UUID]], claimed: Callable[[], Collection[QueuedEvent]]
    ) -> None:
        """Initialize the upkeep.

        Args:
            database: The database.
            organizations: Returns the organisations that the gateway serves.
            claimed: Returns the events that are being published.
        """
        self._database = database
        self._organizations = organizations
        self._claimed = claimed
        self._starts = QueueStarts[UUID]()
        self._late_starts = QueueStarts[UUID](_LATE_SECONDS)
        self._stale_starts = QueueStarts[None](_LATE_SECONDS)
        self._highest = 0
        self._keys: dict[UUID, AmqpKey] = {}

    def start(self, organization_id: UUID) -> int:
        """Return the id at which to begin a read of an organisation's events."""
        return self._starts.start(organization_id)

    def note(self, found: Iterable[QueuedEvent], claimed: Iterable[QueuedEvent]) -> None:
        """Take what a read found, each organisation's events in their order, beside those that were being published."""
        firsts: dict[UUID, int] = {}
        for event in found:
            firsts.setdefault(event.organization_id, event.id)
            self._highest = max(self._highest, event.id)
        for event in claimed:
            if event.organization_id in firsts:
                firsts[event.organization_id] = min(event.id, firsts[event.organization_id])
        self._starts.note(firsts)

    async def run(self) -> None:
        """Maintain the queue once a minute."""
        while True:
            for maintain in (self._look_for_late, self._drop_stale, self._drop_unserved, self._drop_surplus):
                try:
                    await maintain()
                except QueryCanceled:  # a dump keeps very many published events
                    log.warning("the queue of events takes too long to read", task=maintain.__name__.strip("_"))
            await asyncio.sleep(UPKEEP_SECONDS)

    async def _look_for_late(self) -> None:
        """Find events whose transactions took so long to commit that later events were published before them."""
        starts, highest = {one: self._late_starts.start(one) for one in self._organizations()}, self._highest
        async with self._database.transaction() as db:
            found = await first_ids(db, starts)
        # Those without events wait for none that is older than the newest of another organisation.
        firsts = dict.fromkeys(starts, highest) | found
        self._starts.note(firsts)
        self._late_starts.note(firsts)

    async def _drop_stale(self) -> None:
        while True:
            async with self._database.transaction() as db:
                dropped = await drop_stale(db, self._stale_starts)
            if not dropped:
                break
            metrics.PARTNER_EVENTS_DROPPED.labels("stale").inc(dropped)
            log.warning("events dropped after a day in the outbox", events=dropped)

    async def _drop_unserved(self) -> None:
        while True:
            async with self._database.transaction() as db:
                self._keys = {one.key.id: one.key for one in await served_vhosts(db, self._keys)}
                dropped = await drop_unserved(db, {key.organization_id for key in self._keys.values()})
            if not dropped:
                break
            metrics.PARTNER_EVENTS_DROPPED.labels("unserved").inc(dropped)
            log.info("events dropped, as their organisations have no vhost", events=dropped)

    async def _drop_surplus(self) -> None:
        """Drop the oldest telemetry events of organisations that have too many, usually because a vhost is not connected."""
        async with self._database.transaction() as db:
            if not await may_have_surplus(db):
                return
        for organization_id in self._organizations():
            dropped = await drop_surplus(
                self._database, organization_id, self.start(organization_id), lambda: [event.id for event in self._claimed()]
            )
            if dropped:
                metrics.PARTNER_EVENTS_DROPPED.labels("surplus").inc(dropped)
                log.warning("too many events wait, oldest dropped", organization_id=str(organization_id), events=dropped)
