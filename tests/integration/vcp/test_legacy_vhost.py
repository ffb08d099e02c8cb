"""The vhost that legacy keys share: a queue for each organisation, and the end of the queue that they once shared."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any
from uuid import uuid4

import aiormq
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import DeliveryError
from pydantic import SecretStr
from structlog.testing import capture_logs

from gridfleet.amqp.legacy_vhost import empty_intake, keep_legacy_vhost
from gridfleet.domains.partners.legacy import topology
from gridfleet.domains.partners.legacy.importing import Imported, import_keys, read_keys
from gridfleet.domains.partners.legacy.topology import LEGACY_COMMANDS, LEGACY_INTAKE, ensure_legacy_vhost
from gridfleet.domains.partners.topology import COMMANDS, PartnerQueues, inbound_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.decoding import UNDECODABLE
from gridfleet.kernel.broker.management import Management, open_management
from gridfleet.kernel.db import Database
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.protocol.partner_routes import LEGACY_VHOST, SIGNATURE_HEADER, TIMESTAMP_HEADER
from support.builders.accounts import add_organization, add_user
from support.clients.raw_properties import GROWING, STRANGE, STRANGE_HEADERS, RawProperties, field, headers, text
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

BINARY = {"binary signature": headers(field(SIGNATURE_HEADER.encode(), text(b"\xff")))}
PROPERTIES = STRANGE | STRANGE_HEADERS | GROWING | BINARY
ACME, OTHER = PartnerQueues("acme", "acme"), PartnerQueues("other", "other")
MAX_WAITING = 50


@asynccontextmanager
async def legacy_vhost(broker: BrokerNode) -> AsyncIterator[tuple[Management, AbstractChannel]]:
    """The shared vhost with the queues of two organisations."""
    async with open_management(broker.management_url) as management, open_channel(broker.url, LEGACY_VHOST) as channel:
        try:
            for queues in (ACME, OTHER):
                await ensure_legacy_vhost(management, broker.url, queues)
            yield management, channel
        finally:
            for name in (*ACME.names, *OTHER.names, *LEGACY_INTAKE):
                await management.delete_queue(LEGACY_VHOST, name)


async def declare_intake(management: Management, channel: AbstractChannel) -> None:
    """Declare and bind the shared queue, as older releases did."""
    await channel.queue_declare(LEGACY_INTAKE[0], durable=True)
    await channel.queue_bind(LEGACY_INTAKE[0], "vcp", "#")
    await management.delete_policy(LEGACY_VHOST, "vcp.commands")


async def publish(channel: AbstractChannel, slug: str, body: str) -> None:
    await channel.basic_publish(body.encode(), exchange="vcp", routing_key=f"{slug}.command.mode", timeout=20)


async def take_all(channel: AbstractChannel, queue: str) -> list[str]:
    bodies = []
    while isinstance((got := await channel.basic_get(queue, no_ack=True)).delivery, aiormq.spec.Basic.GetOk):
        bodies.append(got.body.decode())
    return bodies


async def test_a_full_queue_of_one_organisation_refuses_no_command_of_another(
    broker: BrokerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "COMMANDS", {**COMMANDS, "max-length": MAX_WAITING})
    async with legacy_vhost(broker) as (_, channel):
        refused = 0
        for number in range(2 * MAX_WAITING):
            try:
                await publish(channel, "acme", str(number))
            except DeliveryError:
                refused += 1
        assert refused == MAX_WAITING
        await publish(channel, "other", "on time")
        assert await take_all(channel, inbound_queue("other")) == ["on time"]


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    ("step", "is_done"),
    [
        (None, False),
        ("put_policy", False),
        ("keep_only_bindings", False),
        ("keep_only_bindings", True),
        ("delete_policy", True),
    ],
)
async def test_no_command_in_the_shared_queue_is_lost_or_copied(
    broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, step: str | None, is_done: bool
) -> None:
    """Whether the process runs to its end or is killed, while commands arrive."""

    async def publish_on(channel: AbstractChannel, published: list[str]) -> None:
        while True:
            slug = ("acme", "other")[len(published) % 2]
            await publish(channel, slug, f"{slug} {len(published)}")
            published.append(f"{slug} {len(published)}")

    published: list[str] = []
    async with legacy_vhost(broker) as (management, channel), open_channel(broker.url, LEGACY_VHOST) as publishing:
        await declare_intake(management, channel)
        async with running(publish_on(publishing, published)) as partner:
            while len(published) < 20:
                await asyncio.sleep(0.05)
            if step is not None:
                with monkeypatch.context() as patched:
                    kill_at(patched, management, step, is_done)
                    with pytest.raises(Killed):
                        await empty_intake(management, broker.url)
            await empty_intake(management, broker.url)
            count = len(published)
            while len(published) < count + 10:
                await asyncio.sleep(0.05)
            assert not partner.done()
            sent = set(published)
        assert not set(LEGACY_INTAKE) & set(await management.queue_types(LEGACY_VHOST))
        arrived = [body for slug in ("acme", "other") for body in await take_all(channel, inbound_queue(slug))]
    assert len(set(arrived)) == len(arrived)
    assert sent <= set(arrived)
    assert arrived[:10] == [body for body in published if body.startswith("acme")][:10]


def kill_at(patched: pytest.MonkeyPatch, management: Management, step: str, is_done: bool) -> None:
    """Let the process end before or after its first request of this kind."""
    request = getattr(management, step)

    async def end(*arguments: Any, **named: Any) -> None:
        if is_done:
            await request(*arguments, **named)
        raise Killed

    patched.setattr(management, step, end)


async def test_commands_without_room_stay_in_the_shared_queue(broker: BrokerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "COMMANDS", {**COMMANDS, "max-length": MAX_WAITING})
    commands = [str(number) for number in range(MAX_WAITING + 20)]
    async with legacy_vhost(broker) as (management, channel):
        await declare_intake(management, channel)
        for body in commands:
            await publish(channel, "acme", body)
        await publish(channel, "other", "behind them")
        await empty_intake(management, broker.url)
        assert await take_all(channel, inbound_queue("other")) == ["behind them"]
        assert await take_all(channel, inbound_queue("acme")) == commands[:MAX_WAITING]
        await empty_intake(management, broker.url)
        assert await take_all(channel, inbound_queue("acme")) == commands[MAX_WAITING:]
        assert not set(LEGACY_INTAKE) & set(await management.queue_types(LEGACY_VHOST))


async def test_strange_properties_hold_up_no_command_in_the_shared_queue(broker: BrokerNode) -> None:
    given = {SIGNATURE_HEADER: "0" * 64, TIMESTAMP_HEADER: 1, "CC": ["nowhere"], "other": {"a": 1}}
    good = aiormq.spec.Basic.Properties(headers=given)
    async with legacy_vhost(broker) as (management, channel):
        await declare_intake(management, channel)
        queue = (await channel.queue_declare(exclusive=True)).queue or ""
        await channel.queue_bind(queue, LEGACY_COMMANDS, "acme.#")
        for name, properties in [*((name, RawProperties(raw)) for name, raw in PROPERTIES.items()), ("good", good)]:
            await channel.basic_publish(name.encode(), exchange="vcp", routing_key="acme.command.mode", properties=properties)
        await empty_intake(management, broker.url)
        arrived = await _arrived(channel, queue, len(PROPERTIES) + 1)
    assert list(arrived) == [*PROPERTIES, "good"]
    assert {name for name, found in arrived.items() if UNDECODABLE in found} >= set(STRANGE_HEADERS)
    assert arrived["good"] == {SIGNATURE_HEADER: "0" * 64, TIMESTAMP_HEADER: 1, "cc": ""}


async def test_a_management_call_that_takes_too_long_is_tried_again(database: Database, broker: BrokerNode) -> None:
    """As when partners publish at a high rate."""
    await _import_key(database)
    calls = 0

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await reader.read()
        writer.close()

    server = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    urls = {"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(f"http://a:b@127.0.0.1:{port}")}
    settings = broker.settings.model_copy(update=urls)
    with capture_logs() as lines:
        async with server, running(keep_legacy_vhost(settings, database)) as keeping, asyncio.timeout(60):
            while calls < 2 and not keeping.done():
                await asyncio.sleep(0.1)
            assert not keeping.done()
    assert "management call took too long, retrying" in [line["event"] for line in lines]


async def _import_key(database: Database) -> None:
    """Import a legacy key of a new organisation."""
    organization, creator = await add_organization(database), await add_user(database)
    key = f"{uuid4()},{organization.slug},{sha256(organization.id.bytes).hexdigest()},vcp:connect"
    async with database.transaction() as db:
        keys = read_keys(f"id,organisation,hash,scopes\n{key}")
        assert await import_keys(db, Keyring.parse(Keyring.generate()), creator.id, keys) == Imported(1, 0)


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
