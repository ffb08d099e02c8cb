"""Ingest workers between a real broker and the test's own database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiormq
from aiormq.abc import AbstractChannel
from pydantic import SecretStr

from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.plants.topology import PLANTS_VHOST, ingest_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.db import open_database
from gridfleet.mqtt.worker import IngestWorker
from support.clients.ingest_bench import Bench, BenchPlant
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

SHARDS = 4


@dataclass
class Line:
    """Broker, database and plants, for workers that a test starts and stops."""

    node: BrokerNode
    bench: Bench
    channel: AbstractChannel

    @asynccontextmanager
    async def worker(self, queue_type: str = "auto", **changes: int) -> AsyncIterator["asyncio.Task[None]"]:
        """Run one ingest process's worker until the block ends or it fails. `changes` are settings."""
        async with self.process(queue_type, **changes) as worker, running(worker.run()) as task:
            yield task

    @asynccontextmanager
    async def process(self, queue_type: str = "auto", **changes: int) -> AsyncIterator[IngestWorker]:
        """Yield the worker of one ingest process, which may run several times."""
        settings = self.node.settings.model_copy(
            update={
                "ingest_shards": SHARDS,
                "broker_queue_type": queue_type,
                "broker_url": SecretStr(self.node.url),
                "broker_management_url": SecretStr(self.node.management_url),
                **changes,
            }
        )
        async with open_database(self.bench.database.url, name="worker", size=4) as database:
            yield IngestWorker(settings, database, self.bench.keyring)

    async def publish(self, *deliveries: Delivery) -> None:
        """Publish as the broker does with what plants publish."""
        for delivery in deliveries:
            await self.channel.basic_publish(
                delivery.body,
                exchange="amq.topic",
                routing_key=delivery.routing_key,
                properties=aiormq.spec.Basic.Properties(delivery_mode=2),
            )

    async def waiting(self) -> int:
        """Return the number of messages in the shards' queues that no worker has received."""
        answers = [await self.channel.queue_declare(ingest_queue(shard), passive=True) for shard in range(SHARDS)]
        return sum(answer.message_count or 0 for answer in answers)

    async def all_delivered(self) -> bool:
        """Return whether workers have received all messages."""
        return await self.waiting() == 0


@asynccontextmanager
async def ingest_line(node: BrokerNode, bench: Bench) -> AsyncIterator[Line]:
    """Yield a line with empty shards and no worker."""
    await node.declare(SHARDS)
    async with open_channel(node.url, PLANTS_VHOST) as channel:
        for shard in range(SHARDS):
            await channel.queue_purge(ingest_queue(shard))
        yield Line(node, bench, channel)


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Return once the condition holds. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.05)


async def all_dealt_with(plants: Sequence[BenchPlant], count: int) -> bool:
    """Return whether `count` messages of the plants are stored, as values of the metric `a`, or refused."""
    found = [len((await plant.stored()).get("a", ())) + len(await plant.refusals()) for plant in plants]
    return sum(found) == count
