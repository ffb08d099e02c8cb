"""A batch of many values of a metric with many rules."""

import asyncio
import time
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.alerts import evaluation, rule_cache
from gridfleet.domains.alerts import store as alerts
from gridfleet.domains.alerts.models import AlertRule
from gridfleet.domains.alerts.rules import store
from gridfleet.kernel.clock import utc_now
from support.builders.alerting import add_rule, ago, operator, snapshot
from support.clients.executed_statements import executed_statements
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
    runs, values = batch.findings.runs, batch.findings.values.values()
    assert [len([run for run in runs if run.watch.name == name]) for name in ("D.a", "D.b")] == [20, 0], "only a matches"
    assert {len(run.points) for run in runs} == {100}
    assert {tuple(value for _, value in points) for points in values} == {tuple(range(100)), tuple(range(-1, -100, -2))}
    assert {id(run.points) for run in runs} < {id(points) for points in values}
    assert len(values) == 2
    assert len(await plant.rows("SELECT FROM alert WHERE plant_id = %s")) == 20


async def test_a_rule_is_compiled_once_for_all_devices_with_the_same_metrics(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled for each, 500 rules took 220 bytes each for each device, in which no heartbeat was answered."""
    compiled = read = 0
    in_unit, enabled_of = rule_cache.in_unit, store.enabled_of

    def counted(*arguments: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return in_unit(*arguments)

    async def counted_rules(*arguments: Any) -> list[AlertRule]:
        nonlocal read
        rules = await enabled_of(*arguments)
        read += len(rules)
        return rules

    names = [f"D{number}" for number in range(10)]
    plant = await bench.plant(names)
    neighbour = await bench.plant(["D0"])
    async with bench.database.transaction() as db:
        await db.execute("UPDATE plant SET organization_id = %s WHERE id = %s", (plant.organization_id, neighbour.id))
        await db.execute("UPDATE sub_device SET organization_id = %s", (plant.organization_id,))
    for _ in range(3):
        await add_rule(bench.database, plant.organization_id, metric="a")
        await add_rule(bench.database, plant.organization_id, metric="a", plant_id=plant.id)
        await add_rule(bench.database, plant.organization_id, metric="D7.a", for_seconds=60)
        await add_rule(bench.database, plant.organization_id, metric="a", plant_id=neighbour.id)
    monkeypatch.setattr(rule_cache, "in_unit", counted)
    monkeypatch.setattr(store, "enabled_of", counted_rules)
    batch = await bench.pipeline.prepare([plant.message(snapshot(ago(5), **{name: {"a": 1} for name in names}))])
    assert (compiled, read) == (9, 9)
    assert len(batch.findings.hits) == 6
    assert [run.watch.name for run in batch.findings.runs] == ["D7.a"] * 3


async def test_an_organisation_has_a_bounded_number_of_states(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 rules on a metric of 1,000 devices took 45 s of each batch, in which the messages of all plants waited."""
    for module in (evaluation, rule_cache):
        monkeypatch.setattr(module, "MOST_STATES", 50)
    names = [f"D{number}" for number in range(10)]
    plant, neighbour = await bench.plant(names), await bench.plant(["D0"])
    for organization_id in (plant.organization_id, neighbour.organization_id):
        for _ in range(20):
            await add_rule(bench.database, organization_id, metric="a", for_seconds=60)

    async def say(seconds_ago: float, low: list[str], high: list[str]) -> list[tuple[str, int]]:
        """Report values; return the number of states of each device."""
        values = {name: {"a": 1 if name in low else 100} for name in [*low, *high]}
        message = plant.message(snapshot(ago(seconds_ago), **values))
        await bench.take(message, neighbour.message(snapshot(ago(seconds_ago), D0={"a": 1})))
        return await states_of(plant.id)

    async def states_of(plant_id: UUID) -> list[tuple[str, int]]:
        async with bench.database.transaction() as db:
            cursor = await db.execute(
                "SELECT metric, count(*) FROM alert_state a JOIN telemetry_source s ON s.id = a.source_id"
                " WHERE s.plant_id = %s GROUP BY 1 ORDER BY 1",
                (plant_id,),
            )
            return await cursor.fetchall()

    first = [("D0.a", 20), ("D1.a", 20), ("D2.a", 10)]
    assert await say(90, names, []) == first
    assert await say(80, names, []) == first, "the same conditions keep their states"
    assert await say(30, names[3:], names[:3]) == [], "their places are free"
    assert await say(25, names[3:], names[:3]) == [("D3.a", 20), ("D4.a", 20), ("D5.a", 10)]
    assert await states_of(neighbour.id) == [("D0.a", 20)]
    assert len(await neighbour.rows("SELECT FROM alert WHERE plant_id = %s")) == 20


async def test_rules_get_their_units_together(bench: Bench) -> None:
    """Alone, each of 500 rules read every newest value of its organisation again."""
    taken = []
    for count in (1, 20):
        plant = await bench.plant()
        await plant.add_device("inv", [{"key": "x", "field": "x", "unit": "W"}])
        rules = [await add_rule(bench.database, plant.organization_id, metric="x") for _ in range(count)]
        rules += [await add_rule(bench.database, plant.organization_id, metric="inv.x", plant_id=plant.id)]
        with executed_statements() as statements:
            await bench.take(plant.message(snapshot(ago(5), inv={"x": 900})))
        taken.append(len(statements))
        async with bench.database.transaction() as db:
            found = [await store.find(db, operator(plant.organization_id), rule.id) for rule in rules]
        assert [rule and rule.unit for rule in found] == ["W"] * (count + 1)
    assert taken[0] >= taken[1]


async def test_the_newest_values_of_many_metrics_are_read_in_one_pass(bench: Bench) -> None:
    """With the plan for a few metrics, all names of a device were read for each of 10,000, and no batch was written in 30 s."""
    devices = [f"D{number}" for number in range(4)]
    plant = await bench.plant(devices)
    names = [f"n{number}" for number in range(4_000)]
    base = int(time.time() * 1000) - 60_000
    for first in range(0, len(names), 1_000):
        fields = dict.fromkeys(names[first : first + 1_000], 1)
        await bench.take(plant.message({"time": base + first, "devices": [{"id": one, "fields": fields} for one in devices]}))
    await bench.take(plant.message({"time": base - 1, "fields": {"n7": 1}, "devices": [{"id": "D1", "fields": {"n8": 2}}]}))
    async with bench.database.autocommit() as db:
        await db.execute("ANALYZE")
    async with bench.database.transaction() as db:
        await db.execute("SET LOCAL statement_timeout = '8s'")
        cursor = await db.execute("SELECT id, external_id FROM telemetry_source WHERE plant_id = %s", (plant.id,))
        sources = dict(await cursor.fetchall())
        wanted = [(one, name) for one, device in sources.items() for name in (f"{device}.{each}" for each in names if device)]
        wanted += [(one, "n7") for one in sources] + [(one, "D1.n8x") for one in sources]
        for _ in range(8):  # after five, PostgreSQL may keep a plan for lists of any length
            found = await alerts.newest_times(db, wanted)
    expected = {
        (one, f"{device}.{name}"): base + number // 1_000 * 1_000
        for one, device in sources.items()
        if device
        for number, name in enumerate(names)
    }
    expected |= {(one, "n7"): base - 1 for one, device in sources.items() if device is None}
    assert {metric: round(at.timestamp() * 1000) for metric, at in found.items()} == expected


async def test_units_of_rules_on_devices_are_found_among_many_devices(bench: Bench) -> None:
    """Each of 500 rules was compared with each of 30,000 devices: after five times, ingest waited for over 30 s."""
    plant = await bench.plant()
    await plant.add_device("inv", [{"key": f"x{number}", "field": f"x{number}", "unit": "W"} for number in range(200)])
    await bench.take(plant.message(snapshot(ago(5), inv={"x0": 900})))
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), %s, %s, 'd' || n, 'd', 'INVERTER' FROM generate_series(1, 30000) AS n",
            (plant.organization_id, plant.id),
        )
        await db.execute(
            "WITH made AS (INSERT INTO telemetry_source (organization_id, plant_id, sub_device_id, external_id)"
            " SELECT organization_id, plant_id, id, external_id FROM sub_device WHERE name = 'd' RETURNING id)"
            " INSERT INTO telemetry_latest (source_id, layout_id, time, vals, absent)"
            " SELECT made.id, l.layout_id, l.time, ARRAY[1.0::float8], l.absent FROM made, telemetry_latest l"
        )
        await db.execute(
            "INSERT INTO alert_rule (id, organization_id, name, metric, condition, threshold, severity, cooldown_minutes,"
            " enabled, for_seconds, auto_resolve) SELECT gen_random_uuid(), %s, 'r', 'd' || n || '.x' || (n %% 200), 'GT', 0,"
            " 'INFO', 15, true, 0, false FROM generate_series(1, 500) AS n",
            (plant.organization_id,),
        )
    async with bench.database.autocommit() as db:
        await db.execute("ANALYZE")
    async with bench.database.transaction() as db:
        await db.execute("SET LOCAL statement_timeout = '8s'")
        rules = await store.enabled_of(db, [plant.organization_id], [])
        for _ in range(8):
            units = await store.layout_units(db, rules)
    assert units == {rule.id: {"W"} for rule in rules}

    # The rule of a plant without devices reads no newest values of the others. Their sources have 460 blocks.
    [(empty,)] = await plant.rows(
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
        " SELECT gen_random_uuid(), organization_id, 'empty', 'empty', type, auth_method FROM plant WHERE id = %s RETURNING id"
    )
    rule = await add_rule(bench.database, plant.organization_id, metric="inv.x0", plant_id=empty)
    async with bench.database.transaction() as db:
        with executed_statements() as statements:
            assert await store.layout_units(db, [rule]) == {}
        values = [[rule.id], [rule.organization_id], [rule.plant_id], [rule.metric]]
        cursor = await db.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statements[0]}", values)
        [([explained],)] = await cursor.fetchall()
    assert explained["Plan"]["Shared Hit Blocks"] + explained["Plan"]["Shared Read Blocks"] < 600


