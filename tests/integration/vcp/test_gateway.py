"""Gateway processes over a real broker: which process serves which vhost, what they take and send as others come and go."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import aiormq
import pytest
from aiormq.abc import AbstractChannel
from psycopg.errors import QueryCanceled
from pydantic import SecretStr

from gridfleet.amqp import event_upkeep
from gridfleet.amqp.effects import carry_out_effects
from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.amqp.partner_link import PartnerLink
from gridfleet.amqp.site_scheduler import run_schedules
from gridfleet.domains.consumers import Consumer
from gridfleet.domains.partner_events import queue_starts
from gridfleet.domains.partner_events.models import NewEvent, QueuedEvent, Room
from gridfleet.domains.partner_events.queue import next_events, queue_events
from gridfleet.domains.partners.models import SendingKey
from gridfleet.domains.partners.topology import PartnerQueues, dropped_queue, ensure_partner_vhost, inbound_queue
from gridfleet.domains.vcp.intake import take_command
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Connection, Database, open_database
from gridfleet.kernel.db.queries import fetch_count
from gridfleet.kernel.due_work import wait_at_most
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.tasks import supervise
from gridfleet.protocol.partner_messages import PartnerAck
from gridfleet.protocol.partner_routes import EXCHANGE, EventKind, event_queue, event_routing_key
from support.builders.counters import value_of
from support.builders.partner_commands import order
from support.builders.partner_site import PartnerSite, add_key, partner_site
from support.clients.raw_properties import STRANGE, STRANGE_HEADERS, RawProperties
from support.servers.broker_node import BrokerNode
from support.servers.free_ports import free_ports
from support.servers.running_task import running


@dataclass
class Market:
    """A broker with the vhosts of some partners, and the gateway processes that serve them."""

    node: BrokerNode
    sites: list[PartnerSite] = field(default_factory=list)

    async def add(self, database: Database) -> PartnerSite:
        """Another organisation with a plant, a key, and its vhost."""
        site = await partner_site(database, self.sites[0].plant.bench if self.sites else None)
        await self.settle(site.sender)
        self.sites.append(site)
        return site

    async def add_key(self, site: PartnerSite) -> PartnerSite:
        """Another key of the site's organisation, and its vhost."""
        bench, key = site.plant.bench, site.sender.key
        other = PartnerSite(site.database, site.plant, await add_key(bench, key.organization_id, key.slug))
        await self.settle(other.sender)
        self.sites.append(other)
        return other

    async def settle(self, sender: SendingKey) -> None:
        async with open_management(self.node.management_url) as management:
            queues = PartnerQueues(sender.key.slug, sender.key.slug)
            await ensure_partner_vhost(management, self.node.url, sender.key.vhost, queues)

    @asynccontextmanager
    async def gateway(self, broker_url: str = "") -> AsyncIterator["asyncio.Task[None]"]:
        """One process's partner side, until the block ends as by a kill."""
        settings = self.node.settings.model_copy(update={"broker_url": SecretStr(broker_url or self.node.url)})
        bench = self.sites[0].plant.bench
        async with open_database(bench.database.url, name="gateway", size=6) as database:
            run = PartnerGateway(settings, database, bench.keyring).run
            async with running(supervise("partners", run) if broker_url else run()) as task:
                yield task

    @asynccontextmanager
    async def channel(self, site: PartnerSite) -> AsyncIterator[AbstractChannel]:
        async with open_channel(self.node.url, site.sender.key.vhost) as channel:
            yield channel

    async def publish(self, site: PartnerSite, message: PartnerMessage) -> None:
        async with self.channel(site) as channel:
            await channel.basic_publish(
                message.body,
                exchange=EXCHANGE,
                routing_key=message.routing_key,
                mandatory=True,
                properties=aiormq.spec.Basic.Properties(delivery_mode=2, headers=dict(message.headers)),
            )

    async def order(self, site: PartnerSite, **members: Any) -> str:
        """Publishes a setpoint; its messageId."""
        message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, **({"powerKw": 1} | members))
        await self.publish(site, message)
        return str(json.loads(message.body)["messageId"])

    async def received(self, site: PartnerSite, count: int, kind: EventKind = EventKind.COMMAND_ACK) -> list[dict[str, Any]]:
        """The next events, in their order, with the ids that they had."""
        found: list[dict[str, Any]] = []
        async with self.channel(site) as channel, asyncio.timeout(20):
            while len(found) < count:
                got = await channel.basic_get(event_queue(site.sender.key.slug, kind), no_ack=True)
                if isinstance(got.delivery, aiormq.spec.Basic.GetOk):
                    found.append(json.loads(got.body) | {"id": got.header.properties.message_id})
                else:
                    await asyncio.sleep(0.05)
        return found

    async def consumers(self, site: PartnerSite) -> int:
        async with self.channel(site) as channel:
            return (await channel.queue_declare(inbound_queue(site.sender.key.slug), passive=True)).consumer_count or 0


