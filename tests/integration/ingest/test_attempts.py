"""Messages that the worker reads more than once have their effects once, and none is left out."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest
from psycopg import OperationalError

from gridfleet.domains.alerts.matches import Findings
from gridfleet.domains.alerts.rule_cache import RuleCache
from gridfleet.domains.telemetry.frames.models import FrameBatch
from gridfleet.kernel.settings import Settings
from gridfleet.mqtt.worker import IngestWorker
from support.clients.ingest_bench import Bench, moment

Examine = Callable[[RuleCache, FrameBatch, datetime], Awaitable[Findings]]


def worker_of(bench: Bench) -> IngestWorker:
    return IngestWorker(Settings(), bench.database, bench.keyring)


async def test_messages_for_several_batches_have_their_effects_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.domains.ingest.pipeline.MOST_FRAMES", 2)
    examine: Examine = RuleCache.examine

    async def fail_at_666(rules: RuleCache, frames: FrameBatch, now: datetime) -> Findings:
        if "666" in repr(list(frames.frames.values())):
            raise ValueError("poison")
        return await examine(rules, frames, now)

    monkeypatch.setattr(RuleCache, "examine", fail_at_666)
    plant = await bench.plant()
    values = [0, 1, 2, 666]
    messages = [plant.message({"time": moment(n).isoformat(), "fields": {"a": value}}) for n, value in enumerate(values)]
    refused = plant.message({"time": "never", "fields": {"a": 1}})

    await worker_of(bench)._write([refused, *messages], None)

    assert len(await plant.refusals()) == 2
    assert (await plant.stored())["a"] == {moment(n): n for n in range(3)}


async def test_a_second_attempt_to_read_writes_the_status(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the first attempt left the status in the cache, as if it was written."""
    examine: Examine = RuleCache.examine
    failures = [OperationalError("the connection is lost")]

    async def fail_once(rules: RuleCache, frames: FrameBatch, now: datetime) -> Findings:
        if failures:
            raise failures.pop()
        return await examine(rules, frames, now)

    monkeypatch.setattr(RuleCache, "examine", fail_once)
    plant = await bench.plant()

    batch = await worker_of(bench)._prepare([plant.message({"time": moment(0).isoformat(), "fields": {"a": 1}})])

    assert batch is not None
    assert set(batch.plants_seen) == {plant.id}
