"""The ingest worker: consumes its part of the shards in batches, one transaction each, acknowledged after the commit.

While one batch is written, the next is read and decoded if it is full. Batches are written one after the other, so the order of
each plant's messages is kept. While the database is unavailable nothing is acknowledged, the window of unacknowledged messages
fills, and the broker keeps the rest on disk.
"""

import asyncio
import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import httpx
import structlog
from aiormq.abc import AbstractChannel

from gridfleet.domains.ingest.backlog import load_empty_at, save_empty_at
from gridfleet.domains.ingest.changes import receivers
from gridfleet.domains.ingest.early_messages import EarlyMessage
from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.plants.topology import PLANTS_VHOST, count_shards, declare, ingest_queue, replace_shard
from gridfleet.kernel.broker.connection import fail_when_closed
from gridfleet.kernel.broker.frames import TaggedMessage
from gridfleet.kernel.broker.queue_consumers import QueueConsumers, open_queue_consumers
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.leases import Leases, open_leases
from gridfleet.kernel.db.notifications import listen
from gridfleet.kernel.due_work import wait_at_most
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.tasks import end_if_cancelled
from gridfleet.mqtt.batch_writer import BatchWriter, until_it_works
from gridfleet.mqtt.window import ShardWindow

__all__ = ["LEASE_KIND", "IngestWorker"]

log = structlog.get_logger(__name__)

