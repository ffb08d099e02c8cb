"""`python -m bench.traced_ingest FOLDER`: the ingest process, with the time of each stage of its batches written to a file.

The file is `FOLDER/PID.jsonl`, with one `TracedBatch` a line. The stages are those of the ingest itself; only functions around
them are replaced. Times are seconds of `time.perf_counter`, which all processes of a Linux machine share.
"""

import json
import os
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import aiormq

from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.kernel.broker.frames import TaggedMessage, Take
from gridfleet.kernel.broker.queue_consumers import QueueConsumers
from gridfleet.kernel.db import Connection, after_commit
from gridfleet.kernel.settings import Settings
from gridfleet.mqtt import worker
from gridfleet.processes import run_ingest

__all__ = ["TracedBatch", "key_of", "read_trace"]


class TracedBatch(NamedTuple):
    """When a batch passed each stage.

    `delivered` has the time at which each message was taken from the connection, by the message's key.
    """

    delivered: dict[str, float]
    collected: float
    prepared: float
    begun: float
    written: float
    committed: float
    acknowledged: float


def key_of(body: bytes) -> str:
    """Return what identifies a message in a trace: each has its own id and signature."""
    return f"{zlib.crc32(body):08x}"


def read_trace(folder: Path) -> list[TracedBatch]:
    """Return the batches of all processes that wrote to the folder."""
    return [TracedBatch(*json.loads(line)) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


_BEGUN: Final = TracedBatch._fields.index("begun")


class _Trace:
    """The times of the batches that are not acknowledged yet."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._delivered: dict[str, float] = {}
        self._times: dict[int, list[Any]] = {}
        """The times of each batch by its `id`; the batch lives until its last stage."""
        self._committed: list[list[Any]] = []

    def deliver(self, body: bytes) -> None:
        self._delivered[key_of(body)] = time.perf_counter()

    def prepare(self, batch: Batch, deliveries: Sequence[Delivery], collected: float) -> None:
        keys = [key_of(delivery.body) for delivery in deliveries[: batch.message_count]]
        delivered = {key: self._delivered.pop(key) for key in keys if key in self._delivered}
        self._times[id(batch)] = [delivered, collected, time.perf_counter()]

    def begin(self, batch: Batch) -> None:
        # A retry begins again.
        self._times[id(batch)][_BEGUN:] = [time.perf_counter()]

    def write(self, batch: Batch) -> None:
        self._times[id(batch)].append(time.perf_counter())

    def commit(self, batch: Batch) -> None:
        self._committed.append([*self._times.pop(id(batch)), time.perf_counter()])

    def acknowledge(self) -> None:
        for times in self._committed:
            self._file.write(json.dumps([*times, time.perf_counter()]) + "\n")
        self._committed.clear()
        self._file.flush()


def _install(trace: _Trace) -> None:
    """Replace the functions around the stages by functions that also note the time."""
    consume, acknowledge = QueueConsumers.consume, aiormq.Channel.basic_ack

    async def consume_traced(self: QueueConsumers, queue: str, tag: str, take: Take) -> None:
        def take_traced(message: TaggedMessage) -> None:
            trace.deliver(message.body)
            take(message)

        await consume(self, queue, tag, take_traced)

    async def acknowledge_traced(self: aiormq.Channel, *arguments: Any, **options: Any) -> Any:
        await acknowledge(self, *arguments, **options)
        trace.acknowledge()

    class TracedPipeline(Pipeline):
        async def prepare(self, deliveries: Sequence[Delivery]) -> Batch:
            began = time.perf_counter()
            batch = await super().prepare(deliveries)
            trace.prepare(batch, deliveries, began)
            return batch

        async def store(self, db: Connection, batch: Batch) -> None:
            trace.begin(batch)
            await super().store(db, batch)
            trace.write(batch)
            after_commit(db, lambda: trace.commit(batch))

    QueueConsumers.consume = consume_traced  # type: ignore[method-assign]
    aiormq.Channel.basic_ack = acknowledge_traced  # type: ignore[method-assign]
    worker.Pipeline = TracedPipeline  # type: ignore[attr-defined]


if __name__ == "__main__":
    with (Path(sys.argv[1]) / f"{os.getpid()}.jsonl").open("w") as file:
        _install(_Trace(file))
        run_ingest(Settings())
