"""The names that an ingest process keeps in memory for the plants of one organisation."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from gridfleet.domains.telemetry.frames.lookup import used_layouts
from gridfleet.domains.telemetry.frames.models import SourceLayout
from gridfleet.kernel.db import Connection
from support.clients.ingest_bench import Bench, BenchPlant, moment

LIMIT = "payload.devices.0.fields: 2,500,000 names of the organisation were used within an hour; dropped: "


def snapshot(second: int, **devices: dict[str, Any]) -> dict[str, Any]:
    entries = [{"id": name, "fields": values} for name, values in devices.items()]
    return {"time": moment(second).isoformat(), "devices": entries}


def numbered(first: int, last: int) -> dict[str, Any]:
    return {f"n{number}": number for number in range(first, last + 1)}


def limit_names(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("gridfleet.domains.ingest.organization_names.MAX_ORGANIZATION_NAMES", most)


def let_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for module in ("readers", "organization_names"):
        monkeypatch.setattr(f"gridfleet.domains.ingest.{module}.monotonic", lambda: time.monotonic() + seconds)


async def plants_of_one_organization(bench: Bench, count: int) -> list[BenchPlant]:
    first = await bench.plant(["D"])
    return [first, *[await bench.plant(["D"], organization_id=first.organization_id) for _ in range(count - 1)]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many names each look-up of layouts has read."""
    counts: list[int] = []

    async def recorded(db: Connection, source_ids: Sequence[int]) -> dict[int, list[SourceLayout]]:
        found = await used_layouts(db, source_ids)
        counts.append(sum(len(layout.metrics) for own in found.values() for layout in own))
        return found

    monkeypatch.setattr("gridfleet.domains.ingest.organization_names.used_layouts", recorded)
    return counts


async def test_the_plants_of_an_organisation_share_the_room_of_a_process(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 plants with 100,000 names each took 9 GB of the process."""
    limit_names(monkeypatch, 50)
    first, second, third = await plants_of_one_organization(bench, 3)
    other = await bench.plant(["D"])
    await bench.take(first.message(snapshot(0, D=numbered(1, 30))), second.message(snapshot(0, D=numbered(1, 15))))
    await bench.take(third.message(snapshot(0, D=numbered(1, 7))), other.message(snapshot(0, D=numbered(1, 50))))
    await bench.take(
        first.message(snapshot(1, D=numbered(30, 31))),
        third.message(snapshot(1, D=numbered(5, 6))),
        other.message(snapshot(1, D=numbered(50, 50))),
    )
    assert (await third.stored()) == {
        **{f"D.n{number}": {moment(0): number} for number in range(1, 5)},
        "D.n5": {moment(0): 5, moment(1): 5},
    }
    assert (await first.stored())["D.n30"] == {moment(0): 30, moment(1): 30}
    assert await first.refusals() == [("TOO_MANY_FIELDS", f"{LIMIT}n31")]
    assert await third.refusals() == [("TOO_MANY_FIELDS", f"{LIMIT}n6, n7"), ("TOO_MANY_FIELDS", f"{LIMIT}n6")]
    assert [await second.refusals(), await other.refusals()] == [[], []]
    assert len(await other.stored()) == 50


async def test_a_restart_reads_no_more_names_than_there_is_room_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    """A message of 1 kB made the process read 100,000 names, for each plant."""
    first, second, third = await plants_of_one_organization(bench, 3)
    other = await bench.plant(["D"])
    for plant in (first, second, third, other):
        await bench.take(plant.message(snapshot(0, D=numbered(1, 30))))
    limit_names(monkeypatch, 70)
    process = bench.another_process()
    del read[:]
    messages = [plant.message(snapshot(1, D={"n1": 2, "new": 2})) for plant in (first, second, third, other)]
    await bench.take(*messages, pipeline=process)
    await bench.take(third.message(snapshot(2, D={"n1": 3})), pipeline=process)
    assert read == [30, 30, 0, 30]
    for plant in (first, second, other):
        assert (await plant.stored())["D.new"] == {moment(1): 2}
    assert (await third.stored())["D.n1"] == {moment(0): 1}
    assert await third.refusals() == [("TOO_MANY_FIELDS", f"{LIMIT}n1, new"), ("TOO_MANY_FIELDS", f"{LIMIT}n1")]
    # The first plant keeps sending, the second one does not.
    let_pass(monkeypatch, 1_800)
    await bench.take(first.message(snapshot(3, D={"n1": 4})), pipeline=process)
    let_pass(monkeypatch, 3_660)
    again = [plant.message(snapshot(4, D={"n1": 5, "new": 5})) for plant in (third, first)]
    await bench.take(*again, pipeline=process)
    assert (await third.stored())["D.n1"] == {moment(0): 1, moment(4): 5}
    assert (await first.stored())["D.new"] == {moment(1): 2, moment(4): 5}
    assert read == [30, 30, 0, 30, 30]
    let_pass(monkeypatch, 7_800)
    await bench.take(second.message(snapshot(5, D={"n1": 6, "new": 6})), pipeline=process)
    assert {name: values for name, values in (await second.stored()).items() if moment(5) in values} == {
        "D.n1": {moment(0): 1, moment(1): 2, moment(5): 6},
        "D.new": {moment(1): 2, moment(5): 6},
    }
    layouts = await second.rows(
        "SELECT l.metrics FROM telemetry_latest t JOIN telemetry_source s ON s.id = t.source_id"
        " JOIN telemetry_layout l ON l.id = t.layout_id WHERE s.plant_id = %s"
    )
    assert sorted(name for (metrics,) in layouts for name in metrics) == sorted(["new", *numbered(1, 30)])


async def test_devices_that_are_read_together_count_together(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    plant = await bench.plant(["D", "E"])
    await bench.take(plant.message(snapshot(0, D=numbered(1, 30), E=numbered(1, 30))))
    limit_names(monkeypatch, 50)
    del read[:]
    again = plant.message(snapshot(1, D=numbered(1, 30), E=numbered(1, 30)))
    await bench.take(again, pipeline=bench.another_process())
    assert read == [30]
    assert len([name for name, values in (await plant.stored()).items() if moment(1) in values]) == 30
    assert len(await plant.refusals()) == 1


async def test_the_names_of_a_deleted_plant_leave_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_names(monkeypatch, 50)
    first, second, third = await plants_of_one_organization(bench, 3)
    await bench.take(first.message(snapshot(0, D=numbered(1, 30))), second.message(snapshot(0, D=numbered(1, 20))))
    await first.rows("DELETE FROM plant WHERE id = %s RETURNING 1")
    bench.pipeline.plant_cache.invalidate(str(first.id))
    await bench.take(third.message(snapshot(0, D=numbered(1, 30))))
    assert len(await third.stored()) == 30
    assert await third.refusals() == []


async def test_plants_that_are_read_again_soon_count_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    """An organisation could make the process read its plants' names without end, by changes of their devices."""
    limit_names(monkeypatch, 50)
    plant = await bench.plant(["D"])
    for second in range(6):
        await bench.take(plant.message(snapshot(second, D=numbered(1, 20))))
        bench.pipeline.plant_cache.invalidate(str(plant.id))
    # The third look-up finds no room, but that nothing is in memory. There is none again at the fifth one, within the hour.
    assert read == [0, 20, 20, 20, 0]
