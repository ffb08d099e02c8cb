"""Classic queues of a partner are replaced by several gateways at once."""

import asyncio
from contextlib import AsyncExitStack

import aiormq
from pamqp.commands import Basic
from pydantic import SecretStr

from gridfleet.amqp.effects import carry_out_effects
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.domains.partners.vhosts import queue_update_unless_waiting, queue_vhost_update
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.set_aside import newest
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_routes import EXCHANGE, EventKind, event_queue
from support.builders.partner_site import partner_site
from support.servers.broker_node import BrokerNode

MESSAGES = 20


async def test_two_gateways_replace_a_partners_queues_without_losing_messages(database: Database, broker: BrokerNode) -> None:
    key = (await partner_site(database)).sender.key
    queues = PartnerQueues(key.slug, key.slug)
    urls = {"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(broker.management_url)}
    settings = broker.settings.model_copy(update={**urls, "broker_queue_type": "quorum"})
    async with AsyncExitStack() as stack:
        management = await stack.enter_async_context(open_management(broker.management_url))
        await ensure_partner_vhost(management, broker.url, key.vhost, queues, queue_type="classic")
        stack.push_async_callback(management.delete_vhost, key.vhost)
        async with open_channel(broker.url, key.vhost) as channel:
            for kind in EventKind:
                for number in range(MESSAGES):
                    await channel.basic_publish(
                        str(number).encode(),
                        exchange=EXCHANGE,
                        routing_key=f"{key.slug}.event.{kind.value}",
                        properties=aiormq.spec.Basic.Properties(delivery_mode=2),
                        mandatory=True,
                    )
        async with database.transaction() as db:
            await db.execute(
                "INSERT INTO partner_queues VALUES (%s, %s, true) ON CONFLICT (organization_id) DO UPDATE SET enabled = true",
                (key.organization_id, key.slug),
            )
            await db.execute("DELETE FROM outbox")
            for _ in range(2):
                await queue_vhost_update(db, key)
        for name in ("a", "b"):
            pool = await stack.enter_async_context(open_database(database.url, name=name, size=14))
            task = asyncio.create_task(carry_out_effects(settings, pool))
            stack.callback(task.cancel)
        async with asyncio.timeout(120):
            while await _queued(database):
                await asyncio.sleep(0.2)
        async with database.transaction() as db:
            assert await newest(db, 10) == []
        assert await management.queue_types(key.vhost) == dict.fromkeys(queues.names, "quorum")
        async with open_channel(broker.url, key.vhost) as channel:
            for kind in EventKind:
                found = set()
                name = event_queue(key.slug, kind)
                while isinstance((message := await channel.basic_get(name, no_ack=True)).delivery, Basic.GetOk):
                    found.add(int(message.body))
                assert found == set(range(MESSAGES)), f"{MESSAGES - len(found)} of {name} are lost"


async def test_a_vhost_without_its_queue_has_one_waiting_update(database: Database) -> None:
    """Each attempt of each link of an organisation notices that the queue is missing."""
    key = (await partner_site(database)).sender.key
    async with database.transaction() as db:
        await db.execute("DELETE FROM outbox")
        await queue_vhost_update(db, key)
        usual = await (await db.execute("DELETE FROM outbox RETURNING 1")).fetchall()
        for _ in range(5):
            await queue_update_unless_waiting(db, key)
        waiting = await (await db.execute("SELECT 1 FROM outbox")).fetchall()
    assert len(waiting) == len(usual) > 0


async def test_keys_that_share_a_vhost_wait_for_no_update_of_another(database: Database) -> None:
    """An update makes the queues of one key's organisation only."""
    key = (await partner_site(database)).sender.key
    other = key._replace(id=new_id())
    async with database.transaction() as db:
        await db.execute("DELETE FROM outbox")
        for one in (key, other):
            await queue_update_unless_waiting(db, one)
        waiting = await (await db.execute("SELECT DISTINCT payload->>'keyId' FROM outbox")).fetchall()
    assert {row[0] for row in waiting} == {str(key.id), str(other.id)}


async def _queued(database: Database) -> bool:
    async with database.transaction() as db:
        row = await (await db.execute("SELECT EXISTS (SELECT FROM outbox)")).fetchone()
        return row is not None and bool(row[0])
