"""A partner's client against a broker: what it loses, and what it does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import UUID, uuid4

import aiormq
import httpx
import pytest
from yarl import URL

from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.protocol.partner_routes import EXCHANGE, event_queue, event_routing_key
from gridfleet.sdk.partner import CommandKind, CommandRefused, EventKind, LoginRefused, Partner
from support.servers.broker_line import broker_line
from support.servers.broker_node import BrokerNode

SITE = "018f6b1e-7c1a-7c3e-9b0a-3d1f5a2b4c6d"


@dataclass
class Vhost:
    """A vhost of a partner's own, whose key may order anything but modes."""

    node: BrokerNode
    name: str
    slug: str

    @property
    def address(self) -> str:
        return str(URL(self.node.url).with_user(self.slug).with_password("the key").with_path(f"/{self.name}"))

    async def settle(self) -> None:
        async with open_management(self.node.management_url) as management:
            await ensure_partner_vhost(management, self.node.url, self.name, PartnerQueues(self.slug, self.slug))

    async def publish(self, kind: EventKind, **content: str) -> UUID:
        """Publishes an event; its id."""
        event_id = uuid4()
        async with open_channel(self.node.url, self.name) as channel:
            await channel.basic_publish(
                json.dumps(content).encode(),
                exchange=EXCHANGE,
                routing_key=event_routing_key(self.slug, kind),
                mandatory=True,
                properties=aiormq.spec.Basic.Properties(message_id=str(event_id)),
            )
        return event_id

    async def lose(self, kind: EventKind) -> None:
        async with open_channel(self.node.url, self.name) as channel:
            await channel.queue_delete(event_queue(self.slug, kind))


@pytest.fixture
async def vhost(broker: BrokerNode) -> AsyncIterator[Vhost]:
    name = uuid4().hex
    found = Vhost(broker, f"client-{name}", f"trader-{name[:8]}")
    await found.settle()
    management = URL(broker.management_url)
    async with httpx.AsyncClient(
        base_url=str(management.with_user(None)), auth=(management.user or "", management.password or "")
    ) as http:
        for path, content in (
            (f"users/{found.slug}", {"password": "the key", "tags": ""}),
            (f"permissions/{found.name}/{found.slug}", {"configure": "", "write": ".*", "read": ".*"}),
            (
                f"topic-permissions/{found.name}/{found.slug}",
                {"exchange": EXCHANGE, "write": rf"^{found.slug}\.command\.site-setpoint$", "read": ".*"},
            ),
        ):
            (await http.put(f"/api/{path}", json=content)).raise_for_status()
        yield found
        await http.delete(f"/api/users/{found.slug}")
        await http.delete(f"/api/vhosts/{found.name}")


async def test_an_event_that_was_not_worked_off_comes_again(vhost: Vhost) -> None:
    published = await vhost.publish(EventKind.ALERT, message="1")
    async with Partner(vhost.address) as partner, asyncio.timeout(20):
        events = partner.events(EventKind.ALERT)
        assert (await anext(events)).id == published
        await events.aclose()  # as when the code that handles the events fails
        events = partner.events(EventKind.ALERT)
        assert (await anext(events)).id == published
        later = await vhost.publish(EventKind.ALERT, message="2")
        assert (await anext(events)).id == later
        await events.aclose()


async def test_an_order_that_is_refused_takes_no_other_along(vhost: Vhost) -> None:
    async with Partner(vhost.address) as partner, asyncio.timeout(20):
        for _ in range(5):
            outcomes = await asyncio.gather(
                *(partner.send(CommandKind.SETPOINT, SITE, powerKw=1) for _ in range(5)),
                partner.send(CommandKind.MODE, SITE, mode="AUTO"),
                *(partner.send(CommandKind.SETPOINT, SITE, powerKw=1) for _ in range(5)),
                return_exceptions=True,
            )
            assert [type(one) for one in outcomes] == [str] * 5 + [CommandRefused] + [str] * 5


async def test_acks_are_waited_for_again_after_they_were_lost(vhost: Vhost) -> None:
    order = str(uuid4())
    await vhost.lose(EventKind.COMMAND_ACK)
    async with Partner(vhost.address, patience_seconds=0.2) as partner, asyncio.timeout(20):
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await partner.wait_for(order)
        await vhost.settle()
        await vhost.publish(EventKind.COMMAND_ACK, messageId=order, ackStatus="ACCEPTED")
        assert (await partner.wait_for(order))["ackStatus"] == "ACCEPTED"