LEASE_KIND: Final = 0x6F17
_LEASE_SECONDS: Final = 1.0
_SAVE_SECONDS: Final = 10.0
_COUNT_SECONDS: Final = 10.0
_WINDOW_BATCHES: Final = 2
"""The most unacknowledged messages of a process, in batches: one being written, one being read."""
_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Size of a batch, at least one message. Larger ones could block heartbeats while they are read, or exceed the time of a
statement on every attempt to write them.
"""


class _Message(NamedTuple):
    tag: int
    shard: int
    routing_key: str
    body: bytes
    arrived_after: int


class IngestWorker:
    """The ingest of one process.

    `run` ends with an error if the broker or the database connection is lost; its supervisor restarts it.
    """

    def __init__(self, settings: Settings, database: Database, keyring: Keyring) -> None:
        self._settings = settings
        self._database = database
        self._pipeline = Pipeline(database, keyring, window_seconds=settings.signature_window_seconds)
        self._writer = BatchWriter(database, self._pipeline)

    async def refresh_powers(self) -> None:
        """Refresh the newest power of plants that have reported, until the database fails."""
        await self._pipeline.power_refresher.run()

    async def run(self) -> None:
        """Consume messages until a connection fails."""
        settings = self._settings
        broker_url = settings.secret("broker_url").get_secret_value()
        # The notifications since the previous run were missed, and messages may arrive before `_listen` has connected.
        self._pipeline.invalidate()
        self._declared = await declare(
            broker_url,
            settings.secret("broker_management_url").get_secret_value(),
            shards=settings.ingest_shards,
            queue_type=settings.broker_queue_type,
        )
        self._buffer: list[_Message] = []
        self._arrived = asyncio.Event()
        self._pipeline.plant_cache.early_messages.on_note = self._arrived.set
        self._full = asyncio.Event()
        # The loop's clock starts with the machine, so 0 is not long ago on one that has just started.
        self._batch_began = -math.inf
        self._acknowledged = asyncio.Event()
        self._acknowledged_tag = 0
        self._windows: dict[int, ShardWindow] = {}
        await self._pipeline.partitions.ensure_ahead(2)
        async with (
            open_leases(self._database.url, LEASE_KIND, self._declared.total) as leases,
            open_queue_consumers(broker_url, PLANTS_VHOST) as (channel, consumers),
            asyncio.TaskGroup() as tasks,
        ):
            window = _WINDOW_BATCHES * settings.ingest_batch_messages
            await channel.basic_qos(prefetch_count=max(1, window // leases.pieces))
            tasks.create_task(self._listen(), name="notifications")
            tasks.create_task(self._writer.changes.run(), name="changes")
            tasks.create_task(self._hold_leases(leases, channel, consumers), name="shards")
            tasks.create_task(self._follow_shards(leases), name="number of shards")
            tasks.create_task(self._consume(channel), name="consume")
            tasks.create_task(fail_when_closed(channel), name="channel")

    async def _listen(self) -> None:
        receiving = receivers(self._pipeline)

        def changed(channel: str, payload: str) -> None:
            for receive in receiving[channel]:
                receive(payload)

        await listen(self._database.url, tuple(receiving), self._pipeline.invalidate, changed)

    async def _hold_leases(self, leases: Leases, channel: AbstractChannel, consumers: QueueConsumers) -> None:
        """Hold leases on this process's part of the shards, and store when their queues were empty."""
        saved_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            count = await leases.fair_count()
            for shard in await leases.take(count - len(leases.held)):
                await self._start_shard(consumers, shard)
            for shard in sorted(leases.held)[count:]:
                await self._stop_shard(consumers, shard)
                await leases.give_back(shard)
            for shard in sorted(leases.held):
                await self._check_queue(channel, shard)
            if loop.time() - saved_at > _SAVE_SECONDS and self._windows:
                saved_at = loop.time()
                await until_it_works(self._save_empty_at)
            await asyncio.sleep(_LEASE_SECONDS)

    async def _follow_shards(self, leases: Leases) -> None:
        """Raise the number of shards when another process has added some, which this one would otherwise leave to others."""
        url = self._settings.secret("broker_management_url").get_secret_value()
        while True:
            # A number that cannot be read stays: the management API is not needed to consume messages.
            with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
                leases.pieces = max(leases.pieces, await count_shards(url))
            await asyncio.sleep(_COUNT_SECONDS)

    async def _save_empty_at(self) -> None:
        async with self._database.transaction() as db:
            await save_empty_at(db, {shard: window.arrived_after for shard, window in self._windows.items()})

    async def _check_queue(self, channel: AbstractChannel, shard: int) -> None:
        """Check whether the shard's queue is empty. Raises if the queue no longer exists; the next run declares it again."""
        now = int(utc_now().timestamp() * 1000)
        queue = await channel.queue_declare(ingest_queue(shard), passive=True)
        nothing_waits = queue.message_count == 0 and queue.consumer_count == 1
        self._windows[shard].note_check(now, self._acknowledged_tag, nothing_waits=nothing_waits)

    async def _start_shard(self, consumers: QueueConsumers, shard: int) -> None:
        size = self._settings.ingest_batch_messages
        if shard in self._declared.outdated:
            await replace_shard(self._settings.secret("broker_url").get_secret_value(), self._declared, shard)
        async with self._database.transaction() as db:
            window = self._windows[shard] = ShardWindow(await load_empty_at(db, shard))
        self._pipeline.plant_cache.note_shard_taken()

        def take(message: TaggedMessage) -> None:
            self._buffer.append(_Message(message.tag, shard, message.routing_key, message.body, window.deliver(message.tag)))
            self._arrived.set()
            if len(self._buffer) >= size:
                self._full.set()

        await consumers.consume(ingest_queue(shard), str(shard), take)
        log.info("shard taken", shard=shard)

    async def _stop_shard(self, consumers: QueueConsumers, shard: int) -> None:
        await consumers.cancel(str(shard))
        while self._windows[shard].unacknowledged:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        del self._windows[shard]
        log.info("shard released", shard=shard)

    async def _consume(self, channel: AbstractChannel) -> None:
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                end_if_cancelled()
                messages = await self._collect(writing)
                early = self._pipeline.plant_cache.early_messages.take()
                deliveries = [Delivery(message.routing_key, message.body, message.arrived_after) for message in messages]
                cause = {"request_id": str(new_id())}
                with structlog.contextvars.bound_contextvars(**cause):
                    batch = await self._writer.prepare(deliveries)
                if batch is not None and batch.message_count < len(messages):
                    self._buffer[:0] = messages[batch.message_count :]
                    self._arrived.set()
                    del messages[batch.message_count :], deliveries[batch.message_count :]
                if writing is not None:
                    await writing
                writing = asyncio.create_task(self._write_and_acknowledge(channel, early, messages, deliveries, batch, cause))
                if batch is None:
                    # It is read while it is written. A batch that is read at the same time would see cached statuses too early.
                    await writing
        finally:
            if writing is not None:
                writing.cancel()

    async def _collect(self, writing: asyncio.Task[None] | None) -> list[_Message]:
        """Return the next batch: the messages that have arrived when it begins, at most its number and size.

        A full batch begins at once. A smaller one begins when the previous one is written: prepared earlier, it would have to
        wait, and would delay the write, because both run in one thread. Smaller batches also begin at least
        `ingest_batch_milliseconds` apart. So a message that arrives after a pause does not wait for others.
        """
        size = self._settings.ingest_batch_messages
        loop = asyncio.get_running_loop()
        await self._arrived.wait()
        if len(self._buffer) < size:
            self._full.clear()
            if writing is not None:
                await _wait_for_first(writing, self._full)
            await wait_at_most(self._full, self._batch_began + self._settings.ingest_batch_milliseconds / 1000 - loop.time())
        self._batch_began = loop.time()
        ends = itertools.accumulate(len(message.body) for message in self._buffer[:size])
        count = max(1, sum(end <= _BATCH_BYTES for end in ends))
        messages, self._buffer = self._buffer[:count], self._buffer[count:]
        if not self._buffer:
            self._arrived.clear()
        return messages

    async def _write_and_acknowledge(
        self,
        channel: AbstractChannel,
        early: Sequence[EarlyMessage],
        messages: Sequence[_Message],
        deliveries: Sequence[Delivery],
        batch: Batch | None,
        cause: Mapping[str, str],
    ) -> None:
        with at_work("ingest batch", cause, messages=len(deliveries)):
            await self._writer.write_early_messages(early)
            if not messages:
                return
            await self._writer.write(deliveries, batch)
        # Batches contain all messages in the order of delivery, so the last tag acknowledges all of them.
        await channel.basic_ack(messages[-1].tag, multiple=True)
        self._acknowledged_tag = messages[-1].tag
        for shard, count in Counter(message.shard for message in messages).items():
            self._windows[shard].acknowledge(count)
        self._acknowledged.set()


async def _wait_for_first(task: asyncio.Task[None], event: asyncio.Event) -> None:
    """Wait until the task has ended or the event is set."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