@pytest.fixture
async def market(database: Database, broker: BrokerNode) -> AsyncIterator[Market]:
    found = Market(broker)
    yield found
    async with open_management(broker.management_url) as management:
        for site in found.sites:
            await management.delete_vhost(site.sender.key.vhost)


async def test_orders_wait_for_a_gateway_and_acks_for_the_partner(market: Market, database: Database) -> None:
    site = await market.add(database)
    orders = [await market.order(site, powerKw=number) for number in range(5)]
    async with market.gateway():
        acks = await market.received(site, 5)
        await until_published(site)
    assert [ack["messageId"] for ack in acks] == orders
    assert {ack["ackStatus"] for ack in acks} == {"ACCEPTED"}
    assert [command[1]["powerKw"] for command in await site.commands()] == [0, 1, 2, 3, 4]


async def test_copies_of_another_organisations_messages_are_ignored(market: Market, database: Database) -> None:
    """RabbitMQ before 4.0 without the service's plugin delivers them in the shared vhost of legacy keys."""
    site = await market.add(database)
    slug = site.sender.key.slug
    message = order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1)
    properties = aiormq.spec.Basic.Properties(headers={**message.headers, "BCC": [message.routing_key]})
    async with market.channel(site) as channel:
        await channel.basic_publish(message.body, exchange=EXCHANGE, routing_key="other.command.mode", properties=properties)
        waiting = await channel.queue_declare(inbound_queue(slug), passive=True)
    assert waiting.message_count == 1
    own = await market.order(site)
    async with market.gateway():
        assert [ack["messageId"] for ack in await market.received(site, 1)] == [own]
    assert len(await site.rows("SELECT 1 FROM vcp_command")) == 1


async def test_no_fallback_starts_while_commands_wait_that_arrived_during_an_outage(market: Market, database: Database) -> None:
    site = await market.add(database)
    await site.send("config.fallback", fallback={"mode": "BACKUP", "afterSeconds": 60})
    await site.set_site(silent_from=datetime.now(UTC) - timedelta(minutes=5))
    await market.order(site)
    async with running(run_schedules(database)):
        await asyncio.sleep(2)  # a busy broker accepts the gateway's connection later than the database
        async with market.gateway():
            await market.received(site, 2)
    assert [kind for kind, _, _ in await site.commands()] == ["CONFIG", "SITE_SETPOINT"]


async def test_two_gateways_share_and_take_over(market: Market, database: Database) -> None:
    sites = [await market.add(database) for _ in range(6)]
    async with market.gateway():
        async with market.gateway():
            for site in sites:
                await market.order(site)
            for site in sites:
                assert len(await market.received(site, 1)) == 1
            async with asyncio.timeout(20):
                while [await market.consumers(site) for site in sites] != [1] * 6:
                    await asyncio.sleep(0.1)
        for site in sites:
            await market.order(site)
        for site in sites:
            assert len(await market.received(site, 1)) == 1
            assert [entry[1] for entry in await site.log()] == ["ACCEPTED", "ACCEPTED"]


