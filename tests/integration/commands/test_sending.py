"""Commands over a real broker: what is published how, what reaches plants that are there, away, or come back."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import aiormq
import pytest
from aiormq.exceptions import ChannelLockedResource, ChannelNotFoundEntity
from pydantic import SecretStr

from gridfleet.amqp.effects import carry_out_effects
from gridfleet.amqp.plant_commands import expire_commands, send_commands
from gridfleet.domains.plants.commands.delivery import START_SECONDS, claim_due
from gridfleet.domains.plants.lifecycle import suspend_plant
from gridfleet.domains.plants.models import PlantChanges
from gridfleet.domains.plants.registry import update_plant
from gridfleet.domains.plants.topology import PLANTS_VHOST, UNROUTED_QUEUE
from gridfleet.domains.vcp.reactivation import reactivate_plant
from gridfleet.kernel.broker.connection import vhost_url
from gridfleet.kernel.broker.management import Management
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.db.queries import fetch_value
from gridfleet.kernel.ids import new_id
from support.builders.interleaving import slow_look_up_of_plants
from support.clients import lean_mqtt
from support.clients.commands_at_work import add_commandable, age, history, issue, row
from support.clients.ingest_bench import Bench, BenchPlant
from support.servers.broker_node import BrokerNode
from support.servers.broker_version import needs_lasting_qos_0
from support.servers.running_task import running

QOS_1 = 0x32
SHARDS = 2


@dataclass
class Line:
    """Broker and database; senders and plants come and go."""

    node: BrokerNode
    bench: Bench

    @asynccontextmanager
    async def sender(self) -> AsyncIterator["asyncio.Task[None]"]:
        """One gateway's sender, started again when it fails as its process would."""
        settings = self.node.settings.model_copy(
            update={
                "ingest_shards": SHARDS,
                "broker_url": SecretStr(self.node.url),
                "broker_management_url": SecretStr(self.node.management_url),
            }
        )
        async with (
            open_database(self.bench.database.url, name="sender", size=4) as database,
            running(send_commands(settings, database, self.bench.keyring)) as task,
        ):
            yield task

    @asynccontextmanager
    async def effects(self) -> AsyncIterator[None]:
        """One gateway's effects."""
        urls = {"broker_url": SecretStr(self.node.url), "broker_management_url": SecretStr(self.node.management_url)}
        settings = self.node.settings.model_copy(update=urls)
        url = self.bench.database.url
        async with open_database(url, name="effects", size=8) as database, running(carry_out_effects(settings, database)):
            yield

    async def is_purged(self, plant: BenchPlant) -> bool:
        """Whether the first of the effects that delete the plant's waiting commands is done."""
        async with self.bench.database.transaction() as db:
            cursor = await db.execute(
                "SELECT count(*) FROM outbox WHERE kind = 'plants.purge_sessions' AND payload->>'pattern' LIKE %s",
                (f"%{plant.id}%",),
            )
            return await cursor.fetchone() == (1,)

    async def plant(self) -> BenchPlant:
        plant = await self.bench.plant()
        await add_commandable(plant)
        return plant

    @asynccontextmanager
    async def connected(
        self, plant: BenchPlant, *, lasting: bool = True, subscribe: bool = True, qos: int = 1
    ) -> AsyncIterator["Inbox"]:
        """The plant's client, until the block ends as by a cut cable. It logs in with the service's account."""
        account = urlsplit(self.node.url)
        login = lean_mqtt.Login(str(plant.id), account.username, unquote(account.password or ""), clean_session=not lasting)
        async with await lean_mqtt.connect(self.node.settings.mqtt_port, login) as connection:
            if subscribe:
                assert await connection.subscribe(f"v1/plants/{plant.id}/commands", qos=qos) == [qos]
            yield Inbox(plant, connection)
        if subscribe and not lasting:
            await until(lambda: self._has_no_queue(plant, qos))

    async def _has_no_queue(self, plant: BenchPlant, qos: int) -> bool:
        """Whether the broker has ended the plant's session, which it does some time after the connection."""
        async with aiormq_channel(self.node) as channel:
            with contextlib.suppress(ChannelLockedResource):
                try:
                    await channel.queue_declare(f"mqtt-subscription-{plant.id}qos{qos}", passive=True)
                except ChannelNotFoundEntity:
                    return True
        return False

    async def unrouted(self) -> int:
        async with aiormq_channel(self.node) as channel:
            return (await channel.queue_declare(UNROUTED_QUEUE, passive=True)).message_count or 0


