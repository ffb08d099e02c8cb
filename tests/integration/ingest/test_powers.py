"""Ingest keeps the newest power of plants: soon after a message, for each plant, and whatever happens between."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.ingest.pipeline import Pipeline
from gridfleet.domains.telemetry.power import refresh
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.ids import new_id
from support.clients.ingest_bench import Bench, BenchPlant
from support.servers.running_task import running


async def power(plant: BenchPlant) -> list[Any]:
    return await plant.rows("SELECT pv_kw, grid_kw FROM plant_power WHERE plant_id = %s")


async def shows(plant: BenchPlant, *expected: float | None) -> None:
    """Wait until the plant has this power of PV and grid."""
    async with asyncio.timeout(60):
        while await power(plant) != [expected]:
            await asyncio.sleep(0.05)


async def send(bench: Bench, plant: BenchPlant, pipeline: Pipeline | None = None, **powers: float) -> None:
    devices = [{"id": device, "fields": {"active_power": value}} for device, value in powers.items()]
    batch = await bench.take(plant.message({"time": int(time.time() * 1000), "devices": devices}), pipeline=pipeline)
    assert batch.results == {"accepted": 1}


async def test_the_power_follows_messages_also_of_one_device_after_the_other(bench: Bench) -> None:
    plant, other = await bench.plant(["PV1", "PV2", "GRID"]), await bench.plant(["PV1"])
    async with running(bench.pipeline.power_refresher.run()):
        await send(bench, plant, PV1=3.0)
        await send(bench, plant, PV2=4.0)
        await send(bench, plant, GRID=-2.0)
        await send(bench, other, PV1=1.0)
        await shows(plant, 7.0, -2.0)
        await shows(other, 1.0, None)
        await send(bench, plant, PV1=5.0)
        await shows(plant, 9.0, -2.0)


async def test_a_message_that_stores_nothing_refreshes_nothing(bench: Bench) -> None:
    plant, other = await bench.plant(["PV1"]), await bench.plant(["PV1"])
    async with running(bench.pipeline.power_refresher.run()):
        await bench.take(plant.message({"time": int(time.time() * 1000), "devices": [{"id": "X", "fields": {"a": 1}}]}))
        await send(bench, other, PV1=1.0)
        await shows(other, 1.0, None)
    assert await power(plant) == []


async def test_a_plant_whose_refresh_failed_is_refreshed_again(bench: Bench) -> None:
    plant = await bench.plant(["PV1"])
    await send(bench, plant, PV1=3.0)
    async with bench.database.transaction() as db:
        await db.execute("ALTER TABLE plant_power RENAME TO hidden")
    async with running(bench.pipeline.power_refresher.run()) as task:
        await asyncio.wait([task], timeout=2)
    async with bench.database.transaction() as db:
        await db.execute("ALTER TABLE hidden RENAME TO plant_power")
    await send(bench, plant, PV1=4.0)
    async with running(bench.pipeline.power_refresher.run()):
        await shows(plant, 4.0, None)


async def test_the_plants_of_a_large_fleet_do_not_delay_those_of_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[UUID]] = []

    async def note_turn(_: Connection, plant_ids: Sequence[UUID], *, with_kept: bool) -> None:
        turns.append(list(plant_ids))

    monkeypatch.setattr(refresh, "refresh_power", note_turn)
    refresher, (large, small) = refresh.PowerRefresher(database), (new_id(), new_id())
    fleet, others = [new_id() for _ in range(450)], [new_id() for _ in range(3)]
    refresher.note(large, fleet)
    refresher.note(small, others)
    refresher.note(large, fleet)
    async with running(refresher.run()), asyncio.timeout(60):
        while sum(map(len, turns)) < 453:
            await asyncio.sleep(0.05)
    assert set(others) <= set(turns[0])
    assert sorted(plant_id for turn in turns for plant_id in turn) == sorted(fleet + others)


async def test_after_a_long_refresh_fewer_plants_are_refreshed_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 plants of 500 devices each kept an ingest process from everything else for seconds, again and again."""
    turns: list[int] = []

    async def note_turn(_: Connection, plant_ids: Sequence[UUID], *, with_kept: bool) -> None:
        turns.append(len(plant_ids))
        await asyncio.sleep(0.005 * len(plant_ids))

    monkeypatch.setattr(refresh, "refresh_power", note_turn)
    refresher = refresh.PowerRefresher(database)
    refresher.note(new_id(), [new_id() for _ in range(400)])
    async with running(refresher.run()), asyncio.timeout(60):
        while len(turns) < 2:
            await asyncio.sleep(0.05)
    assert turns == [200, 100]


async def test_a_process_that_takes_over_reads_what_the_other_stored(bench: Bench) -> None:
    plant = await bench.plant(["PV1", "PV2"])
    await send(bench, plant, PV1=3.0)
    second = bench.another_process()
    async with running(second.power_refresher.run()):
        await send(bench, plant, second, PV2=4.0)
        await shows(plant, 7.0, None)