async def test_a_gateway_that_does_not_reach_the_broker_leaves_the_partners_to_others(
    market: Market, database: Database
) -> None:
    sites = [await market.add(database) for _ in range(6)]
    [silent] = free_ports(1)
    async with market.gateway(f"amqp://guest:guest@127.0.0.1:{silent}"), market.gateway():
        await asyncio.sleep(3)  # until each had its share
        for site in sites:
            await market.order(site)
        for site in sites:
            assert len(await market.received(site, 1)) == 1


async def test_keys_are_followed_as_they_come_and_go(market: Market, database: Database) -> None:
    first = await market.add(database)
    async with market.gateway():
        await market.order(first)
        await market.received(first, 1)
        second = await market.add(database)
        await market.order(second)
        await market.received(second, 1)
        await first.execute("UPDATE partner_queues SET enabled = false WHERE organization_id = %(org)s")
        async with asyncio.timeout(10):
            while await market.consumers(first):
                await asyncio.sleep(0.05)
        await market.order(first)
        await market.order(second)
        await market.received(second, 1)
        assert len(await first.log()) == 1
        await first.execute("UPDATE partner_queues SET enabled = true WHERE organization_id = %(org)s")
        await market.received(first, 1)


async def test_a_key_without_a_scope_any_more_is_refused_at_once(market: Market, database: Database) -> None:
    site = await market.add(database)
    async with market.gateway():
        await market.order(site)
        await market.received(site, 1)
        await site.execute("UPDATE partner_key SET scopes = '{vcp:connect}' WHERE id = %(key)s")
        await market.order(site)
        [ack] = await market.received(site, 1)
    assert ack["rejectionReason"] == "MALFORMED"


async def test_a_message_that_the_database_would_not_store_does_not_block_the_queue(market: Market, database: Database) -> None:
    site = await market.add(database)
    await site.execute("ALTER TABLE vcp_command ADD CONSTRAINT no_thirteen CHECK (payload->>'powerKw' IS DISTINCT FROM '13')")
    async with market.gateway():
        bad = await market.order(site, powerKw=13)
        good = await market.order(site, powerKw=14)
        refused, accepted = await market.received(site, 2)
    assert (refused["messageId"], refused["rejectionReason"]) == (bad, "MALFORMED")
    assert (accepted["messageId"], accepted["ackStatus"]) == (good, "ACCEPTED")


@pytest.mark.parametrize("name", [*STRANGE, *STRANGE_HEADERS])
async def test_properties_that_cannot_be_decoded_hold_up_nothing_behind_them(
    market: Market, database: Database, name: str
) -> None:
    """The broker passes them on as they are."""
    site = await market.add(database)
    message = order("command.site-setpoint", site.plant.id, slug=site.sender.key.slug, powerKw=1)
    properties = RawProperties((STRANGE | STRANGE_HEADERS)[name])
    async with market.channel(site) as channel:
        await channel.basic_publish(message.body, exchange=EXCHANGE, routing_key=message.routing_key, properties=properties)
    async with market.gateway() as gateway:
        good = await market.order(site, powerKw=2)
        first, second = await market.received(site, 2)
        assert not gateway.done()
    assert first.get("rejectionReason") == ("MALFORMED" if name in STRANGE_HEADERS else None)
    assert (second["messageId"], second["ackStatus"]) == (good, "ACCEPTED")


async def test_messages_of_any_depth_are_refused_and_do_not_hold_up_an_emergency_stop(
    market: Market, database: Database
) -> None:
    site = await market.add(database)
    slug = site.sender.key.slug
    depths = (32, 500, 900, 940, 950, 960, 965, 970, 975, 980, 985, 990, 995, 1_000, 2_000, 30_000)
    async with market.gateway():
        for depth in depths:
            plain = order("command.site-setpoint", site.plant.id, slug=slug, powerKw=1, unknown="HERE")
            deep = plain.body.replace(b'"HERE"', b"[" * depth + b"]" * depth)
            await market.publish(site, plain._replace(body=deep))
        stop = order("command.mode", site.plant.id, slug=slug, mode="EMERGENCY_STOP")
        await market.publish(site, stop)
        *refused, accepted = await market.received(site, len(depths) + 1)
    assert {(one["siteId"], one["rejectionReason"]) for one in refused} == {(str(site.plant.id), "MALFORMED")}
    assert all(one["messageId"] for one in refused)
    assert (accepted["messageId"], accepted["ackStatus"]) == (json.loads(stop.body)["messageId"], "ACCEPTED")
    assert await site.rows("SELECT DISTINCT detail FROM vcp_command WHERE rejection_reason IS NOT NULL") == [
        ("the message is nested deeper than 32 levels",)
    ]


