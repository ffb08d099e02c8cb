"""Limits of the machine: each part of the ingest alone, in CPU seconds, without waiting for other parts.

L1 stores prepared frames with the ingest's own statements, including their packing into rows. L2 verifies and decodes messages
into frames. L3 moves messages from the broker to a consumer that discards them.
"""

import asyncio
import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.load import Load
from bench.meter import cpu_of_stack, own_cpu
from bench.stack import BenchFailed, Stack
from gridfleet.domains.ingest.models import Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.plants.topology import PLANTS_VHOST, ingest_queue
from gridfleet.domains.telemetry.frames import store
from gridfleet.domains.telemetry.frames.models import FrameBatch
from gridfleet.kernel.broker.frames import TaggedMessage
from gridfleet.kernel.broker.queue_consumers import open_queue_consumers
from gridfleet.kernel.db import Database

__all__ = ["Limits", "discard_all", "prepare_all", "store_all"]

_EMPTY_SECONDS: Final = 120
_SETTLE_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Limits:
    """CPU seconds per point of each part."""

    store: float
    prepare: float
    transport: float

    def points_per_second(self, cores: int) -> float:
        """Return B: the throughput of all cores without other work and without waiting."""
        return cores / (self.store + self.prepare + self.transport)


async def prepare_all(database: Database, stack: Stack, load: Load) -> tuple[float, list[FrameBatch]]:
    """Measure L2. Returns the CPU seconds to verify and decode the load with warm caches, and the frames of its batches."""
    pipeline = Pipeline(database, stack.keyring, window_seconds=stack.settings.signature_window_seconds)
    deliveries = [Delivery(message.topic.replace("/", "."), message.body, 0) for message in load.messages]
    size = stack.settings.ingest_batch_messages
    await pipeline.prepare(list({delivery.routing_key: delivery for delivery in deliveries}.values()))
    with _collector_at_rest():
        before = own_cpu()
        batches: list[FrameBatch] = []
        read = 0
        while read < len(deliveries):
            batch = await pipeline.prepare(deliveries[read : read + size])
            batches.append(batch.frames)
            read += batch.message_count
        spent = own_cpu() - before
    return spent, batches


async def store_all(database: Database, stack: Stack, batches: Sequence[FrameBatch]) -> float:
    """Measure L1. Returns the CPU seconds of this process and the database to store the batches, one transaction each."""
    postgres = cpu_of_stack(stack)["postgres"]
    with _collector_at_rest():
        before = own_cpu() + postgres()
        for batch in batches:
            async with database.transaction() as db:
                await store.copy_batch(db, batch)
                await store.write_frames(db)
                await store.write_latest(db, batch)
        return own_cpu() + postgres() - before


async def discard_all(stack: Stack, load: Load) -> float:
    """Measure L3. Returns the CPU seconds of this process and the broker to consume the load from full queues.

    Client, window and acknowledgements are those of the ingest.
    """
    broker = cpu_of_stack(stack)["broker"]
    settings = stack.settings
    # As in the worker. One full queue must be able to fill a group of acknowledgements, or the group would wait for others.
    prefetch = max(1, 2 * settings.ingest_batch_messages // settings.ingest_shards)
    left = len(load.messages)
    last_tag = acknowledged = unacknowledged = 0
    enough = asyncio.Event()

    def take(message: TaggedMessage) -> None:
        nonlocal left, last_tag, unacknowledged
        left -= 1
        unacknowledged += 1
        last_tag = message.tag
        if unacknowledged >= prefetch or not left:
            enough.set()

    with _collector_at_rest():
        before = own_cpu() + broker()
        async with open_queue_consumers(stack.broker_url, PLANTS_VHOST) as (channel, consumers):
            await channel.basic_qos(prefetch_count=prefetch)
            for shard in range(settings.ingest_shards):
                await consumers.consume(ingest_queue(shard), str(shard), take)
            async with asyncio.timeout(_EMPTY_SECONDS):
                while left or acknowledged < last_tag:
                    await enough.wait()
                    enough.clear()
                    acknowledged, unacknowledged = last_tag, 0
                    await channel.basic_ack(acknowledged, multiple=True)
            spent = own_cpu() - before
        await asyncio.sleep(_SETTLE_SECONDS)
        if stack.waiting():
            raise BenchFailed("messages were left in the queues")
        return spent + broker()


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Disable garbage collection: it belongs to no part, and this process also holds the whole load and its ledger."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
