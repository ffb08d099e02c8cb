"""What a partner can reach at the broker, and every way around it that we know of, tried for real."""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelAccessRefused
from pamqp.common import FieldValue

from gridfleet.protocol.partner_routes import EventKind, event_queue
from support.clients.fleet_under_test import JsonObject
from support.clients.partner_organization import Organization

Act = Callable[[AbstractChannel], Awaitable[object]]


@pytest.fixture(scope="module")
def created(acme: Organization, acme_energy: Organization) -> JsonObject:
    acme_energy.key()
    return acme.key()


@pytest.fixture
async def channel(acme: Organization, created: JsonObject) -> AsyncIterator[AbstractChannel]:
    async with acme.connected(created) as connection:
        yield await connection.channel()


async def refuses(channel: AbstractChannel, act: Act) -> bool:
    """Whether the broker closes the channel over it."""
    try:
        await act(channel)
    except ChannelAccessRefused:
        return True
    return False


def publish(exchange: str, key: str) -> Act:
    return lambda channel: channel.basic_publish(b"{}", exchange=exchange, routing_key=key)


def bind(queue: str, exchange: str, key: str) -> Act:
    return lambda channel: channel.queue_bind(queue, exchange, routing_key=key)


async def test_own_queues_catch_the_own_events(acme: Organization, channel: AbstractChannel) -> None:
    own = f"{acme.slug}.mine"
    await channel.queue_declare(own, durable=True)
    for key in (f"{acme.slug}.event.telemetry", f"{acme.slug}.event.*", f"{acme.slug}.event.#"):
        await channel.queue_bind(own, "vcp", routing_key=key)
        await channel.queue_unbind(own, "vcp", routing_key=key)
    assert (await channel.basic_get(own, no_ack=True)).delivery.name == "Basic.GetEmpty"
    await channel.queue_delete(own)


@pytest.mark.parametrize(
    "key",
    ["command.site-setpoint", "command.device", "command.device.INV1", "command.mode", "schedule.set", "config.fallback"],
)
async def test_every_family_can_be_published(acme: Organization, channel: AbstractChannel, key: str) -> None:
    assert not await refuses(channel, publish("vcp", f"{acme.slug}.{key}"))


FOREIGN_KEYS = [
    "{other}.command.mode",
    "{slug}-energy.command.mode",
    "{slug}",
    "{slug}.",
    ".{slug}.command.mode",
    "{slug}command.mode",
    "{slug}.event.telemetry",
    "{slug}.event.command-ack",
    "{slug}.command",
    "{slug}.command.mode.x",
    "{slug}.command.device.",
    "{slug}.command.device.a.b",
    "{slug}.schedule",
    "{slug}.schedule.set.x",
    "{slug}.config.",
    "{slug}.#",
    "*.command.mode",
    "#",
    "",
]


@pytest.mark.parametrize("key", FOREIGN_KEYS)
async def test_no_other_key_can_be_published(
    acme: Organization, acme_energy: Organization, channel: AbstractChannel, key: str
) -> None:
    assert await refuses(channel, publish("vcp", key.format(slug=acme.slug, other=acme_energy.slug)))


@pytest.mark.parametrize("exchange", ["", "amq.topic", "amq.direct", "amq.fanout", "amq.headers", "amq.match"])
@pytest.mark.parametrize("key", ["{slug}.inbound", "{slug}.mine", "{slug}.command.mode"])
async def test_no_other_exchange_takes_anything(acme: Organization, channel: AbstractChannel, exchange: str, key: str) -> None:
    assert await refuses(channel, publish(exchange, key.format(slug=acme.slug)))


@pytest.mark.parametrize(
    "name",
    [
        "{slug}.inbound",
        "{slug}.inbound.replacing",
        "{slug}",
        "{slug}x",
        "{slug}-energy.x",
        "{other}.x",
        "vcp.x",
        "vcp.{slug}.event.mine",
        "x",
        "amq.gen-x",
    ],
)
async def test_no_other_queue_can_be_declared(
    acme: Organization, acme_energy: Organization, channel: AbstractChannel, name: str
) -> None:
    text = name.format(slug=acme.slug, other=acme_energy.slug)
    assert await refuses(channel, lambda channel: channel.queue_declare(text, durable=True))


async def test_a_queue_without_a_name_is_nobodys(channel: AbstractChannel) -> None:
    assert await refuses(channel, lambda channel: channel.queue_declare("", exclusive=True))


async def test_the_outbound_queues_can_be_read_only(acme: Organization, created: JsonObject) -> None:
    outbound = event_queue(acme.slug, EventKind.ALERT)
    acts: list[Act] = [
        lambda channel: channel.queue_delete(outbound),
        lambda channel: channel.queue_declare(outbound, durable=False),
        bind(outbound, "vcp", f"{acme.slug}.event.telemetry"),
        lambda channel: channel.queue_unbind(outbound, "vcp", routing_key=f"{acme.slug}.event.alert"),
    ]
    async with acme.connected(created) as connection:
        for act in acts:
            assert await refuses(await connection.channel(), act)