@pytest.mark.parametrize("error", [RuntimeError("a defect"), QueryCanceled("canceling statement due to statement timeout")])
async def test_a_message_that_fails_for_an_unforeseen_reason_is_refused(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def failing(db: Connection, sender: SendingKey, message: PartnerMessage, *rest: Any) -> PartnerAck:
        ack = await take_command(db, sender, message, *rest)
        if b'"powerKw": 13' in message.body:
            raise error
        return ack

    monkeypatch.setattr("gridfleet.amqp.partner_link.take_command", failing)
    site = await market.add(database)
    async with market.gateway():
        bad, good = [await market.order(site, powerKw=power) for power in (13, 14)]
        refused, accepted = await market.received(site, 2)
    assert (refused["messageId"], refused["rejectionReason"]) == (bad, "MALFORMED")
    assert (accepted["messageId"], accepted["ackStatus"]) == (good, "ACCEPTED")
    assert [command[1]["powerKw"] for command in await site.commands()] == [14], "what the failed try did is rolled back"


async def test_no_message_is_refused_while_every_statement_takes_too_long(market: Market, database: Database) -> None:
    """Two tries prove that a message is slow only if its refusal is stored; here that takes too long as well, twice."""
    site = await market.add(database)
    await site.execute("CREATE SEQUENCE tries")
    await site.execute(
        "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') > 6 THEN RETURN NEW; END IF;"
        " RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014'; END $$"
    )
    await site.execute("CREATE TRIGGER delay BEFORE INSERT ON vcp_command FOR EACH ROW EXECUTE FUNCTION delay()")
    async with market.gateway():
        await market.order(site)
        [ack] = await market.received(site, 1)
    assert ack["ackStatus"] == "ACCEPTED"


async def test_orders_wait_for_the_consumer_before_to_leave(market: Market, database: Database) -> None:
    """It holds the oldest ones, and who came second would take younger ones first."""
    site = await market.add(database)
    async with market.channel(site) as before:
        await before.basic_qos(prefetch_count=1)
        held = asyncio.Queue[Any]()
        await before.basic_consume(inbound_queue(site.sender.key.slug), held.put)
        oldest = await market.order(site)
        await asyncio.wait_for(held.get(), 10)
        async with market.gateway():
            younger = await market.order(site)
            await asyncio.sleep(1)
            assert await site.log() == []
            await before.close()
            acks = await market.received(site, 2)
    assert [ack["messageId"] for ack in acks] == [oldest, younger]


@pytest.mark.parametrize("queue_of", [inbound_queue, dropped_queue])
async def test_a_queue_that_the_broker_lost_is_made_again(
    market: Market, database: Database, queue_of: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    site = await market.add(database)
    queue = queue_of(site.sender.key.slug)
    async with market.channel(site) as channel:
        await channel.queue_delete(queue)
    settings = market.node.settings.model_copy(
        update={"broker_url": SecretStr(market.node.url), "broker_management_url": SecretStr(market.node.management_url)}
    )
    async with running(carry_out_effects(settings, database)), market.gateway(), asyncio.timeout(20):
        while not await is_consumed(market, site, queue):
            await asyncio.sleep(0.1)
        await market.order(site)
        [ack] = await market.received(site, 1)
    assert ack["ackStatus"] == "ACCEPTED"
    assert "Traceback" not in "".join(capsys.readouterr())


async def is_consumed(market: Market, site: PartnerSite, queue: str) -> bool:
    try:
        async with market.channel(site) as channel:
            return bool((await channel.queue_declare(queue, passive=True)).consumer_count)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return False


async def test_events_keep_their_order_and_their_ids(market: Market, database: Database) -> None:
    site = await market.add(database)
    organization, plant = site.plant.organization_id, site.plant.id

    def event(number: int, of: UUID | None = None) -> NewEvent:
        body = json.dumps({"number": number}).encode()
        return NewEvent(new_id(), organization, plant, of, EventKind.TELEMETRY, body)

    events = [event(number) for number in range(700)]
    async with database.transaction() as db:
        await queue_events(db, [event(-1, new_id()), *events])
    async with market.gateway():
        received = await market.received(site, 700, EventKind.TELEMETRY)
        async with asyncio.timeout(10):
            while await site.rows("SELECT 1 FROM partner_event"):
                await asyncio.sleep(0.05)
    assert [one["number"] for one in received] == list(range(700)), "another key's event does not arrive"
    assert [one["id"] for one in received] == [str(one.event_id) for one in events]


async def test_nothing_is_struck_off_that_the_broker_did_not_take(market: Market, database: Database) -> None:
    site = await market.add(database)
    async with open_management(market.node.management_url) as management:
        await management.delete_vhost(site.sender.key.vhost)
    event = NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, EventKind.STATUS, b"{}")
    async with database.transaction() as db:
        await queue_events(db, [event])
    async with market.gateway():
        await asyncio.sleep(1)
        assert len(await site.rows("SELECT 1 FROM partner_event")) == 1
        await market.settle(site.sender)
        [received] = await market.received(site, 1, EventKind.STATUS)
    assert received["id"] == str(event.event_id)


async def test_events_of_one_organisation_do_not_wait_for_those_of_another(market: Market, database: Database) -> None:
    busy, quiet = await market.add(database), await market.add(database)

    def event(site: PartnerSite) -> NewEvent:
        return NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, EventKind.TELEMETRY, b'{"x": 1}')

    async with database.transaction() as db:
        await queue_events(db, [*(event(busy) for _ in range(20_000)), event(quiet)])
    async with market.gateway():
        await market.received(quiet, 1, EventKind.TELEMETRY)
        assert len(await busy.rows("SELECT 1 FROM partner_event")) > 10_000
        async with asyncio.timeout(60):
            while await busy.rows("SELECT 1 FROM partner_event LIMIT 1"):
                await asyncio.sleep(0.2)


