"""After a clock that was ahead has been set back, stored times in the future make no status, alert or value wrong."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.plants.presence.records import sweep_silent
from support.builders.alerting import add_rule, ago, alerts_of, snapshot
from support.builders.clock import set_clock
from support.clients.ingest_bench import Bench, BenchPlant

SetAhead = Callable[[timedelta], None]


@pytest.fixture
def set_ahead(monkeypatch: pytest.MonkeyPatch) -> SetAhead:
    """Set the clock of the ingest process, by its difference to the true time."""
    return lambda ahead: set_clock(monkeypatch, lambda: datetime.now(UTC) + ahead)


async def sweep(bench: Bench) -> None:
    async with bench.database.transaction() as db:
        await sweep_silent(db)


async def pass_time(bench: Bench, plant: BenchPlant, interval: str) -> None:
    """Make everything that was seen lie further back."""
    async with bench.database.transaction() as db:
        for table, column in (("plant", "id"), ("sub_device", "plant_id")):
            statement = f"UPDATE {table} SET last_seen_at = last_seen_at - %s::interval WHERE {column} = %s"
            await db.execute(statement.encode(), (interval, plant.id))


async def test_a_rule_raises_alerts_again(bench: Bench) -> None:
    plant = await bench.plant()
    rule = await add_rule(bench.database, plant.organization_id)
    async with bench.database.transaction() as db:
        await db.execute("UPDATE alert_rule SET last_triggered_at = now() + interval '1 day' WHERE id = %s", (rule.id,))

    for seconds_ago in (5, 4):
        await bench.take(plant.message(snapshot(ago(seconds_ago), {"soc": 5})))

    assert len(await alerts_of(bench.database, plant.organization_id)) == 1, "one alert, then the cooldown"


@pytest.mark.parametrize("status", ["ONLINE", "DEGRADED"])
async def test_a_plant_that_fails_goes_offline(bench: Bench, set_ahead: SetAhead, status: str) -> None:
    plant = await bench.plant(["D"])
    set_ahead(timedelta(minutes=8))
    await bench.take(
        plant.message({"time": ago(0).isoformat(), "devices": [{"id": "D", "fields": {"a": 1}, "status": status}]}),
    )
    set_ahead(timedelta(0))
    statuses = "SELECT p.status, d.status FROM plant p JOIN sub_device d ON d.plant_id = p.id WHERE p.id = %s"

    await sweep(bench)
    assert await plant.rows(statuses) == [("ONLINE", status)], "its silence counts from the correction"
    await pass_time(bench, plant, "2 minutes")
    await sweep(bench)

    assert await plant.rows(statuses) == [("OFFLINE", "UNKNOWN")]


async def test_a_sub_device_that_fails_goes_offline(bench: Bench, set_ahead: SetAhead) -> None:
    plant = await bench.plant(["D"])
    set_ahead(timedelta(minutes=8))
    await bench.take(plant.message({"time": ago(0).isoformat(), "devices": [{"id": "D", "fields": {"a": 1}}]}))
    set_ahead(timedelta(0))

    await sweep(bench)
    await pass_time(bench, plant, "2 minutes")
    await bench.take(plant.delivery(b'{"status":"ONLINE"}', "status"))
    await sweep(bench)

    assert await plant.rows("SELECT status FROM sub_device WHERE plant_id = %s") == [("OFFLINE",)]


async def test_telemetry_brings_a_plant_back_that_went_offline_while_the_clock_was_ahead(
    bench: Bench, set_ahead: SetAhead
) -> None:
    plant = await bench.plant()
    set_ahead(timedelta(days=300))
    await bench.take(plant.delivery(b'{"status":"OFFLINE"}', "status"))
    set_ahead(timedelta(0))

    await sweep(bench)
    await bench.take(plant.message(snapshot(ago(0), {"a": 1}), sent_at=int(time.time() * 1000) + 1))

    assert await plant.rows("SELECT status FROM plant WHERE id = %s") == [("ONLINE",)]


async def test_presence_is_written_at_the_usual_intervals(bench: Bench, set_ahead: SetAhead) -> None:
    plant = await bench.plant(["D"])
    payload = {"time": ago(0).isoformat(), "devices": [{"id": "D", "fields": {"a": 1}}]}
    set_ahead(timedelta(minutes=8))
    await bench.take(plant.message(payload))
    set_ahead(timedelta(0))

    await sweep(bench)
    await pass_time(bench, plant, "2 minutes")
    await bench.take(plant.message(payload))
    await sweep(bench)

    statuses = "SELECT p.status, d.status FROM plant p JOIN sub_device d ON d.plant_id = p.id WHERE p.id = %s"
    assert await plant.rows(statuses) == [("ONLINE", "ONLINE")]


async def test_a_new_field_is_stored(bench: Bench, set_ahead: SetAhead) -> None:
    plant = await bench.plant()
    set_ahead(timedelta(minutes=8))
    await bench.take(plant.message(snapshot(ago(2), {"a": 1})))
    set_ahead(timedelta(0))

    await bench.take(plant.message(snapshot(ago(1), {"a": 1, "b": 2})))

    assert set(await plant.latest()) == {"a", "b"}
    assert await plant.refusals() == []
