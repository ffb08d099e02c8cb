"""After the prefix of an organisation's queues has changed, no own queue with the former prefix stays at the broker."""

import asyncio
from contextlib import AsyncExitStack

from pydantic import SecretStr

from gridfleet.amqp.effects import carry_out_effects
from gridfleet.domains.partners.queues import set_queues
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database
from support.builders.alerting import operator
from support.builders.partner_site import partner_site
from support.servers.broker_node import BrokerNode


async def test_own_queues_with_a_former_prefix_are_removed(database: Database, broker: BrokerNode) -> None:
    key = (await partner_site(database)).sender.key
    urls = {"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(broker.management_url)}
    settings = broker.settings.model_copy(update=urls)
    async with AsyncExitStack() as stack:
        management = await stack.enter_async_context(open_management(broker.management_url))
        await ensure_partner_vhost(management, broker.url, key.vhost, PartnerQueues(key.slug, key.slug))
        stack.push_async_callback(management.delete_vhost, key.vhost)
        channel = await stack.enter_async_context(open_channel(broker.url, key.vhost))
        for name in (f"{key.slug}.mine", "newer.mine"):
            await channel.queue_declare(name, durable=True)
        await channel.queue_declare(f"{key.slug}.exclusive", exclusive=True)
        async with database.transaction() as db:
            await set_queues(db, operator(key.organization_id), "newer", enabled=True)
        task = asyncio.create_task(carry_out_effects(settings, database))
        stack.callback(task.cancel)
        kept = PartnerQueues(key.slug, "newer").names | {"newer.mine", f"{key.slug}.exclusive"}
        async with asyncio.timeout(60):
            while (await management.queue_types(key.vhost)).keys() != kept:
                await asyncio.sleep(0.2)