async def test_a_vhost_that_does_not_confirm_delays_no_other_organisation(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, prompt, other = [await market.add(database) for _ in range(3)]
    publish = PartnerLink.publish

    async def publish_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        if link.served.key.id == late.sender.key.id:
            await asyncio.Event().wait()
        return await publish(link, events)

    monkeypatch.setattr(PartnerLink, "publish", publish_late)
    sites, count = (late, prompt), 3_000  # more than an organisation's share of the events that are published at a time
    async with database.transaction() as db:
        await queue_events(
            db,
            [
                NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, EventKind.TELEMETRY, b'{"x": 1}')
                for _ in range(count)
                for site in sites
            ],
        )

    async def waiting(site: PartnerSite) -> int:
        [(found,)] = await site.rows(
            f"SELECT count(*) FROM partner_event WHERE organization_id = '{site.plant.organization_id}'"
        )
        return int(found)

    async with market.gateway():
        async with asyncio.timeout(60):
            while await waiting(prompt):
                await asyncio.sleep(0.2)
        assert await waiting(late) == count
        await prompt.execute("UPDATE partner_queues SET enabled = false WHERE organization_id = %(org)s")
        async with asyncio.timeout(30):
            while await market.consumers(prompt):
                await asyncio.sleep(0.05)
        async with database.transaction() as db:
            organization_id, plant_id = other.plant.organization_id, other.plant.id
            await queue_events(db, [NewEvent(new_id(), organization_id, plant_id, None, EventKind.TELEMETRY, b"{}")])
        await market.received(other, 1, EventKind.TELEMETRY)


