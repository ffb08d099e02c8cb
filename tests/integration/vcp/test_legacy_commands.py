"""Forwarding orders from the queue that all legacy keys share."""

import asyncio
from hashlib import sha256
from typing import Any
from uuid import uuid4

import aiormq
from pydantic import SecretStr

from gridfleet.amqp.legacy_commands import forward_legacy_commands
from gridfleet.domains.partners.legacy.importing import Imported, import_keys, read_keys
from gridfleet.domains.partners.legacy.topology import LEGACY_COMMANDS, LEGACY_INTAKE, ensure_legacy_vhost
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.decoding import UNDECODABLE
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.partner_routes import LEGACY_VHOST, SIGNATURE_HEADER, TIMESTAMP_HEADER
from support.builders.accounts import add_organization, add_user
from support.clients.raw_properties import GROWING, STRANGE, STRANGE_HEADERS, RawProperties
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

PROPERTIES = STRANGE | STRANGE_HEADERS | GROWING


async def test_strange_properties_hold_up_no_orders(database: Database, broker: BrokerNode) -> None:
    slug = await _import_key(database)
    mode = f"{slug}.command.mode"
    async with open_management(broker.management_url) as management:
        await ensure_legacy_vhost(management, broker.url)
    urls = {"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(broker.management_url)}
    given = {SIGNATURE_HEADER: "0" * 64, TIMESTAMP_HEADER: 1, "CC": ["nowhere"], "other": {"a": 1}}
    good = aiormq.spec.Basic.Properties(headers=given)
    async with open_channel(broker.url, LEGACY_VHOST) as channel:
        queue = (await channel.queue_declare(exclusive=True)).queue or ""
        await channel.queue_bind(queue, LEGACY_COMMANDS, f"{slug}.#")
        for name, properties in [*((name, RawProperties(raw)) for name, raw in PROPERTIES.items()), ("good", good)]:
            await channel.basic_publish(name.encode(), exchange="vcp", routing_key=mode, properties=properties)
        try:
            async with running(forward_legacy_commands(broker.settings.model_copy(update=urls), database)) as forwarding:
                headers = await _arrived(channel, queue, len(PROPERTIES) + 1)
                assert not forwarding.done()
        finally:
            await channel.queue_purge(LEGACY_INTAKE)
    assert list(headers) == [*PROPERTIES, "good"]
    assert {name for name, found in headers.items() if UNDECODABLE in found} >= set(STRANGE_HEADERS)
    assert headers["good"] == {SIGNATURE_HEADER: "0" * 64, TIMESTAMP_HEADER: 1, "cc": ""}


async def _import_key(database: Database) -> str:
    """Import a legacy key of a new organisation. Returns the organisation's slug."""
    organization, creator = await add_organization(database), await add_user(database)
    key = f"{uuid4()},{organization.slug},{sha256(organization.id.bytes).hexdigest()},vcp:connect"
    async with database.transaction() as db:
        keys = read_keys(f"id,organisation,hash,scopes\n{key}")
        assert await import_keys(db, Keyring.parse(Keyring.generate()), creator.id, keys) == Imported(1, 0)
    return organization.slug


async def _arrived(channel: aiormq.abc.AbstractChannel, queue: str, count: int) -> dict[str, dict[str, Any]]:
    """Return the headers of the next messages by their bodies."""
    found: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(20):
        while len(found) < count:
            got = await channel.basic_get(queue, no_ack=True)
            if isinstance(got.delivery, aiormq.spec.Basic.GetOk):
                found[got.body.decode()] = dict(got.header.properties.headers or {})
            else:
                await asyncio.sleep(0.05)
    return found