@asynccontextmanager
async def aiormq_channel(node: BrokerNode) -> AsyncIterator[Any]:
    connection = await aiormq.connect(vhost_url(node.url, PLANTS_VHOST))
    try:
        yield await connection.channel()
    finally:
        await connection.close()


@dataclass
class Inbox:
    """What a plant's client got."""

    plant: BenchPlant
    connection: lean_mqtt.Connection

    async def next(self, seconds: float = 60) -> dict[str, Any]:
        """The payload of the next command."""
        async with asyncio.timeout(seconds):
            topic, message = await self.connection.received.get()
        assert topic == f"v1/plants/{self.plant.id}/commands"
        payload: dict[str, Any] = json.loads(message)["payload"]
        return payload

    async def ids(self, count: int, seconds: float = 60) -> list[UUID]:
        return [UUID((await self.next(seconds))["commandId"]) for _ in range(count)]

    async def quiet(self, seconds: float = 0.4) -> bool:
        with contextlib.suppress(TimeoutError):
            await self.next(seconds)
            return False
        return True


@pytest.fixture
async def line(broker: BrokerNode, database: Database) -> Line:
    await broker.declare(SHARDS)
    return Line(broker, Bench(database))


async def until(look: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await look():
            await asyncio.sleep(0.02)


async def is_state(line: Line, command_id: UUID, state: str) -> bool:
    return (await row(line.bench.database, command_id, "status"))[0] == state


@pytest.mark.parametrize("qos", [1, pytest.param(0, marks=needs_lasting_qos_0())])
async def test_a_plant_that_was_away_receives_nothing_of_the_time_before_it_moved(line: Line, qos: int) -> None:
    """The broker holds a copy of the command for the plant's session."""
    plant = await line.plant()
    async with line.connected(plant, qos=qos):
        pass
    async with line.sender():
        command = await issue(plant)
        await until(lambda: has_status(line, command, "SENT"))
        caller = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", True, None)
        async with line.bench.database.transaction() as db:
            other = new_id()
            await db.execute("INSERT INTO organization (id, name, slug) VALUES (%s, 'Other', %s)", (other, other.hex))
            org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)
            await update_plant(db, org, plant.id, PlantChanges(organization_id=other))
        async with line.effects():
            await until(lambda: line.is_purged(plant))
        async with line.connected(plant, qos=qos) as inbox:
            assert await inbox.quiet(1)


