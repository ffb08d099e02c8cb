"""Upkeep of the vhost that legacy keys share: it bounds connections, and removes the queue that organisations once shared."""

import asyncio
import time
from typing import Any, Final

import aiormq
import httpx
import structlog
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import DeliveryError
from pamqp.commands import Basic

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.partners.legacy.topology import LEGACY_COMMANDS, LEGACY_INTAKE, ensure_legacy_vhost
from gridfleet.domains.partners.topology import MAX_CONNECTIONS
from gridfleet.domains.partners.vhosts import legacy_slugs
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.decoding import UNDECODABLE
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.kernel.broker.queue_types import ROUTED_SECONDS
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.leases import open_leases
from gridfleet.kernel.isolation import is_poison, note_set_aside
from gridfleet.kernel.settings import Settings
from gridfleet.protocol.partner_routes import EXCHANGE, LEGACY_VHOST, SIGNATURE_HEADER, TIMESTAMP_HEADER

__all__ = ["empty_intake", "keep_legacy_vhost"]

log = structlog.get_logger(__name__)

_LEASE_KIND: Final = 0x6F1A
_POLL_SECONDS: Final = 2.0
_INTAKE_SECONDS: Final = 10.0
"""Pause between checks for the shared queue, which a gateway of an older release may declare again during an upgrade."""

_BATCH: Final = 200
_CONFIRM_SECONDS: Final = 30.0
_PERSISTENT: Final = 2
_COPIES: Final = {"CC": "cc", "BCC": "bcc"}
_READ: Final = (SIGNATURE_HEADER, TIMESTAMP_HEADER, "traceparent", UNDECODABLE)
"""The headers of commands that are read. Others are not forwarded: some can be decoded but not encoded again."""


async def keep_legacy_vhost(settings: Settings, database: Database) -> None:
    """Keep the shared vhost in order in one of the gateway processes. Raises when broker or database are lost.

    The management API can be slow while partners publish at a high rate. A call that takes too long is tried again.
    """
    broker_url = settings.secret("broker_url").get_secret_value()
    management_url = settings.secret("broker_management_url").get_secret_value()
    known: dict[str, list[str]] = {}
    next_check = time.monotonic()
    async with open_leases(database.url, _LEASE_KIND, 1) as leases, open_management(management_url) as management:
        while True:
            if await leases.hold_only():
                try:
                    if time.monotonic() >= next_check:
                        await empty_intake(management, broker_url)
                        next_check = time.monotonic() + _INTAKE_SECONDS
                    await _bound_connections(management, database, known)
                except httpx.TimeoutException as error:
                    log.warning("management call took too long, retrying", error=type(error).__name__)
            await asyncio.sleep(_POLL_SECONDS)


async def _bound_connections(management: Management, database: Database, known: dict[str, list[str]]) -> None:
    """Close an organisation's newest connections to the shared vhost above a maximum.

    The maximum is that of a key with a vhost of its own. The broker's limit applies to the whole shared vhost, so one
    organisation could use all of it.

    Args:
        known: The connections that the previous call found, by slug; updated for the next call.
    """
    async with database.transaction() as db:
        slugs = await legacy_slugs(db)
    for slug in slugs:
        found = await management.connections_in(LEGACY_VHOST, slug)
        # The management API does not report their age. Those that the previous call found are older.
        old = [name for name in known.get(slug, []) if name in found]
        known[slug] = [*old, *(name for name in found if name not in old)]
        surplus = known[slug][MAX_CONNECTIONS:]
        for name in surplus:
            await management.close_connection(name)
        if surplus:
            log.warning("connections of a legacy key closed: it has too many", slug=slug, closed=len(surplus))


async def empty_intake(management: Management, broker_url: str) -> None:
    """Move commands from the queue that organisations shared in older releases to their own queues, and delete the shared one.

    The shared queue stays while it holds commands for which their organisation's queue has no room. After a crash at any point
    each command is in one of the queues, or in both if its acknowledgement was lost. The next call continues from there.

    Raises:
        httpx.HTTPError, aiormq.exceptions.AMQPError: The broker is unavailable or refuses.
    """
    types = await management.queue_types(LEGACY_VHOST)
    names = [name for name in LEGACY_INTAKE if name in types]
    if not names:
        return
    await ensure_legacy_vhost(management, broker_url)
    async with open_channel(broker_url, LEGACY_VHOST) as channel:
        publishing = await channel.connection.channel()
        # Commands that wait are moved before newer ones take the direct way.
        for name in names:
            waiting = (await channel.queue_declare(name, passive=True)).message_count or 0
            await _move(channel, publishing, name, waiting)
        await management.keep_only_bindings(LEGACY_VHOST, EXCHANGE, ())
        await asyncio.sleep(ROUTED_SECONDS)
        for name in names:
            if await _move(channel, publishing, name):
                await management.delete_policy(LEGACY_VHOST, name)
                await channel.queue_delete(name, if_unused=True, if_empty=True)
                log.info("shared queue of legacy keys deleted", queue=name)


async def _move(channel: AbstractChannel, publishing: AbstractChannel, name: str, count: int | None = None) -> bool:
    """Move the oldest `count` commands of a queue, or all. Commands whose organisation's queue is full stay.

    Returns:
        Whether no command stayed.
    """
    full: set[str] = set()
    moved = 0
    while count is None or moved < count:
        batch: list[DeliveredMessage] = []
        while len(batch) < _BATCH and isinstance((got := await channel.basic_get(name)).delivery, Basic.GetOk):
            batch.append(got)
        if not batch:
            break
        moved += len(batch)
        # Published in order, confirmed together.
        outcomes = await asyncio.gather(*(_pass_on(publishing, message, full) for message in batch))
        for message, is_taken in zip(batch, outcomes, strict=True):
            if is_taken:
                await channel.basic_ack(message.delivery_tag or 0)
    if full:
        await channel.basic_nack(0, multiple=True, requeue=True)
    return not full


async def _pass_on(channel: AbstractChannel, delivered: DeliveredMessage, full: set[str]) -> bool:
    """Publish a command to its organisation's queue, or add its slug to `full`. Returns whether the command is done."""
    routing_key = delivered.routing_key or ""
    slug = routing_key.partition(".")[0]
    if slug in full:
        return False
    sent = delivered.header.properties
    # The broker would deliver copies to CC and BCC with the service's rights. With these header names the command is refused.
    given = sent.headers or {}
    headers: dict[str, Any] = {_COPIES[name.upper()]: "" for name in given if name.upper() in _COPIES}
    headers |= {name: given[name] for name in _READ if isinstance(given.get(name), str | bytearray | int)}
    properties = aiormq.spec.Basic.Properties(
        headers=headers,
        delivery_mode=_PERSISTENT,
        correlation_id=sent.correlation_id,
        expiration=sent.expiration,
        message_id=sent.message_id,
    )
    try:
        await channel.basic_publish(
            delivered.body, exchange=LEGACY_COMMANDS, routing_key=routing_key, properties=properties, timeout=_CONFIRM_SECONDS
        )
    except DeliveryError:
        full.add(slug)
        return False
    except Exception as error:
        if not is_poison(error):
            raise
        note_set_aside(Consumer.PARTNER_COMMANDS, error, slug=slug)
    return True
