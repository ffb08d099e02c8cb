"""Messages that no queue took return to the ingest queues with `gridfleet setup unrouted`."""

import json
from collections import Counter
from pathlib import Path

from aiormq.abc import AbstractChannel
from pamqp.commands import Basic

from gridfleet.domains.plants.topology import INGEST_EXCHANGE, PLANTS_VHOST, UNROUTED_QUEUE, ingest_queue
from gridfleet.kernel.broker.connection import open_channel
from support.clients.command_line import gridfleet
from support.servers.broker_node import BrokerNode

SHARDS = 2
PATTERN = "v1.plants.*.telemetry"
TOPICS = [f"v1.plants.01a2216f-0000-7000-8000-00000000000{number}.telemetry" for number in range(3)]


async def waiting(channel: AbstractChannel, queue: str) -> list[tuple[str | None, int]]:
    found = []
    while isinstance((message := await channel.basic_get(queue, no_ack=True)).delivery, Basic.GetOk):
        found.append((message.delivery.routing_key, json.loads(message.body)))
    return found


async def test_unrouted_messages_return_once_and_in_order(broker: BrokerNode) -> None:
    await broker.declare(SHARDS)
    sent = [(TOPICS[number % 3], number) for number in range(30)]
    names = ("home", "amqp_port", "management_port", "epmd_port", "broker_dist_port")
    environment = {f"GRIDFLEET_{name.upper()}": getattr(broker.settings, name) for name in names}
    async with open_channel(broker.url, PLANTS_VHOST) as channel:
        await channel.exchange_unbind(INGEST_EXCHANGE, "amq.topic", routing_key=PATTERN)
        for topic, number in sent:
            properties = Basic.Properties(delivery_mode=2, user_id="_gridfleet")
            await channel.basic_publish(
                json.dumps(number).encode(), exchange="amq.topic", routing_key=topic, properties=properties
            )
        # No binding matches this one: it must not be read again and again.
        await channel.basic_publish(b"-1", exchange="amq.topic", routing_key="v1.plants.x.other")

        done = gridfleet("setup", "unrouted", environment=environment | {"GRIDFLEET_INGEST_SHARDS": SHARDS})

        assert (done.returncode, done.stdout, done.stderr) == (0, "31 messages returned\n", "")
        assert await waiting(channel, UNROUTED_QUEUE) == [("v1.plants.x.other", -1)]
        stored = [found for shard in range(SHARDS) for found in await waiting(channel, ingest_queue(shard))]
    assert Counter(stored) == Counter(sent)
    for topic in TOPICS:
        assert [number for of, number in stored if of == topic] == [number for of, number in sent if of == topic]


def test_without_a_broker_the_command_names_what_finds_the_cause(home: Path) -> None:
    done = gridfleet("setup", "unrouted", environment={"GRIDFLEET_HOME": home})
    assert (done.returncode, done.stdout) == (1, "")
    assert "gridfleet doctor" in done.stderr
    assert "Traceback" not in done.stderr
