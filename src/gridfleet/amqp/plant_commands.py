"""Plant commands: published to the topic that the plant subscribes to, and ended when they expire."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import aiormq
import structlog
from aiormq.abc import AbstractChannel
from aiormq.exceptions import PublishError

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.plants.commands.delivery import CLAIM_SECONDS, SignedCommand, claim_due, record_published
from gridfleet.domains.plants.commands.expiry import expire_due, list_due
from gridfleet.domains.plants.topology import PLANTS_VHOST, declare
from gridfleet.domains.vcp.acknowledgements import follow_commands, follow_without_sites
from gridfleet.kernel.broker.connection import fail_when_closed, open_channel
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, set_aside
from gridfleet.kernel.db.notifications import listen
from gridfleet.kernel.due_work import repeat_each_second, wait_at_most
from gridfleet.kernel.isolation import is_poison, isolate, may_be_poison, note_set_aside, reason_of
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings

__all__ = ["expire_commands", "send_commands"]

log = structlog.get_logger(__name__)

_BATCH: Final = 200
_POLL_SECONDS: Final = 1.0
"""Seconds between queries without a notification, for commands that wait to be sent again."""
_PERSISTENT: Final = 2


async def send_commands(settings: Settings, database: Database, keyring: Keyring) -> None:
    """Send commands as they are issued. Raises when broker or database are lost.

    Several processes may do so at once. Commands that a process had claimed when it ended become due again.
    """
    broker_url = settings.secret("broker_url").get_secret_value()
    await declare(
        broker_url,
        settings.secret("broker_management_url").get_secret_value(),
        shards=settings.ingest_shards,
        queue_type=settings.broker_queue_type,
        add_shards=False,
    )
    due = asyncio.Event()
    async with open_channel(broker_url, PLANTS_VHOST) as channel, asyncio.TaskGroup() as tasks:
        tasks.create_task(listen(database.url, ["plant_command_due"], due.set, lambda *_: due.set()))
        tasks.create_task(fail_when_closed(channel))
        while True:
            due.clear()
            async with database.transaction() as db:
                commands = await claim_due(db, keyring, utc_now(), _BATCH)
            if not commands:
                await wait_at_most(due, _POLL_SECONDS)
                continue
            delivered = await asyncio.gather(*(_send(channel, command) for command in commands))
            async with database.transaction() as db:
                published = [(signed.command, taken) for signed, taken in zip(commands, delivered, strict=True)]
                await record_published(db, utc_now(), published, follow_commands)


async def expire_commands(database: Database) -> None:
    """End commands within a second after their expiry, until cancelled."""
    await repeat_each_second(lambda: _expire_due(database, utc_now()))


async def _expire_due(database: Database, now: datetime) -> int:
    """End expired commands. If one fails, each is ended separately. Returns the number of ended commands."""
    ended = 0

    async def expire(only: Sequence[UUID] | None) -> None:
        nonlocal ended
        async with database.transaction() as db:
            steps = await expire_due(db, now, follow_commands, only)
        ended += len(steps)

    async def expire_alone(command_id: UUID, error: Exception) -> None:
        """End a command whose end cannot be applied to its site, so that it is not retried forever."""
        async with database.transaction() as db:
            await expire_due(db, now, follow_without_sites, [command_id])
            await set_aside.insert(db, Consumer.COMMANDS, reason_of(error), {"commandId": str(command_id)}, None)

    try:
        await expire(None)
    except Exception as error:
        if not may_be_poison(error):
            raise
    else:
        return ended
    async with database.transaction() as db:
        due = await list_due(db, now)
    await isolate(Consumer.COMMANDS, due, expire, expire_alone)
    return ended


async def _send(channel: AbstractChannel, signed: SignedCommand) -> bool:
    command = signed.command
    with at_work("command", command.cause, kind="producer", command_id=str(command.id), plant_id=str(command.plant_id)):
        if signed.is_late:
            log.warning("command was claimed too long ago; claiming it again")
            return False
        taken = await _publish(channel, signed)
        if taken:
            log.info("command sent", attempts=command.attempts)
        return taken


async def _publish(channel: AbstractChannel, signed: SignedCommand) -> bool:
    """Publish a command to the plant's session. Returns False if the plant has no session."""
    try:
        await channel.basic_publish(
            signed.message,
            exchange="amq.topic",
            routing_key=signed.topic.replace("/", "."),
            mandatory=True,
            timeout=CLAIM_SECONDS,
            properties=aiormq.spec.Basic.Properties(
                delivery_mode=_PERSISTENT,
                # The broker drops a message that the plant would refuse as too old.
                expiration=str(max(1, int(signed.life.total_seconds() * 1000))),
            ),
        )
    except PublishError:
        return False
    except Exception as error:
        # The command waits as if the plant had no session, and expires at its time.
        if not is_poison(error):
            raise
        note_set_aside(Consumer.COMMANDS, error)
        return False
    return True
