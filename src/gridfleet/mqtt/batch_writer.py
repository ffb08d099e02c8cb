"""Reads and writes the batches of an ingest process, and isolates the messages that fail by themselves."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Final, TypeVar

import structlog

from gridfleet.domains.consumers import Consumer
from gridfleet.domains.ingest.early_messages import EarlyMessage, write_early_messages
from gridfleet.domains.ingest.models import Batch, Delivery
from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.plants.changes import ChangePublisher
from gridfleet.kernel import metrics
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Database, limit_statements
from gridfleet.kernel.isolation import is_poison, isolate, may_be_poison, reason_of, took_too_long
from gridfleet.kernel.tasks import end_if_cancelled
from gridfleet.protocol.topics import parse_routing_key

__all__ = ["BatchWriter", "until_it_works"]

log = structlog.get_logger(__name__)

T = TypeVar("T")

_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
_IDLE_SECONDS: Final = 60.0
_SLOW_PLANT_SECONDS: Final = 600.0
"""How long a plant counts as slow after one of its messages took too long."""
_SLOW_STATEMENT_SECONDS: Final = 2.0
_SLOW_SHARE_SECONDS: Final = 5.0
"""Time of a batch in which messages of slow plants are tried. The remaining ones of the batch are set aside."""


class _TooMany(Exception):
    """The messages do not fit into one batch."""


class _NoTimeLeft(Exception):
    """Slow plants have used their time of the batch."""


class BatchWriter:
    """Writes batches one after the other; the next batch may be prepared meanwhile.

    A message whose statements take too long would be repeated without end and delay the messages of all plants. It is isolated
    and set aside, and its plant counts as slow: for ten minutes its messages are written after those of other plants, for at
    most five seconds of each batch.
    """

    def __init__(self, database: Database, pipeline: Pipeline, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Prepare the writer.

        Args:
            database: The database.
            pipeline: Reads and stores messages.
            idle_seconds: How long the metric of the lag keeps the value of the last batch.
        """
        self._database = database
        self._pipeline = pipeline
        self.changes = ChangePublisher(database)
        """Publishes which plants have new values; its owner runs it."""
        self._slow_until: dict[str, float] = {}
        self._idle_seconds = idle_seconds
        self._lag_reset: asyncio.TimerHandle | None = None

    async def prepare(self, deliveries: Sequence[Delivery]) -> Batch | None:
        """Verify and decode the first messages, as many as one batch holds.

        Returns:
            None if a message makes the batch fail, or may: `write` then reads the messages again, in smaller numbers.
        """
        slow, _ = self._divide(deliveries)
        if slow:
            return None
        try:
            return await until_it_works(partial(self._read, deliveries), may_be_poison)
        except Exception as error:
            log.warning("batch cannot be read", messages=len(deliveries), error=reason_of(error))
            return None

    async def write(self, deliveries: Sequence[Delivery], batch: Batch | None) -> None:
        """Commit the batch.

        A batch that fails by itself is read again, because cached plants or partitions may be outdated, and halved until only
        the failing message is left.
        """
        with self._resetting_lag():
            if batch is not None:
                try:
                    await until_it_works(partial(self._store, batch), may_be_poison)
                    return
                except Exception as error:
                    log.warning("batch cannot be stored", messages=len(deliveries), error=reason_of(error))
            slow, others = self._divide(deliveries)
            await isolate(Consumer.INGEST, others, self._write_again, self._set_aside, attrgetter("request_id"))
            write_slow = partial(self._write_slow, monotonic() + _SLOW_SHARE_SECONDS)
            for delivery in slow:
                await isolate(Consumer.INGEST, [delivery], write_slow, self._set_aside, attrgetter("request_id"))

    async def write_early_messages(self, messages: Sequence[EarlyMessage]) -> None:
        """Commit the presence that follows from these messages. If it cannot be stored, the plants' next messages write it."""
        if not messages:
            return
        try:
            with limit_statements(_SLOW_STATEMENT_SECONDS):
                await until_it_works(partial(self._write_early_messages, messages), may_be_poison)
        except Exception as error:
            log.warning("presence cannot be stored", plants=len(messages), error=reason_of(error))

    async def _write_early_messages(self, messages: Sequence[EarlyMessage]) -> None:
        async with self._database.transaction() as db:
            await write_early_messages(db, messages)

    def _divide(self, deliveries: Sequence[Delivery]) -> tuple[Sequence[Delivery], Sequence[Delivery]]:
        """Return the deliveries of plants that count as slow, and the other ones."""
        if not self._slow_until:
            return [], deliveries
        now = monotonic()
        self._slow_until = {plant: until for plant, until in self._slow_until.items() if until > now}
        slow: list[Delivery] = []
        others: list[Delivery] = []
        for delivery in deliveries:
            (slow if _plant_of(delivery) in self._slow_until else others).append(delivery)
        return slow, others

    async def _read(self, deliveries: Sequence[Delivery]) -> Batch:
        with self._invalidating():
            return await self._pipeline.prepare(deliveries)

    async def _store(self, batch: Batch) -> None:
        with self._invalidating(), metrics.INGEST_BATCH_SECONDS.time():
            async with self._database.transaction() as db:
                await self._pipeline.store(db, batch)
        self.changes.note(batch.changed)
        _count_committed(batch)

    @contextmanager
    def _resetting_lag(self) -> Iterator[None]:
        """Set the lag to 0 when no batch follows the block: the last one's would stay while other processes get messages."""
        if self._lag_reset is not None:
            self._lag_reset.cancel()
        try:
            yield
        finally:
            self._lag_reset = asyncio.get_running_loop().call_later(self._idle_seconds, metrics.INGEST_LAG_SECONDS.set, 0.0)

    @contextmanager
    def _invalidating(self) -> Iterator[None]:
        """Clear the caches if the block fails.

        They may hold as written what is not in the database, such as a plant's status or a layout.
        """
        try:
            yield
        except Exception:
            self._pipeline.invalidate()
            raise

    async def _write_again(self, deliveries: Sequence[Delivery]) -> None:
        """Store all messages or none. Raises if they are more than a batch holds; `isolate` then halves them."""
        batch = await until_it_works(partial(self._read, deliveries), may_be_poison)
        if batch.message_count < len(deliveries):
            self._pipeline.invalidate()
            raise _TooMany(f"a batch holds {batch.message_count} of {len(deliveries)} messages")
        await until_it_works(partial(self._store, batch), may_be_poison)

    async def _write_slow(self, until: float, deliveries: Sequence[Delivery]) -> None:
        """Store a message of a slow plant. Raises after the time `until` of the monotonic clock."""
        if monotonic() >= until:
            raise _NoTimeLeft(f"the plant's messages take longer than {_SLOW_SHARE_SECONDS:g} s of a batch")
        with limit_statements(_SLOW_STATEMENT_SECONDS):
            await self._write_again(deliveries)

    async def _set_aside(self, delivery: Delivery, error: Exception) -> None:
        """Store the refusal of a message.

        A message counts as too slow only if its refusal can be stored quickly. Otherwise the database is slow, and the message
        is tried again.
        """
        while took_too_long(error):
            try:
                with limit_statements(_SLOW_STATEMENT_SECONDS):
                    await until_it_works(partial(self._refuse, delivery), may_be_poison)
            except Exception as second:
                if not took_too_long(second):
                    raise
            else:
                self._note_slow(delivery)
                return
            try:
                await self._write_again([delivery])
            except Exception as again:
                error = again
            else:
                return
        await until_it_works(partial(self._refuse, delivery))

    async def _refuse(self, delivery: Delivery) -> None:
        await self._store(await self._pipeline.refuse_unstorable(delivery))

    def _note_slow(self, delivery: Delivery) -> None:
        self._slow_until[_plant_of(delivery)] = monotonic() + _SLOW_PLANT_SECONDS
        log.error("messages of a plant take too long", plant_id=_plant_of(delivery), seconds=_SLOW_PLANT_SECONDS)


