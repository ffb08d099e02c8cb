"""Imported keys in the vhost `/`, which they share: they are served, and no organisation reaches another's queues."""

import asyncio
import contextlib
import json
import shutil
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import aiormq
import httpx
import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import AMQPError, ChannelAccessRefused, ChannelPreconditionFailed

from gridfleet.domains.partners.key_text import make_key
from gridfleet.protocol.partner_routes import EventKind
from support.builders.partner_commands import order
from support.clients.fleet_under_test import JsonObject, wait_for
from support.clients.legacy_keys import Legacy, created, import_keys
from support.clients.partner_organization import Organization
from support.clients.raw_amqp import answer, authenticate, enter, raw_streams
from support.servers.running_stack import RunningStack

SIGNING_KEY = bytes(range(32))
Act = Callable[[AbstractChannel], Awaitable[object]]


@pytest.fixture(scope="module")
def legacy(
    stack: RunningStack, acme: Organization, acme_energy: Organization, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Legacy, Legacy]]:
    """Two organisations; one key has the form of today's, of the other one the service gets the hash alone."""
    ours, older = make_key().text, f"legacy-{uuid4().hex}"
    ids = [str(uuid4()), str(uuid4())]
    rows = [
        {"id": ids[0], "organisation": acme.slug, "key": ours, "hash": "", "scopes": "vcp:connect", "expiry": "",
         "signing_key": SIGNING_KEY.hex()},
        {"id": ids[1], "organisation": acme_energy.organization_id, "key": "", "hash": sha256(older.encode()).hexdigest(),
         "scopes": "trading:connect", "expiry": "2099-01-01T00:00:00Z", "signing_key": ""},
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("keys")
    done = import_keys(stack, folder, rows)
    assert (done.returncode, done.stdout) == (0, "2 keys imported, 0 existed already\n"), done.stderr
    again = import_keys(stack, folder, rows)
    assert (again.returncode, again.stdout) == (0, "0 keys imported, 2 existed already\n"), again.stderr
    found = Legacy(acme, created(ours, ids[0])), Legacy(acme_energy, created(older, ids[1]))
    for one in found:
        wait_for(lambda one=one: set(one.queues) <= set(acme.queues("%2F")))
    yield found
    for one in found:
        one.org.revoke(one.key)


async def events(legacy: Legacy, kind: EventKind, count: int) -> list[JsonObject]:
    """The next events in an outbound queue."""
    found: list[JsonObject] = []
    async with legacy.org.connected(legacy.key) as connection, asyncio.timeout(30):
        channel = await connection.channel()
        while len(found) < count:
            got = await channel.basic_get(legacy.queue(kind), no_ack=True)
            if isinstance(got.delivery, aiormq.spec.Basic.GetOk):
                found.append(json.loads(got.body))
            else:
                await asyncio.sleep(0.05)
    return found


async def waiting(legacy: Legacy) -> dict[str, int]:
    """How many messages wait in each queue of an organisation."""
    async with legacy.org.service_channel("/") as channel:
        return {name: (await channel.queue_declare(name, passive=True)).message_count or 0 for name in legacy.queues}


async def send(legacy: Legacy, kind: str, **changes: Any) -> str:
    """Publish an order for a site that does not exist; return its messageId."""
    headers = changes.pop("headers", {})
    message = order(kind, uuid4(), slug=legacy.org.slug, **changes)
    async with legacy.org.connected(legacy.key) as connection:
        channel = await connection.channel()
        properties = aiormq.spec.Basic.Properties(headers={**message.headers, **headers})
        await channel.basic_publish(message.body, exchange="vcp", routing_key=message.routing_key, properties=properties)
    return str(json.loads(message.body)["messageId"])


async def test_orders_are_taken_and_answered(legacy: tuple[Legacy, Legacy]) -> None:
    for one in legacy:
        sent = await send(one, "command.site-setpoint", powerKw=1)
        [ack] = await events(one, EventKind.COMMAND_ACK, 1)
        assert (ack["messageId"], ack["rejectionReason"]) == (sent, "SITE_UNKNOWN")


async def test_signed_orders_need_the_imported_signing_key(legacy: tuple[Legacy, Legacy]) -> None:
    reasons = []
    for one in legacy:
        await send(one, "command.mode", mode="AUTO")
        reasons += [ack["rejectionReason"] for ack in await events(one, EventKind.COMMAND_ACK, 1)]
    assert reasons == ["SITE_UNKNOWN", "SIGNATURE_INVALID"]


async def test_events_reach_their_organisation_alone(legacy: tuple[Legacy, Legacy]) -> None:
    mine, other = legacy
    body = json.dumps({"alertId": str(uuid4())}).encode()
    mine.org.sql(
        "INSERT INTO partner_event (event_id, organization_id, kind, body) VALUES (%s, %s, 'alert', %s)",
        [str(uuid4()), mine.org.organization_id, body],
    )
    mine.org.sql("NOTIFY partner_event")
    assert await events(mine, EventKind.ALERT, 1) == [json.loads(body)]
    assert sum((await waiting(other)).values()) == 0


@pytest.mark.parametrize("header", ["CC", "BCC", "cc"])
async def test_copies_reach_no_other_organisation(legacy: tuple[Legacy, Legacy], header: str) -> None:
    mine, other = legacy
    slug = other.org.slug
    keys = [f"{slug}.command.mode", f"{slug}.event.alert", f"{slug}.inbound", other.queue(EventKind.ALERT), "#"]
    count = f"SELECT count(*) FROM vcp_command WHERE organization_id = '{other.org.organization_id}'"
    before = other.org.sql(count)
    refused = False
    try:
        await send(mine, "command.site-setpoint", powerKw=1, headers={header: keys})
    except AMQPError:  # RabbitMQ from 4.0 on checks them
        refused = True
    if not refused:
        await events(mine, EventKind.COMMAND_ACK, 1)
    assert sum((await waiting(other)).values()) == 0
    assert sum((await waiting(mine)).values()) == 0
    assert other.org.sql(count) == before


def publish(exchange: str, key: str) -> Act:
    return lambda channel: channel.basic_publish(b"{}", exchange=exchange, routing_key=key)


def declare(name: str, **members: Any) -> Act:
    return lambda channel: channel.queue_declare(name, **members)


def read(name: str) -> Act:
    return lambda channel: channel.basic_get(name, no_ack=True)


def consume(name: str) -> Act:
    return lambda channel: channel.basic_consume(name, lambda _: asyncio.sleep(0), arguments={"x-priority": 1000})


def attacks(mine: Legacy, other: Legacy) -> Iterator[tuple[str, Act]]:
    """Everything that could change or read something of the other organisation, or of the service."""
    slug, foreign = mine.org.slug, other.org.slug
    service = ["vcp.legacy.inbound", f"{slug}.inbound", *other.queues]
    dead: dict[str, Any] = {"x-dead-letter-exchange": "vcp", "x-dead-letter-routing-key": f"{foreign}.command.mode"}
    for name in (f"{slug}.mine", f"{slug}", "vcp.x", "x", ""):
        for members in ({"durable": True}, {"exclusive": True}, {"arguments": {"x-expires": 1000}}, {"arguments": dead}):
            yield f"declare {name} {members}", declare(name, **members)
    for name in (*service, mine.queue(EventKind.ALERT)):
        yield f"redeclare {name}", declare(name, durable=True, arguments=dead)
        yield f"delete {name}", lambda channel, name=name: channel.queue_delete(name)
        for exchange in ("vcp", "vcp.legacy.orders", "vcp.legacy.events", "amq.topic"):
            yield (
                f"bind {name} to {exchange}",
                lambda channel, name=name, exchange=exchange: channel.queue_bind(
                    name, exchange, routing_key=f"{slug}.event.alert"
                ),
            )
            yield (
                f"unbind {name} from {exchange}",
                lambda channel, name=name, exchange=exchange: channel.queue_unbind(
                    name, exchange, routing_key=f"{slug}.event.alert"
                ),
            )
    for name in service:
        yield f"get {name}", read(name)
        yield f"consume {name}", consume(name)
        yield f"purge {name}", lambda channel, name=name: channel.queue_purge(name)
    for exchange in (
        "",
        "amq.topic",
        "amq.direct",
        "amq.fanout",
        "amq.headers",
        "vcp.legacy.orders",
        "vcp.legacy.events",
        "vcp.dropped",
    ):
        for key in (f"{slug}.command.mode", f"{foreign}.inbound", f"{slug}.event.alert"):
            yield f"publish to {exchange} {key}", publish(exchange, key)
    for key in (f"{foreign}.command.mode", f"{slug}.event.alert", "#", "", f"{slug}.#"):
        yield f"publish to vcp {key}", publish("vcp", key)
    for name in (f"{slug}.x", "vcp", "vcp.legacy.orders"):
        for arguments in ({}, {"alternate-exchange": "vcp.legacy.events"}):
            yield (
                f"declare exchange {name} {arguments}",
                lambda channel, name=name, arguments=arguments: channel.exchange_declare(
                    name, exchange_type="topic", durable=True, arguments=arguments
                ),
            )
    for name in ("vcp", "vcp.legacy.orders", "vcp.legacy.events"):
        yield f"delete exchange {name}", lambda channel, name=name: channel.exchange_delete(name)
        for source in ("vcp", "vcp.legacy.orders", "vcp.legacy.events", "amq.topic"):
            yield (
                f"bind exchange {name} to {source}",
                lambda channel, name=name, source=source: channel.exchange_bind(
                    name, source, routing_key=f"{slug}.command.mode"
                ),
            )


async def test_no_attack_works(legacy: tuple[Legacy, Legacy]) -> None:
    mine, other = legacy
    worked = []
    async with mine.org.connected(mine.key) as connection:
        for name, act in attacks(mine, other):
            try:
                await act(await connection.channel())
            except ChannelAccessRefused:
                continue
            worked.append(name)
    assert worked == []
    assert sum((await waiting(other)).values()) == 0


async def test_a_key_cannot_publish_under_another_name(legacy: tuple[Legacy, Legacy]) -> None:
    mine, other = legacy
    properties = aiormq.spec.Basic.Properties(user_id=other.org.slug)
    async with mine.org.connected(mine.key) as connection:
        with pytest.raises(ChannelPreconditionFailed):
            await (await connection.channel()).basic_publish(
                b"{}", exchange="vcp", routing_key=f"{mine.org.slug}.command.mode", properties=properties
            )


async def test_the_management_interface_is_closed(legacy: tuple[Legacy, Legacy]) -> None:
    mine, _ = legacy
    url = f"http://127.0.0.1:{mine.org.stack.ports['management_port']}/api/policies/%2F/x"
    answer = httpx.put(url, auth=(mine.org.slug, mine.key["key"]), json={"pattern": ".*", "definition": {"max-length": 1}})
    assert answer.status_code == 401


async def test_a_passive_declaration_shows_counts_and_changes_nothing(legacy: tuple[Legacy, Legacy]) -> None:
    """RabbitMQ checks no permission for it, on any version; docs/partners.md says so."""
    mine, other = legacy
    async with mine.org.connected(mine.key) as connection:
        shown = await (await connection.channel()).queue_declare(other.queue(EventKind.ALERT), passive=True)
        with pytest.raises(ChannelAccessRefused):
            await (await connection.channel()).basic_get(shown.queue, no_ack=True)


async def test_an_organisation_has_a_bounded_number_of_connections(legacy: tuple[Legacy, Legacy]) -> None:
    """The vhost has a limit too, which one organisation must not use up."""
    mine, other = legacy
    limits = httpx.get(f"{mine.org.management_url}/api/vhost-limits/%2F").json()
    assert limits[0]["value"]["max-connections"] == 1_000
    async with contextlib.AsyncExitStack() as connections:
        theirs = await connections.enter_async_context(other.org.connected(other.key))
        oldest = [await connections.enter_async_context(mine.org.connected(mine.key)) for _ in range(10)]
        await asyncio.sleep(5)  # seen by the gateway
        opened = [await connections.enter_async_context(mine.org.connected(mine.key)) for _ in range(30)]
        await asyncio.to_thread(wait_for, lambda: sum(one.is_closed for one in opened) >= 8)
        await asyncio.sleep(5)
        assert sum(one.is_closed for one in opened) == 8
        assert not any(one.is_closed for one in (theirs, *oldest))


async def test_an_organisation_that_connects_without_a_pause_leaves_room_for_others(legacy: tuple[Legacy, Legacy]) -> None:
    """The gateway closes connections every two seconds: 200 logins a second of one key kept most programs of others out."""
    mine, _ = legacy
    listed = f"{mine.org.management_url}/api/connections/username/{mine.org.slug}"
    with mine.org.stack.hung("gateway"):
        writers: list[asyncio.StreamWriter] = []
        try:
            for _ in range(100):
                # Not all at once: the broker closes those that have not logged in after ten seconds.
                reader, writer = await raw_streams(mine.org)
                writers.append(writer)
                await authenticate(reader, writer, mine.org.slug, mine.key["key"])
                await enter(reader, writer, "/")
            await asyncio.to_thread(wait_for, lambda: len(httpx.get(listed, timeout=30).json()) == 32, 30)
        finally:
            for writer in writers:
                writer.transport.abort()


async def test_a_queue_prefix_removes_no_queue_of_others(
    legacy: tuple[Legacy, Legacy], stack: RunningStack, tmp_path: Path
) -> None:
    """The prefix names no queue in the shared vhost, where it may be another organisation's slug."""
    attacker, (victim, _) = Organization(stack), legacy
    key = make_key().text
    row = {"id": str(uuid4()), "organisation": attacker.slug, "key": key, "scopes": "vcp:connect"}
    assert import_keys(stack, tmp_path, [row]).returncode == 0
    own = Legacy(attacker, created(key, row["id"]))
    await asyncio.to_thread(wait_for, lambda: set(own.queues) <= set(attacker.queues("%2F")))
    attacker.call("POST", "/trading/config", {"queuePrefix": victim.org.slug})
    await asyncio.to_thread(wait_for, lambda: not set(own.queues) & set(attacker.queues("%2F")))
    assert set(victim.queues) <= set(victim.org.queues("%2F"))
    attacker.revoke(own.key)


async def test_an_organisation_has_one_such_key(legacy: tuple[Legacy, Legacy], stack: RunningStack, tmp_path: Path) -> None:
    mine, _ = legacy
    row = {"id": str(uuid4()), "organisation": mine.org.slug, "key": make_key().text, "scopes": "vcp:connect"}
    wrong = {**row, "id": "x", "scopes": "vcp:fly"}
    refused = import_keys(stack, tmp_path, [row])
    assert refused.returncode == 1
    assert "line 2: organisation: has a key in the vhost /" in refused.stderr
    assert "line 2: id: must be a UUID" in import_keys(stack, tmp_path, [wrong]).stderr
    unknown = import_keys(stack, tmp_path, [{**row, "organisation": "nowhere"}])
    assert "line 2: organisation: there is no nowhere" in unknown.stderr
    assert row["key"] not in refused.stderr


async def test_revoking_one_leaves_the_others(legacy: tuple[Legacy, Legacy]) -> None:
    mine, other = legacy
    elsewhere = other.org.key()
    async with (
        mine.org.connected(mine.key) as stays,
        other.org.connected(elsewhere) as own,
        other.org.connected(other.key) as connection,
    ):
        closed = asyncio.ensure_future(connection.closing)
        await asyncio.to_thread(other.org.revoke, other.key)
        await asyncio.wait([closed], timeout=15)
        assert closed.done()
        with pytest.raises((AMQPError, ConnectionError)):
            async with other.org.connected(other.key):
                pass
        assert not stays.is_closed
        assert not own.is_closed
    await asyncio.to_thread(wait_for, lambda: not set(other.queues) & set(mine.org.queues("%2F")))
    assert set(mine.queues) <= set(mine.org.queues("%2F"))
    sent = await send(mine, "command.site-setpoint", powerKw=1)
    [ack] = await events(mine, EventKind.COMMAND_ACK, 1)
    assert ack["messageId"] == sent


async def test_a_login_that_is_completed_after_the_revocation_is_closed(stack: RunningStack, tmp_path: Path) -> None:
    """A client has ten seconds to complete it, and the broker remembers for a minute that the key may enter the vhost."""
    org, row = Organization(stack), {"id": str(uuid4()), "key": make_key().text, "scopes": "vcp:connect"}
    assert import_keys(stack, tmp_path, [row | {"organisation": org.slug}]).returncode == 0
    key = created(row["key"], row["id"])
    async with org.connected(key):
        pass
    reader, writer = await raw_streams(org)
    try:
        await authenticate(reader, writer, org.slug, key["key"])
        await asyncio.to_thread(org.revoke, key)
        await asyncio.sleep(6)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await enter(reader, writer, "/")
            async with asyncio.timeout(30):
                while not (await answer(reader)).startswith(struct.pack(">HH", 10, 50)):  # connection.close
                    pass
    finally:
        writer.transport.abort()
        org.close()


@pytest.fixture
def classic() -> Iterator[RunningStack]:
    """A service of the test's own, with classic queues."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-classic-"))
    running = RunningStack(folder, changes={"broker_queue_type": "classic"})
    try:
        yield running.start()
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


async def test_a_running_service_replaces_the_queues_that_it_consumes(classic: RunningStack, tmp_path: Path) -> None:
    """Its own consumers come back all the while."""
    org = Organization(classic)
    key, row = org.key(), {"id": str(uuid4()), "organisation": org.slug, "key": make_key().text, "scopes": "vcp:connect"}
    assert import_keys(classic, tmp_path, [row]).returncode == 0
    legacy = Legacy(org, created(row["key"], row["id"]))
    places = {"%2F": set(legacy.queues), key["apiKey"]["vhost"]: set(legacy.queues)}

    def are(kind: str) -> bool:
        found = httpx.get(f"{org.management_url}/api/queues?disable_stats=true&columns=vhost,name,type").json()
        types = {(quote(one["vhost"], safe=""), one["name"]): one["type"] for one in found}
        return {types.get((vhost, name)) for vhost, names in places.items() for name in names} == {kind}

    await asyncio.to_thread(wait_for, lambda: are("classic"))
    await asyncio.to_thread(classic.stop)
    classic.changes = {"broker_queue_type": "quorum"}
    await asyncio.to_thread(classic.start)
    started = time.monotonic()
    await asyncio.to_thread(wait_for, lambda: are("quorum"), 120)
    print(f"all are quorum queues after {time.monotonic() - started:.1f} s")
    await asyncio.sleep(5)  # the connections are closed once more at the end
    sent = await send(legacy, "command.site-setpoint", powerKw=1)
    assert [ack["messageId"] for ack in await events(legacy, EventKind.COMMAND_ACK, 1)] == [sent]
    org.close()
