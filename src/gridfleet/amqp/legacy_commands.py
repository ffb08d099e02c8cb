"""Forwarding of legacy keys' commands from their shared queue to the queue of the organisation that sent them."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import aiormq
import structlog
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import DeliveryError

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.partners.legacy.topology import (
    LEGACY_COMMANDS,
    LEGACY_INTAKE,
    ensure_legacy_vhost,
    replace_legacy_intake,
)
from gridfleet.domains.partners.topology import MAX_CONNECTIONS
from gridfleet.domains.partners.vhosts import legacy_slugs
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.decoding import UNDECODABLE
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.leases import Leases, open_leases
from gridfleet.kernel.isolation import is_poison, note_set_aside
from gridfleet.kernel.settings import Settings
from gridfleet.protocol.partner_routes import LEGACY_VHOST, SIGNATURE_HEADER, TIMESTAMP_HEADER

__all__ = ["DroppedCommands", "forward_legacy_commands"]

log = structlog.get_logger(__name__)

_LEASE_KIND: Final = 0x6F1A
_POLL_SECONDS: Final = 2.0
_REPORT_SECONDS: Final = 60.0
_PREFETCH: Final = 200
_CONFIRM_SECONDS: Final = 30.0
_PERSISTENT: Final = 2
_COPIES: Final = {"CC": "cc", "BCC": "bcc"}
_READ: Final = (SIGNATURE_HEADER, TIMESTAMP_HEADER, "traceparent", UNDECODABLE)
"""The headers of commands that are read. Others are not forwarded: some can be decoded but not encoded again."""


async def forward_legacy_commands(settings: Settings, database: Database) -> None:
    """Forward commands in one of the gateway processes while there are legacy keys. Raises when broker or database are lost.

    Commands that were not acknowledged by then are forwarded again. Duplicates are recognised by their `messageId`.
    """
    broker_url = settings.secret("broker_url").get_secret_value()
    management_url = settings.secret("broker_management_url").get_secret_value()
    kind = settings.broker_queue_type
    async with open_leases(database.url, _LEASE_KIND, 1) as leases, open_management(management_url) as management:
        while True:
            await leases.take(1 - len(leases.held))
            if leases.held and await _slugs(database):
                await ensure_legacy_vhost(management, broker_url, queue_type=kind)
                await replace_legacy_intake(management, broker_url, queue_type=kind)
                async with open_channel(broker_url, LEGACY_VHOST) as channel, asyncio.TaskGroup() as tasks:
                    tasks.create_task(_bound_connections(management, database))
                    await _forward(channel, leases)
            await asyncio.sleep(_POLL_SECONDS)


async def _slugs(database: Database) -> set[str]:
    async with database.transaction() as db:
        return await legacy_slugs(db)


async def _bound_connections(management: Management, database: Database) -> None:
    """Close an organisation's newest connections to the shared vhost above a maximum.

    The maximum is that of a key with a vhost of its own. The broker's limit applies to the whole shared vhost, so one
    organisation could use all of it.
    """
    known: dict[str, list[str]] = {}
    while True:
        for slug in await _slugs(database):
            found = await management.connections_in(LEGACY_VHOST, slug)
            # The management API does not report their age. Those that the previous iteration found are older.
            old = [name for name in known.get(slug, []) if name in found]
            known[slug] = [*old, *(name for name in found if name not in old)]
            surplus = known[slug][MAX_CONNECTIONS:]
            for name in surplus:
                await management.close_connection(name)
            if surplus:
                log.warning("connections of a legacy key closed: it has too many", slug=slug, closed=len(surplus))
        await asyncio.sleep(_POLL_SECONDS)


class DroppedCommands:
    """Counts dropped commands and logs them, at most once a minute for each organisation."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unreported = Counter[str]()
        self._reported: dict[str, float] = {}

    def note(self, slug: str) -> None:
        """Count a dropped command of the organisation."""
        metrics.PARTNER_COMMANDS.labels("DROPPED").inc()
        self._unreported[slug] += 1

    def report(self) -> None:
        """Log how many commands were dropped since the last log line about their organisation."""
        now = self._clock()
        for slug, commands in list(self._unreported.items()):
            if now - self._reported.get(slug, -math.inf) >= _REPORT_SECONDS:
                log.warning("commands of a legacy key dropped: the organisation's queue is full", slug=slug, commands=commands)
                self._reported[slug] = now
                del self._unreported[slug]


async def _forward(channel: AbstractChannel, leases: Leases) -> None:
    waiting = asyncio.Queue[DeliveredMessage]()
    await channel.basic_qos(prefetch_count=_PREFETCH)
    await channel.basic_consume(LEGACY_INTAKE, waiting.put, exclusive=True)
    publishing = await channel.connection.channel()
    dropped = DroppedCommands()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_watch(publishing, leases, dropped))
        while True:
            batch = [await waiting.get()]
            while not waiting.empty():
                batch.append(waiting.get_nowait())
            # Published in order, confirmed together, so that a flood of one organisation does not delay the others for long.
            await asyncio.gather(*(_pass_on(publishing, delivered, dropped) for delivered in batch))
            await channel.basic_ack(batch[-1].delivery_tag or 0, multiple=True)


async def _pass_on(channel: AbstractChannel, delivered: DeliveredMessage, dropped: DroppedCommands) -> None:
    sent = delivered.header.properties
    # The broker would deliver copies to CC and BCC with the service's rights. With these header names the command is refused.
    given = sent.headers or {}
    headers: dict[str, Any] = {_COPIES[name.upper()]: "" for name in given if name.upper() in _COPIES}
    headers |= {name: given[name] for name in _READ if isinstance(given.get(name), str | bytes | bytearray | int)}
    properties = aiormq.spec.Basic.Properties(
        headers=headers,
        delivery_mode=_PERSISTENT,
        correlation_id=sent.correlation_id,
        expiration=sent.expiration,
        message_id=sent.message_id,
    )
    routing_key = delivered.routing_key or ""
    try:
        await channel.basic_publish(
            delivered.body, exchange=LEGACY_COMMANDS, routing_key=routing_key, properties=properties, timeout=_CONFIRM_SECONDS
        )
    except DeliveryError:
        # The organisation's own queue is full. Waiting for it would delay the commands of all others.
        dropped.note(routing_key.partition(".")[0])
    except Exception as error:
        if not is_poison(error):
            raise
        note_set_aside(Consumer.PARTNER_COMMANDS, error, slug=routing_key.partition(".")[0])


async def _watch(channel: AbstractChannel, leases: Leases, dropped: DroppedCommands) -> None:
    """Raise when the lease is lost, a channel closes, or the shared queue was deleted and has lost its consumer."""
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        dropped.report()
        await leases.fair_count()
        if not (await channel.queue_declare(LEGACY_INTAKE, passive=True)).consumer_count:
            raise ConnectionError("the queue lost its consumer")
