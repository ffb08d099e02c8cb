"""Events that a partner does not fetch in time: dropped by the broker, counted for operators, organisation and partner."""

import asyncio
import contextlib

import aiormq
import pytest
from pydantic import SecretStr

from gridfleet.amqp import dropped_events
from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.partner_events.queue import queue_events
from gridfleet.domains.partners.topology import EVENTS, PartnerQueues, ensure_partner_vhost
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.builders.counters import value_of
from support.builders.partner_site import PartnerSite, partner_site
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running


async def alert(site: PartnerSite, number: int) -> None:
    key = site.sender.key
    async with site.database.transaction() as db:
        event = NewEvent(new_id(), key.organization_id, None, key.id, EventKind.ALERT, b"%d" % number)
        await queue_events(db, [event])


@pytest.mark.parametrize(("bound", "reason", "count"), [({"max-length": 3}, "maxlen", 7), ({"message-ttl": 1}, "expired", 10)])
async def test_dropped_events_are_counted(
    database: Database,
    broker: BrokerNode,
    monkeypatch: pytest.MonkeyPatch,
    bound: dict[str, int],
    reason: str,
    count: int,
) -> None:
    monkeypatch.setattr(dropped_events, "REPORT_SECONDS", 0.2)
    site = await partner_site(database)
    key, counted = site.sender.key, metrics.PARTNER_EVENTS_DROPPED.labels(reason)
    queue, before = event_queue(key.slug, EventKind.ALERT), value_of(counted)
    settings = broker.settings.model_copy(update={"broker_url": SecretStr(broker.url)})
    async with open_management(broker.management_url) as management, contextlib.AsyncExitStack() as stack:
        await ensure_partner_vhost(management, broker.url, key.vhost, PartnerQueues(key.slug, key.slug))
        stack.push_async_callback(management.delete_vhost, key.vhost)
        channel = await stack.enter_async_context(open_channel(broker.url, key.vhost))
        gateway = PartnerGateway(settings, database, site.plant.bench.keyring)
        async with running(gateway.run()), asyncio.timeout(60):
            await management.put_policy(key.vhost, "small", r"\.event\.alert$", "queues", EVENTS | bound, priority=9)
            for number in range(10):
                await alert(site, number)
            while value_of(counted) - before < count:
                await asyncio.sleep(0.05)
            while not (reported := await site.rows("SELECT details FROM audit_event WHERE event = 'partner.events_dropped'")):
                await asyncio.sleep(0.05)
            await management.put_policy(key.vhost, "small", r"\.event\.alert$", "queues", EVENTS, priority=9)
            await channel.queue_purge(queue)
            await alert(site, 10)
            while not isinstance((last := await channel.basic_get(queue, no_ack=True)).delivery, aiormq.spec.Basic.GetOk):
                await asyncio.sleep(0.05)
    assert value_of(counted) - before == count
    assert {(found["kind"], found["reason"]) for (found,) in reported} == {("alert", reason)}
    assert (last.header.properties.headers or {})["x-vcp-dropped"] == count