async def test_the_inbound_queue_is_not_the_partners(acme: Organization, created: JsonObject) -> None:
    inbound = f"{acme.slug}.inbound"
    acts: list[Act] = [
        lambda channel: channel.basic_get(inbound, no_ack=True),
        lambda channel: channel.queue_purge(inbound),
        lambda channel: channel.queue_delete(inbound),
        bind(inbound, "vcp", f"{acme.slug}.event.telemetry"),
    ]
    async with acme.connected(created) as connection:
        for act in acts:
            assert await refuses(await connection.channel(), act)


@pytest.mark.parametrize(
    "key", ["#", "*.event.telemetry", "{slug}.#", "{slug}.*.telemetry", "{slug}.command.mode", "{other}.event.telemetry", ""]
)
async def test_own_queues_catch_nothing_else(
    acme: Organization, acme_energy: Organization, channel: AbstractChannel, key: str
) -> None:
    own = f"{acme.slug}.narrow"
    await channel.queue_declare(own, auto_delete=True)
    assert await refuses(channel, bind(own, "vcp", key.format(slug=acme.slug, other=acme_energy.slug)))


async def test_exchanges_are_neither_made_nor_bound(acme: Organization, created: JsonObject) -> None:
    key = f"{acme.slug}.event.telemetry"
    acts: list[Act] = [
        lambda channel: channel.exchange_declare(f"{acme.slug}.x", exchange_type="topic"),
        lambda channel: channel.exchange_delete("vcp"),
        lambda channel: channel.exchange_bind("vcp", "amq.topic", routing_key=key),
        lambda channel: channel.exchange_bind("amq.topic", "vcp", routing_key=key),
        lambda channel: channel.exchange_bind("amq.fanout", "vcp", routing_key=key),
        lambda channel: channel.exchange_bind("vcp", "vcp", routing_key=f"{acme.slug}.command.mode"),
        lambda channel: channel.exchange_bind("vcp", "vcp", routing_key="#"),
    ]
    async with acme.connected(created) as connection:
        for act in acts:
            assert await refuses(await connection.channel(), act)


async def test_what_dies_in_an_own_queue_goes_to_no_queue_by_name(acme: Organization, channel: AbstractChannel) -> None:
    arguments: dict[str, FieldValue] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{acme.slug}.inbound"}
    own = f"{acme.slug}.dying"
    assert await refuses(channel, lambda channel: channel.queue_declare(own, arguments=arguments))


async def test_a_key_publishes_what_its_scopes_name(acme: Organization) -> None:
    writer = acme.key(["vcp:write:setpoint"])
    async with acme.connected(writer) as connection:
        channel = await connection.channel()
        await channel.basic_publish(b"{}", exchange="vcp", routing_key=f"{acme.slug}.command.site-setpoint")
        assert await refuses(channel, publish("vcp", f"{acme.slug}.command.mode"))
        reading: Act = lambda channel: channel.basic_get(event_queue(acme.slug, EventKind.STATUS), no_ack=True)  # noqa: E731
        assert await refuses(await connection.channel(), reading)
    reader = acme.key(["vcp:connect"])
    async with acme.connected(reader) as connection:
        assert await refuses(await connection.channel(), publish("vcp", f"{acme.slug}.command.site-setpoint"))


async def test_the_management_interface_is_closed(acme: Organization, created: JsonObject) -> None:
    url = f"http://127.0.0.1:{acme.stack.ports['management_port']}/api/overview"
    assert httpx.get(url, auth=(acme.slug, created["key"])).status_code == 401


async def test_an_exchange_bound_to_itself_delivers_once(acme: Organization, created: JsonObject) -> None:
    """The one binding between exchanges that the broker takes for a partner's permitted binding and publishing."""
    vhost, own = created["apiKey"]["vhost"], f"{acme.slug}.once"
    async with acme.connected(created) as connection, acme.service_channel(vhost) as service:
        channel = await connection.channel()
        await channel.queue_declare(own, auto_delete=True)
        await channel.queue_bind(own, "vcp", routing_key=f"{acme.slug}.event.alert")
        await channel.exchange_bind("vcp", "vcp", routing_key=f"{acme.slug}.event.alert")
        await service.basic_publish(b"once", exchange="vcp", routing_key=f"{acme.slug}.event.alert")
        assert (await channel.basic_get(own, no_ack=True)).body == b"once"
        assert (await channel.basic_get(own, no_ack=True)).delivery.name == "Basic.GetEmpty"