async def test_a_next_try_waits_for_no_other_organisation(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, failing = await market.add(database), await market.add(database)
    publish, failed = PartnerLink.publish, asyncio.Event()

    async def publish_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        if link.served.key.id == late.sender.key.id:
            await asyncio.Event().wait()
        if not failed.is_set():
            failed.set()
            raise ConnectionError("the connection is lost")
        return await publish(link, events)

    monkeypatch.setattr(PartnerLink, "publish", publish_late)
    async with market.gateway():
        async with asyncio.timeout(20):
            while not (await market.consumers(late) and await market.consumers(failing)):
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # both can publish too, so one batch has both events
        async with database.transaction() as db:
            await queue_events(db, [telemetry(late), telemetry(failing)])
        await market.received(failing, 1, EventKind.TELEMETRY)
    assert failed.is_set()


async def test_events_that_are_read_while_earlier_ones_fail_are_published_after_them(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = await market.add(database)
    publish, held, fails = PartnerLink.publish, asyncio.Event(), asyncio.Event()

    async def publish_the_first_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        if not held.is_set():
            held.set()
            await fails.wait()
            raise ConnectionError("the connection is lost")
        return await publish(link, events)

    async def look_for_long(*arguments: Any) -> list[QueuedEvent]:
        found = await next_events(*arguments)
        if held.is_set() and found:
            fails.set()
            await asyncio.sleep(0.2)
        return found

    monkeypatch.setattr(PartnerLink, "publish", publish_the_first_late)
    monkeypatch.setattr("gridfleet.amqp.partner_gateway.next_events", look_for_long)
    first, second = telemetry(site), telemetry(site)
    async with market.gateway():
        async with database.transaction() as db:
            await queue_events(db, [first])
        await asyncio.wait_for(held.wait(), 20)
        async with database.transaction() as db:
            await queue_events(db, [second])
        received = await market.received(site, 2, EventKind.TELEMETRY)
    assert [event["id"] for event in received] == [str(first.event_id), str(second.event_id)]


async def test_an_event_whose_transaction_committed_late_is_published(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is below the one at which looks begin: that of later events, which are published already."""
    monkeypatch.setattr(queue_starts, "SETTLED_SECONDS", 0)
    monkeypatch.setattr(event_upkeep, "UPKEEP_SECONDS", 3)
    site = await market.add(database)
    late = telemetry(site)
    begun: list[int] = []

    async def look(db: Connection, rooms: Mapping[UUID, Room], *arguments: Any) -> list[QueuedEvent]:
        begun.extend(room.start for room in rooms.values())
        return await next_events(db, rooms, *arguments)

    monkeypatch.setattr("gridfleet.amqp.partner_gateway.next_events", look)
    async with market.gateway():
        async with database.transaction() as db:
            await queue_events(db, [late])
            late_id = await fetch_count(db, "SELECT max(id) FROM partner_event")
            async with asyncio.timeout(20):
                while max(begun, default=0) <= late_id:
                    await published(site, [telemetry(site)])
        received = [event["id"] for event in await market.received(site, 1, EventKind.TELEMETRY)]
        async with asyncio.timeout(20):
            while str(late.event_id) not in received:
                received += [event["id"] for event in await market.received(site, 1, EventKind.TELEMETRY)]


async def test_a_link_that_ends_slowly_delays_no_other_organisation(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, quiet = await market.add(database), await market.add(database)
    held, released = hold_events(monkeypatch, busy)
    monkeypatch.setattr("gridfleet.amqp.partner_gateway.STOP_SECONDS", 60)
    async with market.gateway():
        async with database.transaction() as db:
            await queue_events(db, [telemetry(busy)])
        await asyncio.wait_for(held.wait(), 20)
        await busy.execute(f"UPDATE partner_key SET scopes = '{{telemetry:read}}' WHERE id = '{busy.sender.key.id}'")
        for _ in range(5):  # the link is stopped meanwhile
            async with database.transaction() as db:
                await queue_events(db, [telemetry(quiet)])
            async with asyncio.timeout(20):
                while await quiet.rows(waiting_events(quiet)):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
        released.set()


async def test_a_full_share_is_filled_again_although_another_organisation_was_served_meanwhile(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, quiet = await market.add(database), await market.add(database)
    (held, released), noticed_only = hold_events(monkeypatch, busy), asyncio.Event()

    async def wait_without_polling(event: asyncio.Event, seconds: float) -> None:
        await (event.wait() if noticed_only.is_set() else wait_at_most(event, seconds))

    monkeypatch.setattr("gridfleet.amqp.partner_gateway.wait_at_most", wait_without_polling)
    async with market.gateway():
        async with database.transaction() as db:
            await queue_events(db, [telemetry(busy) for _ in range(1_500)])
        await asyncio.wait_for(held.wait(), 20)
        noticed_only.set()
        await asyncio.sleep(1.5)  # the last poll has ended
        async with database.transaction() as db:
            await queue_events(db, [telemetry(quiet)])
        async with asyncio.timeout(20):
            while await quiet.rows(waiting_events(quiet)):
                await asyncio.sleep(0.05)
        released.set()
        async with asyncio.timeout(20):
            while await busy.rows(waiting_events(busy)):
                await asyncio.sleep(0.05)


async def test_publishing_resumes_when_a_full_window_fails_during_a_look_for_events(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [await market.add(database) for _ in range(6)]
    first = sites[0]
    publish = PartnerLink.publish
    sending, slow = 0, False
    confirmed, looking, looked, failed = (asyncio.Event() for _ in range(4))

    async def publish_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        nonlocal sending
        if failed.is_set():
            return await publish(link, events)
        sending += len(events)
        if link.served.key.id == first.sender.key.id:
            await confirmed.wait()
            return await publish(link, events)
        await failed.wait()
        raise ConnectionError("the broker is gone")

    async def next_late(*arguments: Any) -> list[QueuedEvent]:
        if slow and not looked.is_set():
            looking.set()
            await looked.wait()
        return await next_events(*arguments)

    monkeypatch.setattr(PartnerLink, "publish", publish_late)
    monkeypatch.setattr("gridfleet.amqp.partner_gateway.next_events", next_late)
    async with market.gateway():
        total = 0
        for count in (250, 333, 300):
            async with database.transaction() as db:
                await queue_events(db, [telemetry(site) for site in sites for _ in range(count)])
            total += count * len(sites)
            async with asyncio.timeout(20):
                while sending < total:
                    await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)  # the window is full
        slow = True
        confirmed.set()
        await asyncio.wait_for(looking.wait(), 20)
        failed.set()
        await asyncio.sleep(3)  # each batch has ended after its pause
        looked.set()
        async with asyncio.timeout(20):
            while await first.rows("SELECT 1 FROM partner_event LIMIT 1"):
                await asyncio.sleep(0.05)


async def test_events_that_no_vhost_serves_are_dropped(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They waited a day, and raised the alert that no process publishes events."""
    monkeypatch.setattr(event_upkeep, "UPKEEP_SECONDS", 0.5)
    site = await market.add(database)
    other = await market.add(database)
    await site.execute("UPDATE partner_key SET revoked_at = now(), amqp_slug = NULL WHERE organization_id = %(org)s")
    _, released = hold_events(monkeypatch, other)
    async with database.transaction() as db:
        await queue_events(db, [telemetry(site), telemetry(other)])
    await site.execute("UPDATE partner_event SET at = now() - interval '2 minutes' WHERE %(org)s IS NOT NULL")
    async with database.transaction() as db:
        await queue_events(db, [telemetry(site)])
    async with market.gateway():
        async with asyncio.timeout(20):
            while len(await site.rows("SELECT FROM partner_event WHERE organization_id = %(org)s")) > 1:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1.5)  # some more times
        assert [len(await one.rows("SELECT FROM partner_event WHERE organization_id = %(org)s")) for one in (site, other)] == [
            1,
            1,
        ]
        released.set()
        await market.received(other, 1, EventKind.TELEMETRY)


def hold_events(monkeypatch: pytest.MonkeyPatch, site: PartnerSite) -> tuple[asyncio.Event, asyncio.Event]:
    """Keep the site's events from being published. Returns what is set when the first is held, and what releases them."""
    held, released = asyncio.Event(), asyncio.Event()
    publish = PartnerLink.publish

    async def publish_late(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        if link.served.key.id == site.sender.key.id:
            held.set()
            await released.wait()
        return await publish(link, events)

    monkeypatch.setattr(PartnerLink, "publish", publish_late)
    return held, released


def telemetry(site: PartnerSite) -> NewEvent:
    plant = site.plant
    return NewEvent(new_id(), plant.organization_id, plant.id, None, EventKind.TELEMETRY, b"{}")


def waiting_events(site: PartnerSite) -> str:
    return f"SELECT 1 FROM partner_event WHERE organization_id = '{site.plant.organization_id}' LIMIT 1"


async def published(site: PartnerSite, events: Sequence[NewEvent]) -> None:
    """Queue events, and wait until none waits."""
    async with site.database.transaction() as db:
        await queue_events(db, events)
    await until_published(site)


async def until_published(site: PartnerSite) -> None:
    async with asyncio.timeout(30):
        while await site.rows("SELECT 1 FROM partner_event"):
            await asyncio.sleep(0.05)


async def test_an_event_that_cannot_be_published_is_set_aside_once(market: Market, database: Database) -> None:
    site = await market.add(database)
    other = await market.add_key(site)
    await site.execute("ALTER TABLE partner_event DROP CONSTRAINT partner_event_kind_values")
    counted = metrics.SET_ASIDE.labels(Consumer.PARTNER_EVENTS)
    before = value_of(counted)
    bodies = {b'{"n": 1}': EventKind.ALERT, b"{}": "of a later release", b'{"n": 2}': EventKind.ALERT}
    events = [
        NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, kind, body)  # type: ignore[arg-type]
        for body, kind in bodies.items()
    ]
    async with market.gateway():
        await published(site, events)
        for one in (site, other):
            assert [event["n"] for event in await market.received(one, 2, EventKind.ALERT)] == [1, 2]
    found = await site.rows("SELECT consumer, reason, content->>'eventId' FROM set_aside")
    reason = "ValueError: 'of a later release' is not a valid EventKind"
    assert found == [(Consumer.PARTNER_EVENTS, reason, str(events[1].event_id))]
    assert value_of(counted) - before == 1


async def test_an_event_is_set_aside_once_although_another_vhost_does_not_confirm_it(
    market: Market, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = await market.add(database)
    full = await market.add_key(site)
    publish = PartnerLink.publish
    tries = 0

    async def failing(link: PartnerLink, events: Sequence[QueuedEvent]) -> list[bool]:
        nonlocal tries
        if link.served.key.id == site.sender.key.id:
            tries += 1
            raise ValueError("cannot be encoded")
        return await publish(link, events)

    monkeypatch.setattr(PartnerLink, "publish", failing)
    event = NewEvent(new_id(), site.plant.organization_id, site.plant.id, None, EventKind.ALERT, b"{}")
    async with market.channel(full) as channel:
        rejecting = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await channel.queue_declare("full", arguments=dict(rejecting))
        await channel.basic_publish(b"{}", routing_key="full")
        await channel.queue_bind("full", EXCHANGE, event_routing_key(full.sender.key.slug, EventKind.ALERT))
        async with market.gateway():
            publishing = asyncio.create_task(published(site, [event]))
            async with asyncio.timeout(20):
                while tries < 3:
                    await asyncio.sleep(0.05)
            assert await site.rows("SELECT reason FROM set_aside") == []
            await channel.queue_delete("full")
            await publishing
    assert (await market.received(full, 1, EventKind.ALERT))[0]["id"] == str(event.event_id)
    assert await site.rows("SELECT reason FROM set_aside") == [("ValueError: cannot be encoded",)]
