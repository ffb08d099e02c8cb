"""The gateway loses a vhost, a part of one, or its connection to one: events arrive, and none is set aside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest
from pydantic import SecretStr

from gridfleet.amqp import partner_vhosts
from gridfleet.amqp.effects import carry_out_effects
from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.amqp.partner_vhosts import keep_partner_vhosts
from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.kernel.broker import connection
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.tasks import supervise
from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.builders.partner_site import PartnerSite, partner_site
from support.servers.broker_line import BrokerLine, broker_line
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

EVENTS = 60
FOUR_MORE = (
    "INSERT INTO partner_key (id, organization_id, name, partner_id, key_prefix, key_hash, scopes, allowed_ips, vhost,"
    " amqp_slug, created_by) SELECT gen_random_uuid(), organization_id, name, partner_id, key_prefix, sha256(n::text::bytea),"
    " scopes, allowed_ips, 'partner-' || n, amqp_slug, created_by FROM partner_key, generate_series(1, 4) AS n"
    " WHERE id = %(key)s"
)
"""They wait for their proof, so their vhosts are not maintained yet."""


async def queue_alerts(site: PartnerSite, first: int, count: int = EVENTS) -> None:
    key = site.sender.key
    bodies = [b"%d" % number for number in range(first, first + count)]
    async with site.database.transaction() as db:
        events = [NewEvent(new_id(), key.organization_id, None, key.id, EventKind.ALERT, body) for body in bodies]
        await queue_events(db, events)


async def until_published(site: PartnerSite) -> None:
    async with asyncio.timeout(60):
        while await site.rows("SELECT 1 FROM partner_event LIMIT 1"):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def over_line(broker: BrokerNode, site: PartnerSite) -> AsyncIterator[BrokerLine]:
    """Publish the site's events over a line that the test breaks, after the first ones have arrived."""
    key = site.sender.key
    async with open_management(broker.management_url) as management, broker_line(broker.url) as line:
        await ensure_partner_vhost(management, broker.url, key.vhost, PartnerQueues(key.slug, key.slug))
        settings = broker.settings.model_copy(update={"broker_url": SecretStr(line.url(broker.url))})
        gateway = PartnerGateway(settings, site.database, site.plant.bench.keyring)
        async with running(supervise("partners", gateway.run)):
            await queue_alerts(site, 0)
            await until_published(site)
            yield line
            await until_published(site)