async def test_the_unit_of_a_rule_is_found_among_many_metrics(bench: Bench) -> None:
    """For each metric of each device, all its newest values were read: 2 to 10 s for 2,000 devices with 2,000 metrics."""
    plant = await bench.plant()
    await plant.add_device("d0", [{"key": f"x{number}", "field": f"x{number}", "unit": "W"} for number in range(2_000)])
    await bench.take(plant.message(snapshot(ago(5), d0={"x7": 900, "x8": 1})))
    async with bench.database.transaction() as db:
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), %s, %s, 'd' || n, 'd', 'INVERTER' FROM generate_series(1, 2000) AS n",
            (plant.organization_id, plant.id),
        )
        await db.execute(
            "WITH made AS (INSERT INTO telemetry_source (organization_id, plant_id, sub_device_id, external_id)"
            " SELECT organization_id, plant_id, id, external_id FROM sub_device WHERE name = 'd' RETURNING id)"
            " INSERT INTO telemetry_latest (source_id, layout_id, time, vals, absent) SELECT made.id, l.layout_id, l.time,"
            " (SELECT array_agg(random()) FROM generate_series(1, 2000)), l.absent FROM made, telemetry_latest l"
        )
    async with bench.database.autocommit() as db:
        await db.execute("ANALYZE")
    async with bench.database.transaction() as db:
        await db.execute("SET LOCAL statement_timeout = '1s'")
        for metric in ("x7", "d999.x7", "d0.x8"):
            for plant_id in (None, plant.id):
                assert await store.units_of(db, plant.organization_id, plant_id, metric) == {"W"}
        for metric in ("d0.x9", "d2001.x7", "y"):
            assert await store.units_of(db, plant.organization_id, None, metric) == set()
