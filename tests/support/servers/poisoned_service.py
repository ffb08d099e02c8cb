"""An ingest process and a gateway for two organisations at a real broker. One organisation sends poisoned messages."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import aiormq
from aiormq.abc import AbstractChannel
from hypothesis import strategies as st
from pydantic import SecretStr

from gridfleet.amqp.partner_gateway import PartnerGateway
from gridfleet.amqp.plant_commands import send_commands
from gridfleet.domains.partners.topology import PartnerQueues, ensure_partner_vhost
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.domains.telemetry.rollups.recomputation import roll_up
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database, open_database
from gridfleet.mqtt.worker import IngestWorker
from gridfleet.protocol.partner_routes import EXCHANGE, CommandKind, EventKind, event_queue
from support.builders.alerting import add_rule, alerts_of
from support.builders.partner_commands import body_of, order, signed_bytes
from support.builders.partner_site import PartnerSite, partner_site
from support.builders.poison import poisoned
from support.clients.ingest_bench import moment
from support.servers.broker_node import BrokerNode

SHARDS: Final = 4
IN_TIME_SECONDS: Final = 20.0
"""Limit for a value, command or acknowledgement of the organisation that sends no poison, on a busy machine."""

_NOW: Final = moment(0).isoformat()
_LATER: Final = datetime.fromtimestamp(datetime.now(UTC).timestamp() + 3_600, UTC).isoformat()
_TELEMETRY: Final[dict[str, Any]] = {
    "time": _NOW,
    "seq": 1,
    "fields": {"a": 1, "b": 2.5, "on": True},
    "devices": [{"id": "INV1", "time": _NOW, "status": "ONLINE", "fields": {"a": 1, "b": 2.5, "c": 3, "status": 5}}],
}
_SIGNALS: Final[list[dict[str, Any]]] = [{"key": "a", "field": "a"}, {"key": "b", "field": "b"}, {"key": "on", "bit": 0}]
PLANT_MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "telemetry": _TELEMETRY,
    "status": {"status": "ONLINE", "time": _NOW, "reason": "started", "firmware": "1"},
    "ack": {"commandId": str(uuid4()), "status": "APPLIED", "time": _NOW, "reason": {"code": "X", "message": "y"}},
}
ORDERS: Final[dict[str, dict[str, Any]]] = {
    CommandKind.SETPOINT: {"powerKw": 1, "expiresAt": _LATER, "params": {"rampSeconds": 5}},
    CommandKind.DEVICE: {"deviceId": "BAT1", "action": "set_power", "params": {"power_kw": 1}},
    CommandKind.MODE: {"mode": "STANDBY", "expiresAt": _LATER},
    CommandKind.SCHEDULE_SET: {
        "scheduleId": "s",
        "revision": 1,
        "intervals": [{"start": _LATER, "durationSeconds": 900, "powerKw": 1}],
    },
    CommandKind.SCHEDULE_CANCEL: {"scheduleId": "s"},
    CommandKind.CONSTRAINTS: {"constraints": {"importLimitKw": 5}},
    CommandKind.FALLBACK: {"fallback": {"mode": "STANDBY", "afterSeconds": 60}},
}

Sent = tuple[str, bytes, bool]
"""Channel or command kind, content, and whether it is signed."""


def of_a_plant() -> st.SearchStrategy[Sent]:
    """Strategy for a message of any type of a plant."""
    return st.one_of(
        [st.tuples(st.just(channel), poisoned(sample), st.just(True)) for channel, sample in PLANT_MESSAGES.items()]
        + [st.tuples(st.just(channel), poisoned(_envelope()), st.just(False)) for channel in PLANT_MESSAGES]
    )


def of_a_partner() -> st.SearchStrategy[Sent]:
    """Strategy for a message with any routing key of a partner."""
    heading = body_of("00000000-0000-0000-0000-000000000000")
    return st.one_of(
        [st.tuples(st.just(str(kind)), poisoned(heading | sample), st.booleans()) for kind, sample in ORDERS.items()]
    )


def _envelope() -> dict[str, Any]:
    return {"v": 1, "id": "m", "sentAt": 1795168800123, "sig": "0" * 64, "payload": _TELEMETRY}


@dataclass
class PoisonedService:
    """`sender` sends poison, `other` does not."""

    database: Database
    node: BrokerNode
    sender: PartnerSite
    other: PartnerSite
    plants: AbstractChannel
    commands: str
    """A queue for the commands to the other plant, as its MQTT session has."""
    tasks: "list[asyncio.Task[None]]" = field(default_factory=list)
    rounds: int = 0

    async def send(self, of_plant: Sequence[Sent], of_partner: Sequence[Sent]) -> None:
        """Publish poisoned messages."""
        plant = self.sender.plant
        for channel, content, signed in of_plant:
            signed = signed and channel != "status"
            delivery = plant.message(content, channel=channel) if signed else plant.delivery(content, channel)
            await self.plants.basic_publish(delivery.body, exchange="amq.topic", routing_key=delivery.routing_key)
        if of_partner:
            key = self.sender.sender.key
            async with open_channel(self.node.url, key.vhost) as link:
                for kind, content, signed in of_partner:
                    message = signed_bytes(f"{key.slug}.{kind}", content, str(plant.id) if signed else None)
                    await link.basic_publish(
                        message.body,
                        exchange=EXCHANGE,
                        routing_key=message.routing_key,
                        properties=aiormq.spec.Basic.Properties(headers=dict(message.headers)),
                    )

    async def others_are_served(self) -> None:
        """Check that a value and a partner command of the other organisation, and the plant command, arrive in time."""
        self.rounds += 1
        plant, key = self.other.plant, self.other.sender.key
        value = plant.message({"time": moment(self.rounds).isoformat(), "fields": {"soc": 50 + self.rounds % 40}})
        await self.plants.basic_publish(value.body, exchange="amq.topic", routing_key=value.routing_key)
        asked = order(CommandKind.SETPOINT, plant.id, slug=key.slug, powerKw=1)
        message_id = json.loads(asked.body)["messageId"]
        async with open_channel(self.node.url, key.vhost) as channel, asyncio.timeout(IN_TIME_SECONDS):
            await channel.basic_publish(
                asked.body,
                exchange=EXCHANGE,
                routing_key=asked.routing_key,
                properties=aiormq.spec.Basic.Properties(headers=dict(asked.headers)),
            )
            ack = json.loads(await _next(channel, event_queue(key.slug, EventKind.COMMAND_ACK)))
            while ack["messageId"] != message_id:  # skips the acknowledgements of earlier commands
                ack = json.loads(await _next(channel, event_queue(key.slug, EventKind.COMMAND_ACK)))
            assert ack["ackStatus"] == "ACCEPTED", ack
            assert json.loads(await _next(self.plants, self.commands))["payload"]["type"] == "SITE_SETPOINT"
            while moment(self.rounds) not in (await plant.stored()).get("soc", {}):
                await asyncio.sleep(0.05)
        assert not any(task.done() for task in self.tasks), [task for task in self.tasks if task.done()]

    async def everything_of_others_is_right(self) -> None:
        """Check alerts and roll-ups of the other organisation, and the presence of its plant."""
        plant = self.other.plant
        now = datetime.now(UTC)
        low = plant.message({"time": now.isoformat(), "fields": {"soc": 5}})
        await self.plants.basic_publish(low.body, exchange="amq.topic", routing_key=low.routing_key)
        async with asyncio.timeout(IN_TIME_SECONDS):
            while not await alerts_of(self.database, plant.organization_id):
                await asyncio.sleep(0.05)
            await roll_up(self.database)
        assert await plant.refusals() == []
        assert (await plant.rows("SELECT status FROM plant WHERE id = %s")) == [("ONLINE",)]
        [(count,)] = await plant.rows(
            "SELECT coalesce(sum(h.counts[1]), 0) FROM telemetry_hour h JOIN telemetry_source s ON s.id = h.source_id"
            " WHERE s.plant_id = %s"
        )
        assert count == self.rounds


async def _next(channel: AbstractChannel, queue: str) -> bytes:
    while True:
        got = await channel.basic_get(queue, no_ack=True)
        if isinstance(got.delivery, aiormq.spec.Basic.GetOk):
            return bytes(got.body)
        await asyncio.sleep(0.02)


@asynccontextmanager
async def poisoned_service(database: Database, node: BrokerNode) -> AsyncIterator[PoisonedService]:
    """Run two organisations and the tasks of the processes without supervision: a task that ends fails the test."""
    await node.declare(SHARDS)
    sender = await partner_site(database)
    await sender.plant.add_device("INV1", _SIGNALS)
    other = await partner_site(database, sender.plant.bench)
    await add_rule(database, other.plant.organization_id)
    settings = node.settings.model_copy(
        update={
            "ingest_shards": SHARDS,
            "broker_url": SecretStr(node.url),
            "broker_management_url": SecretStr(node.management_url),
        }
    )
    keyring = sender.plant.bench.keyring
    async with (
        open_channel(node.url, PLANTS_VHOST) as plants,
        open_database(database.url, name="ingest", size=4) as ingest_pool,
        open_database(database.url, name="gateway", size=6) as gateway_pool,
        open_management(node.management_url) as management,
    ):
        for site in (sender, other):
            queues = PartnerQueues(site.sender.key.slug, site.sender.key.slug)
            await ensure_partner_vhost(management, node.url, site.sender.key.vhost, queues)
        queue = (await plants.queue_declare(exclusive=True)).queue or ""
        await plants.queue_bind(queue, "amq.topic", f"v1.plants.{other.plant.id}.commands")
        tasks = [
            asyncio.create_task(IngestWorker(settings, ingest_pool, keyring).run()),
            asyncio.create_task(PartnerGateway(settings, gateway_pool, keyring).run()),
            asyncio.create_task(send_commands(settings, gateway_pool, keyring)),
        ]
        try:
            yield PoisonedService(database, node, sender, other, plants, queue, tasks)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                await asyncio.gather(*tasks, return_exceptions=True)
            for site in (sender, other):
                await management.delete_vhost(site.sender.key.vhost)