@pytest.mark.parametrize("way", ["reset", "hang"])
async def test_no_event_is_lost_with_a_connection(
    database: Database, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "hang":
        monkeypatch.setattr(connection, "HEARTBEAT_SECONDS", 2)
    site = await partner_site(database)
    async with over_line(broker, site) as line:
        line.hang() if way == "hang" else line.reset_at_next_data()
        await queue_alerts(site, EVENTS)
    found = await arrived(broker, site)
    async with open_management(broker.management_url) as management:
        await management.delete_vhost(site.sender.key.vhost)
    assert await site.rows("SELECT reason FROM set_aside") == []
    assert set(found) == set(range(2 * EVENTS))


async def test_events_keep_their_order_when_a_connection_is_lost(database: Database, broker: BrokerNode) -> None:
    """Otherwise a partner would see a plant OFFLINE that has come back, until its next status."""
    site = await partner_site(database)
    async with over_line(broker, site) as line:
        line.reset_at_next_data()
        for number in range(EVENTS, 2 * EVENTS):
            await queue_alerts(site, number, 1)
            await asyncio.sleep(0.05)
    found = await arrived(broker, site)
    async with open_management(broker.management_url) as management:
        await management.delete_vhost(site.sender.key.vhost)
    assert list(dict.fromkeys(found)) == list(range(2 * EVENTS))


@asynccontextmanager
async def served(broker: BrokerNode, site: PartnerSite) -> AsyncIterator[Management]:
    """Serve the site's partner, and keep its vhost, until the end of the block."""
    key, database = site.sender.key, site.database
    addresses = {"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(broker.management_url)}
    settings = broker.settings.model_copy(update=addresses)
    gateway = PartnerGateway(settings, database, site.plant.bench.keyring)
    async with open_management(broker.management_url) as management, AsyncExitStack() as stack:
        await ensure_partner_vhost(management, broker.url, key.vhost, PartnerQueues(key.slug, key.slug))
        stack.push_async_callback(management.delete_vhost, key.vhost)
        async with (
            running(supervise("effects", partial(carry_out_effects, settings, database))),
            running(supervise("partner vhosts", partial(keep_partner_vhosts, settings, database))),
            running(supervise("partners", gateway.run)),
        ):
            await queue_alerts(site, 0)
            await until_published(site)
            yield management


async def test_a_vhost_that_the_broker_lost_is_created_again(
    database: Database, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partner_vhosts, "CHECK_SECONDS", 1)
    site = await partner_site(database)
    async with served(broker, site) as management:
        await management.delete_vhost(site.sender.key.vhost)
        await queue_alerts(site, EVENTS)
        await until_published(site)
        found = await arrived(broker, site)
    assert set(found) == set(range(EVENTS, 2 * EVENTS))


async def test_the_queues_of_an_organisation_with_many_keys_keep_less(
    database: Database, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new key has the settings of its organisation's number of keys; the vhosts of its other keys get them too."""
    monkeypatch.setattr(partner_vhosts, "CHECK_SECONDS", 1)
    site = await partner_site(database)
    async with served(broker, site) as management, asyncio.timeout(60):
        for change, mebibytes in ((FOUR_MORE, 128), ("DELETE FROM partner_key WHERE activated_at IS NULL", 256)):
            await site.execute(change)
            while True:
                policies = (await management.policies())[site.sender.key.vhost]
                bytes_of = {name: policy["max-length-bytes"] / 2**20 for name, policy in policies.items()}
                if bytes_of["vcp.events"] == mebibytes:
                    break
                await asyncio.sleep(0.1)
            assert [bytes_of[name] for name in ("kept", "kept-quorum")] == [mebibytes, mebibytes]
            assert bytes_of["kept-streams"] == mebibytes * 15 / 16


@pytest.mark.parametrize("lost", ["event queue", "vcp", "vcp.dropped"])
async def test_a_queue_or_exchange_that_the_broker_lost_is_declared_again(
    database: Database, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """A node that is removed from a cluster takes classic queues with it. Without a queue, an event is confirmed and lost."""
    monkeypatch.setattr(partner_vhosts, "CHECK_SECONDS", 1)
    site = await partner_site(database)
    vhost, queue = site.sender.key.vhost, event_queue(site.sender.key.slug, EventKind.ALERT)
    async with served(broker, site) as management, asyncio.timeout(60):
        if lost == "event queue":
            await management.delete_queue(vhost, queue)
            while queue not in {found.name for found in await management.queues(vhost)}:
                await asyncio.sleep(0.1)
        else:
            await management.delete_exchange(vhost, lost)
            while (vhost, lost) not in await management.exchanges():
                await asyncio.sleep(0.1)
        while await site.rows("SELECT FROM outbox"):  # the effect binds queues after it has declared them
            await asyncio.sleep(0.1)
        await queue_alerts(site, EVENTS)
        await until_published(site)
        found = await arrived(broker, site)
    assert set(found) >= set(range(EVENTS, 2 * EVENTS))


async def arrived(broker: BrokerNode, site: PartnerSite) -> list[int]:
    """Return the numbers of the events in the partner's queue, in their order."""
    numbers: list[int] = []
    async with open_channel(broker.url, site.sender.key.vhost) as channel:
        while body := (await channel.basic_get(event_queue(site.sender.key.slug, EventKind.ALERT), no_ack=True)).body:
            numbers.append(int(body))
    return numbers
