"""A batch of many values of a metric with many rules."""

import asyncio
import time

from gridfleet.kernel.clock import utc_now
from support.clients.ingest_bench import Bench
from support.servers.running_task import running

RULES = 200


async def test_other_tasks_run_while_many_rules_are_applied(bench: Bench) -> None:
    """Among them are the heartbeats, without which the broker closes the connection and delivers the batch again."""
    plant = await bench.plant(["D"])
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert_rule (id, organization_id, name, metric, condition, threshold, severity, cooldown_minutes,"
            " enabled, for_seconds, auto_resolve) SELECT gen_random_uuid(), %s, 'r', 'a', 'GT', 1000 + n, 'INFO', 15,"
            " true, 0, false FROM generate_series(1, %s) AS n",
            (plant.organization_id, RULES),
        )
    base = int(time.time() * 1000) - 60_000
    await bench.take(plant.message({"time": base, "devices": [{"id": "D", "fields": {"a": 1}}]}))
    entries = [{"id": "D", "time": base + n, "fields": {"a": n}} for n in range(3_000)]
    message = plant.message([{"time": base, "devices": entries[first : first + 1_000]} for first in (0, 1_000, 2_000)])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    batch = await bench.pipeline.prepare([message])
    async with running(tick()):
        await asyncio.sleep(0)
        ticks = 0
        findings = await bench.pipeline.rule_cache.examine(batch.frames, utc_now())
    assert ticks > 20
    assert {hit.point.value for hit in findings.hits.values()} == {1_001 + n for n in range(1, RULES + 1)}


async def test_rules_share_the_values_of_their_metric(bench: Bench) -> None:
    """A copy for each of a thousand rules took 5 GB of memory for a batch, so that the system ended the process each time."""
    plant = await bench.plant(["D"])
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO alert_rule (id, organization_id, name, metric, condition, threshold, severity, cooldown_minutes,"
            " enabled, for_seconds, auto_resolve) SELECT gen_random_uuid(), %s, 'r', name, 'GT', n, 'INFO', 15,"
            " true, 0, true FROM generate_series(1, 20) AS n, unnest(ARRAY['a', 'b']) AS name",
            (plant.organization_id,),
        )
    base = int(time.time() * 1000) - 60_000
    entries = [{"id": "D", "time": base + n, "fields": {"a": n, "b": -n} if n % 2 else {"a": n}} for n in range(100)]
    batch = await bench.take(plant.message({"time": base, "devices": entries}))
    runs = batch.findings.runs
    assert [len([run for run in runs if run.watch.name == name]) for name in ("D.a", "D.b")] == [20, 20]
    assert {len(run.points) for run in runs if run.watch.name == "D.a"} == {100}
    assert {tuple(value for _, value in run.points) for run in runs if run.watch.name == "D.b"} == {tuple(range(-1, -100, -2))}
    assert len({id(run.points) for run in runs}) == 2
    assert [run.matched for run in runs if run.watch.name == "D.a"] == [True] * 20
    assert len(await plant.rows("SELECT FROM alert WHERE plant_id = %s")) == 20
