"""Messages that the worker reads more than once have their effects once, and none is left out."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest
from psycopg import OperationalError

from gridfleet.domains.alerts.matches import Findings
from gridfleet.domains.alerts.rule_cache import RuleCache
from gridfleet.domains.telemetry.frames.models import FrameBatch
from support.clients.ingest_bench import moment
from support.servers.ingest_line import Line, all_dealt_with, until

Examine = Callable[[RuleCache, FrameBatch, datetime], Awaitable[Findings]]


async def test_messages_for_several_batches_have_their_effects_once(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails is read again in halves. The half after the failing message has more frames than a batch holds."""
    monkeypatch.setattr("gridfleet.domains.ingest.pipeline.MOST_FRAMES", 2)
    examine: Examine = RuleCache.examine

    async def fail_at_666(rules: RuleCache, frames: FrameBatch, now: datetime) -> Findings:
        if "666" in repr(list(frames.frames.values())):
            raise ValueError("poison")
        return await examine(rules, frames, now)

    monkeypatch.setattr(RuleCache, "examine", fail_at_666)
    plant = await line.bench.plant()
    await line.publish(plant.message({"time": "never", "fields": {"a": 1}}))
    for number, value in enumerate([666, 1, 2, 3]):
        await line.publish(plant.message({"time": moment(number).isoformat(), "fields": {"a": value}}))

    async with line.worker():
        await until(lambda: all_dealt_with([plant], 5))

    assert len(await plant.refusals()) == 2
    assert (await plant.stored())["a"] == {moment(n): n for n in (1, 2, 3)}


async def test_a_second_attempt_to_read_writes_the_status(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the first attempt left the status in the cache, as if it was written."""
    examine: Examine = RuleCache.examine
    failures = [OperationalError("the connection is lost")]

    async def fail_once(rules: RuleCache, frames: FrameBatch, now: datetime) -> Findings:
        if failures:
            raise failures.pop()
        return await examine(rules, frames, now)

    monkeypatch.setattr(RuleCache, "examine", fail_once)
    plant = await line.bench.plant()
    await line.publish(plant.message({"time": moment(0).isoformat(), "fields": {"a": 1}}))

    async with line.worker():
        await until(lambda: all_dealt_with([plant], 1))

    assert failures == []
    assert await plant.rows("SELECT status FROM plant WHERE id = %s") == [("ONLINE",)]