def _count_committed(batch: Batch) -> None:
    """Update the metrics after the batch's transaction has committed."""
    for result, count in batch.results.items():
        metrics.INGEST_MESSAGES.labels(result).inc(count)
    metrics.INGEST_POINTS.inc(sum(map(len, batch.frames.frames.values())))
    metrics.INGEST_UNDECLARED_FIELDS.inc(batch.undeclared_fields)
    for severity in batch.alerts:
        metrics.ALERTS_RAISED.labels(severity.lower()).inc()
    if batch.oldest_sent_at is not None:
        metrics.INGEST_LAG_SECONDS.set(max(0.0, utc_now().timestamp() - batch.oldest_sent_at / 1000))


def _plant_of(delivery: Delivery) -> str:
    topic = parse_routing_key(delivery.routing_key)
    return topic.plant_id if topic else ""


async def until_it_works(operation: Callable[[], Awaitable[T]], is_failure: Callable[[BaseException], bool] = is_poison) -> T:
    """Repeat an operation while the database is unavailable. Errors for which `is_failure` returns True are raised."""
    for pause in itertools.chain(_RETRY_SECONDS, itertools.repeat(_RETRY_SECONDS[-1])):
        try:
            return await operation()
        except Exception as error:
            if is_failure(error):
                raise
            end_if_cancelled()
            log.warning("database error, retrying", error=type(error).__name__, detail=str(error), seconds=pause)
            await asyncio.sleep(pause)
    raise RuntimeError("the pauses ended")
