"""A legacy key that publishes without a pause delays the commands of no other organisation."""

import asyncio
import json
import time
from pathlib import Path
from uuid import uuid4

import aiormq
from aiormq.abc import AbstractChannel, ChannelFrame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from gridfleet.domains.partners.key_text import make_key
from gridfleet.protocol.partner_routes import EventKind
from support.builders.partner_commands import order
from support.clients.fleet_under_test import wait_for
from support.clients.legacy_keys import Legacy, created, import_keys
from support.clients.partner_organization import Organization
from support.servers.running_stack import RunningStack

CONNECTIONS = 4
FLOOD = 15_000
"""Messages of each connection."""
COMMANDS = 10
MAX_CONFIRM_SECONDS = 3.0
MAX_ACK_SECONDS = 10.0


async def flood(legacy: Legacy) -> None:
    """Publish as fast as the broker reads, in writes of 100 messages."""
    message = order("command.site-setpoint", uuid4(), slug=legacy.org.slug, powerKw=1)
    publish = aiormq.spec.Basic.Publish(exchange="vcp", routing_key=message.routing_key)
    frames = [publish, ContentHeader(body_size=len(message.body)), ContentBody(message.body)] * 100
    async with legacy.org.connected(legacy.key) as connection:
        channel = await connection.channel(publisher_confirms=False)
        payload = ChannelFrame.marshall(channel.number, frames).payload
        for _ in range(FLOOD // 100):
            written = asyncio.get_running_loop().create_future()
            await connection.write_queue.put(ChannelFrame(payload, should_close=False, drain_future=written))
            await written


async def command(channel: AbstractChannel, legacy: Legacy) -> tuple[float, float]:
    """Seconds until a command is confirmed, and until it is acknowledged."""
    message = order("command.site-setpoint", uuid4(), slug=legacy.org.slug, powerKw=1)
    wanted = json.loads(message.body)["messageId"]
    properties = aiormq.spec.Basic.Properties(headers=dict(message.headers))
    started = time.monotonic()
    await channel.basic_publish(message.body, exchange="vcp", routing_key=message.routing_key, properties=properties)
    confirmed = time.monotonic() - started
    while True:
        got = await channel.basic_get(legacy.queue(EventKind.COMMAND_ACK), no_ack=True)
        if isinstance(got.delivery, aiormq.spec.Basic.GetOk) and json.loads(got.body)["messageId"] == wanted:
            return confirmed, time.monotonic() - started
        await asyncio.sleep(0.05)


async def test_a_flood_delays_no_other_organisation(
    stack: RunningStack, acme: Organization, acme_energy: Organization, tmp_path: Path
) -> None:
    rows = [
        {"id": str(uuid4()), "organisation": org.slug, "key": make_key().text, "scopes": "vcp:connect"}
        for org in (acme, acme_energy)
    ]
    done = import_keys(stack, tmp_path, rows)
    assert done.returncode == 0, done.stderr
    flooding, other = (Legacy(org, created(row["key"], row["id"])) for org, row in zip((acme, acme_energy), rows, strict=True))
    try:
        wanted = {*flooding.queues, *other.queues}
        await asyncio.to_thread(wait_for, lambda: wanted <= set(acme.queues("%2F")))
        async with asyncio.timeout(120), other.org.connected(other.key) as connection:
            channel = await connection.channel()
            alone = await command(channel, other)
            floods = [asyncio.create_task(flood(flooding)) for _ in range(CONNECTIONS)]
            try:
                seconds = []
                while len(seconds) < COMMANDS or not all(task.done() for task in floods):
                    seconds.append(await command(channel, other))
            finally:
                for task in floods:
                    task.cancel()
                await asyncio.gather(*floods, return_exceptions=True)
        confirmed, acknowledged = (max(each) for each in zip(*seconds, strict=True))
        print(f"confirmed after {confirmed:.2f} s, acknowledged after {acknowledged:.2f} s; alone {alone}")
        assert confirmed < MAX_CONFIRM_SECONDS
        assert acknowledged < MAX_ACK_SECONDS
    finally:
        for one in (flooding, other):
            one.org.revoke(one.key)
