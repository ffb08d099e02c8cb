"""How often a plant usually sends, from which its silence is detected: only its own pace counts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.plants.presence.records import sweep_silent
from support.builders.clock import set_clock
from support.clients.ingest_bench import Bench, BenchPlant

At = Callable[[float], int]


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Set the clock of the ingest process to seconds after the start. Returns the time in epoch milliseconds."""
    start = datetime.now(UTC)

    def set_to(seconds: float) -> int:
        now = start + timedelta(seconds=seconds)
        set_clock(monkeypatch, lambda: now)
        return int(now.timestamp() * 1000)

    return set_to


async def send(bench: Bench, plant: BenchPlant, sent_at: int, measured_at: int | None = None) -> None:
    payload = {"time": sent_at if measured_at is None else measured_at, "devices": [{"id": "D", "fields": {"a": 1}}]}
    batch = await bench.take(plant.message(payload, sent_at=sent_at))
    assert batch.results == {"accepted": 1}


async def statuses_after(bench: Bench, plant: BenchPlant, silence: timedelta) -> tuple[str, str]:
    """Return the status of the plant and of its sub-device after this time without messages."""
    async with bench.database.transaction() as db:
        for table in ("plant", "sub_device"):
            await db.execute(f"UPDATE {table} SET last_seen_at = now() - %s".encode(), (silence,))
        await sweep_silent(db)
    [(own, device)] = await plant.rows(
        "SELECT p.status, d.status FROM plant p JOIN sub_device d ON d.plant_id = p.id WHERE p.id = %s"
    )
    return own, device


async def test_a_plant_that_sends_every_five_minutes_is_online_between_its_messages(bench: Bench, at: At) -> None:
    plant = await bench.plant(["D"])
    at(0)
    await bench.take(plant.delivery(b'{"status":"ONLINE"}', "status"))
    await send(bench, plant, at(0.2))
    for number in range(1, 4):
        await send(bench, plant, at(0.2 + 300 * number))
        assert await statuses_after(bench, plant, timedelta(minutes=5)) == ("ONLINE", "ONLINE")
    assert await statuses_after(bench, plant, timedelta(minutes=16)) == ("OFFLINE", "UNKNOWN")


async def test_a_report_in_several_messages_counts_once(bench: Bench, at: At) -> None:
    plant = await bench.plant(["D"])
    for number in range(10):
        for part in range(4):
            await send(bench, plant, at(300 * number + 0.1 * part))
    assert await statuses_after(bench, plant, timedelta(minutes=5)) == ("ONLINE", "ONLINE")


async def test_the_time_between_two_connections_is_no_interval(bench: Bench, at: At) -> None:
    plant = await bench.plant(["D"])
    await send(bench, plant, at(0))
    for hours, status in ((1, b'{"status":"OFFLINE"}'), (9, b'{"status":"ONLINE"}')):
        at(hours * 3600)
        await bench.take(plant.delivery(status, "status"))
    await send(bench, plant, at(9 * 3600 + 1))
    assert await statuses_after(bench, plant, timedelta(minutes=2)) == ("OFFLINE", "UNKNOWN")


async def test_a_backlog_in_single_messages_does_not_make_the_plant_seem_faster(bench: Bench, at: At) -> None:
    plant = await bench.plant(["D"])
    for number in range(3):
        await send(bench, plant, at(300 * number))
    for status in (b'{"status":"OFFLINE"}', b'{"status":"ONLINE"}'):
        at(7200)
        await bench.take(plant.delivery(status, "status"))
    for number in range(3, 25):
        measured_at = at(300 * number)
        await send(bench, plant, at(7200 + 0.4 * number), measured_at)
    await send(bench, plant, at(7500))
    assert await statuses_after(bench, plant, timedelta(minutes=5)) == ("ONLINE", "ONLINE")


@pytest.mark.parametrize("restarts", [True, False])
async def test_messages_that_waited_for_the_service_do_not_make_the_plant_seem_faster(
    bench: Bench, at: At, restarts: bool
) -> None:
    plant = await bench.plant(["D"])
    for number in range(3):
        await send(bench, plant, at(300 * number))
    waiting = [at(300 * number) for number in range(3, 23)]
    if restarts:
        bench.pipeline = bench.another_process()
    for number, sent_at in enumerate(waiting):
        at(300 * 22 + 10 + number)
        await send(bench, plant, sent_at)
    await send(bench, plant, at(300 * 23))
    assert await statuses_after(bench, plant, timedelta(minutes=5)) == ("ONLINE", "ONLINE")
    for number in range(24, 27):
        await send(bench, plant, at(300 * number))
    assert await statuses_after(bench, plant, timedelta(minutes=20)) == ("OFFLINE", "UNKNOWN")


@pytest.mark.parametrize("cause", ["restart", "change"])
async def test_a_new_process_continues_with_the_usual_interval(bench: Bench, at: At, cause: str) -> None:
    """Also after the change of any template. The first two messages may be a report and, soon after it, an event."""
    plant = await bench.plant(["D"])
    for number in range(4):
        await send(bench, plant, at(900 * number))
    if cause == "restart":
        bench.pipeline = bench.another_process()
    else:
        bench.pipeline.plant_cache.invalidate_all()
    for seconds in (3600, 3630, 4500):
        await send(bench, plant, at(seconds))
        assert await statuses_after(bench, plant, timedelta(minutes=15)) == ("ONLINE", "ONLINE")
    assert await statuses_after(bench, plant, timedelta(hours=1)) == ("OFFLINE", "UNKNOWN")
