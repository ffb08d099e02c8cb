"""Large events of one organisation, and the commands of its many keys, leave room for the other organisations."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiormq
import pytest
from pydantic import SecretStr

from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.amqp.partner_link import PartnerLink
from gridfleet.domains.partner_events.models import NewEvent, QueuedEvent
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_routes import EXCHANGE, EventKind
from support.builders.partner_commands import order
from support.builders.partner_site import PartnerSite, add_key, partner_site
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

MIB = 1024 * 1024
KEYS = 16
COMMANDS = 30
"""Commands of each of these keys."""


class Market:
    """A broker with the vhosts of partners, and a gateway that serves them."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.sites: list[PartnerSite] = []

    async def add(self, site: PartnerSite) -> PartnerSite:
        """Make the vhost of the site's key."""
        key = site.sender.key
        self.sites.append(site)
        async with open_management(self.node.management_url) as management:
            await ensure_partner_vhost(management, self.node.url, key.vhost, PartnerQueues(key.slug, key.slug))
        return site

    async def order(self, site: PartnerSite, count: int) -> None:
        """Publish setpoints."""
        async with open_channel(self.node.url, site.sender.key.vhost) as channel:
            for _ in range(count):
                message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
                properties = aiormq.spec.Basic.Properties(delivery_mode=2, headers=dict(message.headers))
                await channel.basic_publish(
                    message.body, exchange=EXCHANGE, routing_key=message.routing_key, properties=properties
                )

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[None]:
        """Run a gateway until the end of the block."""
        settings = self.node.settings.model_copy(update={"broker_url": SecretStr(self.node.url)})
        bench = self.sites[0].plant.bench
        async with (
            open_database(bench.database.url, name="gateway", size=6) as database,
            running(PartnerGateway(settings, database, bench.keyring).run()),
        ):
            yield


@pytest.fixture
async def market(broker: BrokerNode) -> AsyncIterator[Market]:
    found = Market(broker)
    yield found
    async with open_management(broker.management_url) as management:
        for site in found.sites:
            await management.delete_vhost(site.sender.key.vhost)


async def test_a_share_of_events_is_limited_in_bytes(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an interruption, an organisation may have a thousand events of half a mebibyte."""
    large = await market.add(await partner_site(database))
    small = await market.add(await partner_site(database, large.plant.bench))
    held, released = 0, asyncio.Event()
    publish = PartnerLink.publish

    async def publish_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        nonlocal held
        if link.served.key.id == large.sender.key.id:
            held += sum(len(event.body) for event in events)
            await released.wait()
        return await publish(link, events)

    monkeypatch.setattr(PartnerLink, "publish", publish_late)

    def event(site: PartnerSite, size: int) -> NewEvent:
        body = b'"' + b"x" * size + b'"'
        return NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, EventKind.TELEMETRY, body)

    async with database.transaction() as db:
        await queue_events(db, [*(event(large, MIB // 2) for _ in range(80)), event(small, 1)])
    async with market.gateway():
        async with asyncio.timeout(60):
            while await waiting(small):
                await asyncio.sleep(0.1)
        await asyncio.sleep(2)  # at least one more query
        assert 0 < held <= 17 * MIB
        released.set()
        async with asyncio.timeout(60):
            while await waiting(large):
                await asyncio.sleep(0.1)


async def test_commands_of_many_keys_of_one_organisation_do_not_delay_another(market: Market, database: Database) -> None:
    busy = await market.add(await partner_site(database))
    quiet = await market.add(await partner_site(database, busy.plant.bench))
    key, bench = busy.sender.key, busy.plant.bench
    senders = [await add_key(bench, key.organization_id, key.slug) for _ in range(KEYS)]
    keys = [await market.add(PartnerSite(database, busy.plant, sender)) for sender in senders]
    await asyncio.gather(*(market.order(one, COMMANDS) for one in keys), market.order(quiet, 20))
    async with market.gateway():
        async with asyncio.timeout(120):
            while len(await quiet.log()) < 20:
                await asyncio.sleep(0.02)
        assert len(await busy.log()) < 120


async def waiting(site: PartnerSite) -> int:
    return len(await site.rows("SELECT id FROM partner_event WHERE organization_id = %(org)s"))