@pytest.mark.parametrize("method", ["PASSWORD", "TOKEN", "MTLS"])
@pytest.mark.parametrize("qos", [1, pytest.param(0, marks=needs_lasting_qos_0())])
async def test_a_suspended_plant_that_was_away_gets_its_command_when_it_is_reactivated(
    line: Line, qos: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker holds a copy of the command, and admits the plant."""
    plant = await line.plant()
    async with line.bench.database.transaction() as db:
        await db.execute("UPDATE plant SET auth_method = %s WHERE id = %s", (method, plant.id))
    if method != "PASSWORD":  # its client id is fixed, so that the queues of all plants need not be searched
        monkeypatch.delattr(Management, "purge_queues")
    caller = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", False, None)
    org = OrgScope(plant.organization_id, OrgRole.ORG_ADMIN, caller)
    async with line.connected(plant, qos=qos):
        pass
    async with line.sender():
        command = await issue(plant)
        await until(lambda: has_status(line, command, "SENT"))
        async with line.bench.database.transaction() as db:
            await suspend_plant(db, org, plant.id)
        async with line.effects():
            await until(lambda: line.is_purged(plant))
        async with line.connected(plant, qos=qos) as inbox:
            assert await inbox.quiet(1)
            async with line.bench.database.transaction() as db:
                await reactivate_plant(db, org, plant.id)
            assert await inbox.ids(1) == [command]


async def has_status(line: Line, command: UUID, status: str) -> bool:
    return bool((await row(line.bench.database, command, "status"))[0] == status)


async def test_a_command_claimed_too_long_ago_is_claimed_anew(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.plants.commands.delivery.START_SECONDS", -1)
    plant = await line.plant()
    async with line.connected(plant) as inbox, line.sender():
        command = await issue(plant)
        assert await inbox.quiet(1)
        monkeypatch.undo()
        assert await inbox.ids(1) == [command]


async def test_a_command_is_sent_while_the_look_up_of_all_plants_takes_longer_than_it_may_wait(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise no command is sent at all while very many plants have waiting ones."""
    slow_look_up_of_plants(monkeypatch, START_SECONDS + 0.2)
    plant = await line.plant()
    async with line.connected(plant) as inbox, line.sender():
        command = await issue(plant)
        assert await inbox.ids(1) == [command]


async def test_a_claim_does_not_wait_for_the_disk(line: Line) -> None:
    plant = await line.plant()
    command = await issue(plant)
    async with line.bench.database.transaction() as db:
        [claimed] = await claim_due(db, line.bench.keyring, datetime.now(UTC), 10)
        assert claimed.command.id == command
        assert await fetch_value(db, "SHOW synchronous_commit") == "off"


async def test_a_connected_plant_gets_its_command_at_once_and_once(line: Line) -> None:
    plant = await line.plant()
    async with line.connected(plant) as inbox, line.sender():
        command = await issue(plant, "set_power", {"power_kw": 5})
        content = await inbox.next()
        assert (content["commandId"], content["target"], content["params"]) == (str(command), "BAT1", {"power_kw": 5})
        await until(lambda: is_state(line, command, "SENT"))
        assert await inbox.quiet()
    assert await history(line.bench.database, command) == ["PENDING", "SENT"]


async def test_what_was_issued_while_no_sender_ran_is_sent_when_one_comes(line: Line) -> None:
    plant = await line.plant()
    async with line.connected(plant) as inbox:
        commands = [await issue(plant) for _ in range(3)]
        async with line.sender():
            assert await inbox.ids(3) == commands


async def test_several_senders_send_every_command_once_and_in_order(line: Line) -> None:
    plants = [await line.plant() for _ in range(5)]
    async with contextlib.AsyncExitStack() as running:
        inboxes = [await running.enter_async_context(line.connected(plant)) for plant in plants]
        for _ in range(3):
            await running.enter_async_context(line.sender())
        issued: dict[int, list[UUID]] = {number: [] for number in range(len(plants))}
        for _ in range(12):
            for number, plant in enumerate(plants):
                issued[number].append(await issue(plant))
        for number, inbox in enumerate(inboxes):
            assert await inbox.ids(12) == issued[number]
        assert all([await inbox.quiet(0.2) for inbox in inboxes])


async def test_a_plant_that_is_away_gets_the_command_when_its_session_goes_on(line: Line) -> None:
    plant = await line.plant()
    async with line.connected(plant):
        pass
    async with line.sender():
        command = await issue(plant)
        await until(lambda: is_state(line, command, "SENT"))
    async with line.connected(plant, subscribe=False) as inbox:  # its session has subscribed before
        assert await inbox.ids(1) == [command]


async def test_a_plant_without_a_session_gets_the_command_once_it_has_subscribed(line: Line) -> None:
    """Its command comes back from the broker without an alert, and is sent again until the plant is there."""
    plant = await line.plant()
    unrouted = await line.unrouted()
    async with line.sender():
        command = await issue(plant)
        await until(lambda: _attempts(line, command, 2))
        assert await history(line.bench.database, command) == ["PENDING"]
        async with line.connected(plant, lasting=False) as inbox:
            await line.bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
            assert await inbox.ids(1) == [command]
            await until(lambda: is_state(line, command, "SENT"))
    assert await line.unrouted() == unrouted


async def _attempts(line: Line, command_id: UUID, count: int) -> bool:
    return bool((await row(line.bench.database, command_id, "attempts"))[0] >= count)


async def test_a_command_that_went_down_with_its_session_is_sent_again_when_the_plant_comes_back(line: Line) -> None:
    plant = await line.plant()
    async with line.sender():
        async with line.connected(plant, lasting=False) as inbox:
            command = await issue(plant)
            await inbox.next()
            await until(lambda: is_state(line, command, "SENT"))
        async with line.connected(plant, lasting=False) as inbox:
            assert await inbox.quiet()
            await line.bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
            assert await inbox.ids(1) == [command]
    assert await history(line.bench.database, command) == ["PENDING", "SENT"]


async def test_a_command_that_was_lost_with_its_session_is_sent_again_before_later_ones(line: Line) -> None:
    plant = await line.plant()
    async with line.sender():
        async with line.connected(plant, lasting=False) as inbox:
            first = await issue(plant)
            await inbox.next()
            await until(lambda: is_state(line, first, "SENT"))
        later = [await issue(plant) for _ in range(2)]
        await until(lambda: _attempts(line, later[0], 1))
        async with line.connected(plant, lasting=False) as inbox:
            await line.bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
            assert await inbox.ids(3) == [first, *later]


async def test_a_plant_that_comes_back_after_the_time_is_not_bothered(line: Line) -> None:
    plant = await line.plant()
    async with line.connected(plant):
        pass
    async with line.sender():
        command = await issue(plant, "hurry")
        await until(lambda: is_state(line, command, "SENT"))
        expiry = asyncio.create_task(expire_commands(line.bench.database))
        await until(lambda: is_state(line, command, "EXPIRED"))
        expiry.cancel()
        async with line.connected(plant) as inbox:
            await line.bench.take(plant.delivery(b'{"status": "ONLINE"}', "status"))
            assert await inbox.quiet(1)
    assert (await row(line.bench.database, command, "reason"))[0]["code"] == "NOT_RECEIVED"


async def test_the_sweep_is_quick_and_survives_a_backlog(line: Line) -> None:
    plant = await line.plant()
    commands = [await issue(plant, "hurry") for _ in range(50)]
    for command in commands:
        await age(line.bench.database, command, timedelta(seconds=2))
    last = await issue(plant, "hurry")

    expiry = asyncio.create_task(expire_commands(line.bench.database))
    try:
        await until(lambda: is_state(line, commands[-1], "EXPIRED"), 2)
        await until(lambda: is_state(line, last, "EXPIRED"), 3)
    finally:
        expiry.cancel()


async def test_messages_are_persistent_and_expire_with_their_command(line: Line) -> None:
    plant = await line.plant()
    async with aiormq_channel(line.node) as channel, line.sender():
        queue = (await channel.queue_declare(exclusive=True)).queue
        await channel.queue_bind(queue, "amq.topic", f"v1.plants.{plant.id}.commands")
        await issue(plant, "set_power", {"power_kw": 1})

        async def got() -> bool:
            nonlocal message
            message = await channel.basic_get(queue, no_ack=True)
            return bool(message.body)

        message: Any = None
        await until(got)
        properties = message.header.properties
        assert properties.delivery_mode == 2
        assert 25_000 < int(properties.expiration) <= 30_000