async def test_events_arrive_although_their_queue_was_missing_for_a_moment(vhost: Vhost) -> None:
    """As after a restore of the broker, until the service has declared it again."""
    await vhost.lose(EventKind.ALERT)
    async with Partner(vhost.address) as partner, asyncio.timeout(20):
        events = partner.events(EventKind.ALERT)
        arriving = asyncio.create_task(anext(events))
        await asyncio.sleep(1)
        await vhost.settle()
        published = await vhost.publish(EventKind.ALERT, message="1")
        assert (await arriving).id == published
        await events.aclose()


async def test_a_command_is_sent_although_its_exchange_was_missing_for_a_moment(vhost: Vhost) -> None:
    async with open_channel(vhost.node.url, vhost.name) as channel:
        await channel.exchange_delete(EXCHANGE)
    async with Partner(vhost.address) as partner, asyncio.timeout(20):
        sending = asyncio.create_task(partner.send(CommandKind.SETPOINT, SITE, powerKw=1))
        await asyncio.sleep(1)
        await vhost.settle()
        await sending


async def test_a_command_is_refused_if_its_exchange_stays_missing(vhost: Vhost) -> None:
    async with open_channel(vhost.node.url, vhost.name) as channel:
        await channel.exchange_delete(EXCHANGE)
    async with Partner(vhost.address, patience_seconds=0.2) as partner, asyncio.timeout(20):
        with pytest.raises(CommandRefused):
            await partner.send(CommandKind.SETPOINT, SITE, powerKw=1)


async def test_sending_ends_while_the_broker_blocks_publishers(vhost: Vhost) -> None:
    """It reads nothing from them during an alarm of memory or disk, and keeps the connection open."""
    alarm = "{resource_limit, memory, N}"
    async with Partner(vhost.address, patience_seconds=1) as partner, asyncio.timeout(60):
        await partner.send(CommandKind.SETPOINT, SITE, powerKw=1)
        vhost.node.evaluate(f"rpc:call(N, rabbit_alarm, set_alarm, [{{{alarm}, []}}])")
        try:
            with pytest.raises(ConnectionError, match="not confirmed"):
                await asyncio.wait_for(partner.send(CommandKind.SETPOINT, SITE, powerKw=2), 15)
        finally:
            vhost.node.evaluate(f"rpc:call(N, rabbit_alarm, clear_alarm, [{alarm}])")
        await partner.send(CommandKind.SETPOINT, SITE, powerKw=3)


async def test_a_command_is_sent_again_after_the_line_hung(vhost: Vhost) -> None:
    async with (
        broker_line(vhost.node.url) as line,
        asyncio.timeout(60),
        Partner(f"{line.url(vhost.address)}?heartbeat=2") as partner,
    ):
        await partner.send(CommandKind.SETPOINT, SITE, powerKw=1)
        line.hang()
        sending = asyncio.create_task(partner.send(CommandKind.SETPOINT, SITE, powerKw=2))
        await asyncio.wait({sending})
        assert not sending.cancelled()
        assert sending.exception() is None


async def test_the_second_address_is_used_while_the_first_is_dead(vhost: Vhost, unused_tcp_port: int) -> None:
    dead = str(URL(vhost.address).with_port(unused_tcp_port))
    async with Partner([dead, vhost.address]) as partner, asyncio.timeout(20):
        await partner.send(CommandKind.SETPOINT, SITE, powerKw=1)


async def test_a_client_continues_at_the_second_address(vhost: Vhost) -> None:
    async with AsyncExitStack() as first, broker_line(vhost.node.url) as second:
        line = await first.enter_async_context(broker_line(vhost.node.url))
        async with Partner([line.url(vhost.address), second.url(vhost.address)]) as partner, asyncio.timeout(30):
            events = partner.events(EventKind.ALERT)
            published = await vhost.publish(EventKind.ALERT, message="1")
            assert (await anext(events)).id == published
            await partner.send(CommandKind.SETPOINT, SITE, powerKw=1)
            assert (len(line.serving), len(second.serving)) == (1, 0)

            await first.aclose()
            await partner.send(CommandKind.SETPOINT, SITE, powerKw=2)
            later = await vhost.publish(EventKind.ALERT, message="2")
            assert (await anext(events)).id == later
            await events.aclose()
            assert len(second.serving) == 1


async def test_a_refused_login_is_tried_at_one_address(vhost: Vhost) -> None:
    async with broker_line(vhost.node.url) as first, broker_line(vhost.node.url) as second:
        wrong = [line.url(vhost.address).replace("the%20key", "wrong") for line in (first, second)]
        with pytest.raises(LoginRefused):
            async with Partner(wrong):
                pass
        assert (len(first.serving), len(second.serving)) == (1, 0)
