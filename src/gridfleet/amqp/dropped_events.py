"""Count of the events that a partner did not fetch in time.

A queue that is full, or whose messages are a day old, dead-letters the oldest to the vhost's queue of dropped events. They
are counted there and acknowledged. The count is a metric, an audit event per minute and kind, and a header of later events.
"""

import asyncio
from collections import Counter
from typing import Any, Final

from aiormq.abc import AbstractConnection, DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity

from gridfleet.domains.partners.models import AmqpKey
from gridfleet.domains.partners.own_queues import record_dropped_events
from gridfleet.domains.partners.topology import dropped_queue
from gridfleet.domains.partners.vhosts import queue_update_unless_waiting
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import fail_when_closed
from gridfleet.kernel.db import Database
from gridfleet.protocol.partner_routes import EventKind, event_queue

__all__ = ["DroppedEvents"]

_PREFETCH: Final = 1_000
REPORT_SECONDS: Final = 60.0
"""How often the organisation gets an audit event about dropped events."""
_REASONS: Final = frozenset({"maxlen", "expired"})
"""The broker's reasons for a full queue and an old message. Events that a program rejects were fetched and do not count."""


for _reason in (*sorted(_REASONS), "stale", "surplus", "unserved"):
    # Start at 0, so that `increase` counts the first one and the alert fires.
    metrics.PARTNER_EVENTS_DROPPED.labels(_reason)


class DroppedEvents:
    """The dropped events of one key, counted since its link was started."""

    def __init__(self, key: AmqpKey, database: Database) -> None:
        self._key = key
        self._database = database
        self._kinds = {event_queue(key.slug, kind): kind for kind in EventKind}
        self._unreported = Counter[tuple[EventKind, str]]()
        self._totals = Counter[EventKind]()

    def total(self, kind: EventKind) -> int:
        """Return the number of dropped events of a kind."""
        return self._totals[kind]

    async def count(self, connection: AbstractConnection) -> None:
        """Consume the queue of dropped events until it is lost.

        Raises:
            ConnectionError: The channel or the queue is lost. An effect recreates a missing queue.
        """
        channel = await connection.channel()
        await channel.basic_qos(prefetch_count=_PREFETCH)
        dropped = asyncio.Queue[DeliveredMessage]()
        try:
            await channel.basic_consume(dropped_queue(self._key.slug), dropped.put)
        except ChannelNotFoundEntity:
            async with self._database.transaction() as db:
                await queue_update_unless_waiting(db, self._key)
            raise ConnectionError("the queue of dropped events does not exist") from None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_reporting())
            tasks.create_task(fail_when_closed(channel))
            while True:
                newest = await dropped.get()
                self._note(newest)
                while not dropped.empty():
                    newest = dropped.get_nowait()
                    self._note(newest)
                await channel.basic_ack(newest.delivery_tag or 0, multiple=True)

    def _note(self, delivered: DeliveredMessage) -> None:
        deaths: Any = (delivered.header.properties.headers or {}).get("x-death")
        queue, reason = (_text(deaths[0].get("queue")), _text(deaths[0].get("reason"))) if deaths else ("", "")
        kind = self._kinds.get(queue)
        if kind is None or reason not in _REASONS:
            return
        self._totals[kind] += 1
        self._unreported[kind, reason] += 1
        metrics.PARTNER_EVENTS_DROPPED.labels(reason).inc()

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            reported = dict(self._unreported)
            if reported:
                async with self._database.transaction() as db:
                    for (kind, reason), events in reported.items():
                        await record_dropped_events(db, self._key, kind, reason, events)
                self._unreported -= Counter(reported)


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes | bytearray) else str(value)
