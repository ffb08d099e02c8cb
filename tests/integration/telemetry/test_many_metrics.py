"""A query whose metrics are too many for one process is refused, and one of many metrics has a bounded size in memory."""

import asyncio
import tracemalloc
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic
from typing import Any

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.domains.telemetry.energy.today import energy_of_day
from gridfleet.domains.telemetry.frames.lookup import load_sources
from gridfleet.domains.telemetry.history import raw, series
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.live import LiveValues
from gridfleet.domains.telemetry.history.models import Bucket, HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.domains.telemetry.history.store import SourceRow
from gridfleet.domains.telemetry.history.values import store
from gridfleet.domains.telemetry.latest.queries import latest_json, latest_points
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests, ValidationFailed
from support.builders.accounts import add_organization
from support.builders.telemetry_records import RecordedPlant, allowed, reading_from
from support.clients.live_watch import next_change

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def large_plant(database: Database, devices: int) -> RecordedPlant:
    """A plant whose devices have 2,000 metrics each."""
    plant = await RecordedPlant.create(database)
    await grow(plant, devices)
    return plant


async def grow(plant: RecordedPlant, devices: int) -> None:
    for number in range(devices):
        await plant.add_device(f"D{number}")
    await plant.source(None)
    await report(plant, "kW")


async def report(plant: RecordedPlant, unit: str) -> None:
    """Store a newest value of each metric of each device, in this unit."""
    layouts, width = 10, 200
    ids = [await plant.layout([Metric(f"m{number}_{place}", unit) for place in range(width)]) for number in range(layouts)]
    async with plant.database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_latest (source_id, layout_id, time, vals, absent) SELECT s.id, l.id, now(),"
            " array_fill(1.5::float8, ARRAY[%s::int]), '' FROM telemetry_source s, unnest(%s::int[]) l (id)"
            " WHERE s.external_id IS NOT NULL",
            (width, ids),
        )


@pytest.mark.parametrize("bucket", [None, Bucket.HOUR])
async def test_a_query_of_too_many_metrics_is_refused_also_as_an_export(database: Database, bucket: Bucket | None) -> None:
    plant = await large_plant(database, 51)
    reading = reading_from(database)
    with pytest.raises(ValidationFailed) as refusal:
        await open_history(reading, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, None, bucket), capped=False)
    assert refusal.value.details == ["metric: name one metric"]
    one = await open_history(reading, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, "D7.m0_3", bucket), capped=False)
    assert one.finished


async def test_layouts_that_are_too_many_or_not_asked_for_are_not_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layouts of 800,000 metrics were read before the query was refused: 2.6 s of CPU without a pause, and 720 MB."""
    plant = await large_plant(database, 51)
    await plant.add_device("GRID")
    await plant.write("GRID", ["energy_imported"], {DAY: [1.0], DAY + HOUR: [4.5]})
    read: list[int] = []
    layouts_of = series.layouts_of

    async def recorded(db: Connection, rows: Iterable[SourceRow]) -> Any:
        rows = list(rows)
        read.extend(row.layout_id for row in rows)
        return await layouts_of(db, rows)

    monkeypatch.setattr(series, "layouts_of", recorded)
    reading = reading_from(database)
    async with database.transaction() as db:
        with pytest.raises(ValidationFailed):
            await open_history(reading, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR), capped=False)
        assert read == []
        assert (await energy_of_day(db, plant.org, plant.id, DAY)).imported == 3.5
        assert read == []
        await open_history(reading, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, "D7.m0_3"), capped=False)
        assert len(read) == 1


async def points_of(plant: RecordedPlant, pages: list[int] | None = None, metric: str | None = None) -> int:
    """Read a day of the plant and return the number of points. `pages` gets the memory that is in use after each page."""
    query = HistoryQuery(plant.id, DAY, DAY + 24 * HOUR, metric)
    history = await open_history(reading_from(plant.database), plant.org, query, capped=False)
    writer = PointWriter(plant.id, TextFormat.NDJSON)
    count = 0
    async for page in history.pages(allowed):
        count += sum(piece.count(b"\n") for piece in writer.pieces(page))
        if pages is not None:
            pages.append(tracemalloc.get_traced_memory()[0])
    return count


async def test_a_page_does_not_grow_with_the_layouts_of_another_device(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device with 2,000 names that came one by one made a page of 200 others 2.3 GB large."""
    plant = await RecordedPlant.create(database)
    wide, narrow, times = 5, 300, [DAY + n * timedelta(seconds=1) for n in range(300)]
    for number in range(wide):
        await plant.add_device(f"D{number}")
        await plant.write(f"D{number}", [f"m{place}" for place in range(200)], {time: [1.0] * 200 for time in times})
    for number in range(narrow):
        await plant.write(None, [f"n{number}"], {times[7]: [number], times[8]: [number]})
    sizes: list[int] = []
    frames_page = store.frames_page

    async def recorded(db: Connection, source_ids: Sequence[int], *more: Any) -> Any:
        page = await frames_page(db, source_ids, *more)
        sizes.append(sum(len(row[3]) for row in page[0]))
        return page

    monkeypatch.setattr(store, "frames_page", recorded)
    assert await points_of(plant) == wide * 200 * len(times) + 2 * narrow
    assert max(sizes) < 30_000


async def test_a_page_does_not_grow_with_the_earlier_devices_of_a_name(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page had 20,000 frames of each device that was deleted and registered again, all of which belong to one series."""
    monkeypatch.setattr(raw, "MOST_FRAMES", 500)
    plant, generations, times = await RecordedPlant.create(database), 20, 300
    for generation in range(generations):
        # The last ones report in turn with all others, the first ones one after the other.
        start, pause = DAY + generation * timedelta(milliseconds=1), timedelta(seconds=10)
        if generation < 15:
            start, pause = DAY + generation * HOUR, timedelta(seconds=1)
        await plant.add_device("D")
        await plant.write("D", ["x"], {start + number * pause: [1.0] for number in range(times)})
        await plant.delete_device("D")
    sizes: list[int] = []
    frames_page = store.frames_page

    async def recorded(*arguments: Any) -> Any:
        page = await frames_page(*arguments)
        sizes.append(len(page[0]))
        return page

    monkeypatch.setattr(store, "frames_page", recorded)
    assert await points_of(plant, metric="D.x") == generations * times
    assert max(sizes) <= 500
    # A device that reports alone gets whole pages too.
    assert len(sizes) < 100


async def test_an_export_keeps_few_plans_of_devices_that_report_in_turn(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each combination of devices that report at one time has a plan. A thousand plans of 50,000 metrics took 6.7 GB."""
    monkeypatch.setattr(raw, "MOST_EMISSIONS", 3_000)
    plant = await RecordedPlant.create(database)
    chance, devices, metrics = Random(7), range(20), [f"m{place}" for place in range(50)]
    times = [DAY + n * timedelta(seconds=1) for n in range(200)]
    written = 0
    for number in devices:
        await plant.add_device(f"D{number}")
        own = [time for time in times if chance.random() < 0.5]
        written += len(own) * len(metrics)
        await plant.write(f"D{number}", metrics, {time: [1.0] * len(metrics) for time in own})
    used: list[int] = []
    tracemalloc.start()
    try:
        assert await points_of(plant, used) == written
    finally:
        tracemalloc.stop()
    assert used[-1] - used[0] < 3_000_000


async def test_an_export_of_one_metric_keeps_few_plans_of_other_layouts(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames of a device's other layouts are read too if the metric has two sources, and their combinations have plans."""
    monkeypatch.setattr(raw, "MOST_EMISSIONS", 3_000)
    monkeypatch.setattr(raw, "PAGE_POINTS", 2_000)
    plant = await RecordedPlant.create(database)
    await plant.add_device("D")
    await plant.write("D", ["a"], {DAY: [1.0]})
    await plant.delete_device("D")
    await plant.add_device("D")
    await plant.write("D", ["a"], {DAY + HOUR: [1.0]})
    chance, times = Random(7), [DAY + n * timedelta(seconds=1) for n in range(2_000)]
    for number in range(20):
        await plant.write("D", [f"n{number}"], {time: [1.0] for time in times if chance.random() < 0.5})
    used: list[int] = []
    tracemalloc.start()
    try:
        assert await points_of(plant, used, "D.a") == 2
    finally:
        tracemalloc.stop()
    assert len(used) > 5
    assert max(used) - used[0] < 1_000_000


async def test_newest_values_that_are_too_many_are_refused_before_they_are_read(database: Database) -> None:
    plant = await large_plant(database, 126)
    live = LiveValues(database)
    async with database.transaction() as db:
        with pytest.raises(TooManyRequests):
            await latest_json(db, plant.org, plant.id)
        with pytest.raises(TooManyRequests):
            await latest_points(db, plant.org, plant.id)
    with pytest.raises(TooManyRequests):
        await anext(live.watch(plant.org, plant.id, database.transaction))
    assert live.watchers == 0


async def test_values_that_newer_ones_replace_are_not_too_many(database: Database) -> None:
    """After an edit of the template of many devices, their newest values were refused for ever."""
    plant = await large_plant(database, 70)
    await report(plant, "W")
    async with database.transaction() as db:
        newest = await latest_points(db, plant.org, plant.id)
    assert len(newest) == 140_000
    assert {one.unit for one in newest} == {"W"}


async def add_small_plants(database: Database, layout_id: int) -> None:
    """Plants of others with few devices, by which the planner expects few devices of any plant."""
    for _ in range(300):
        await add_organization(database)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method)"
            " SELECT gen_random_uuid(), o.id, 'Small', gen_random_uuid()::text, 'GATEWAY', 'PASSWORD'"
            " FROM organization o, generate_series(1, 10)"
        )
        await db.execute(
            "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
            " SELECT gen_random_uuid(), p.organization_id, p.id, 'S' || n, 'Device', 'INVERTER'"
            " FROM plant p, generate_series(1, 4) AS n WHERE p.name = 'Small'"
        )
        plants = await db.execute("SELECT id FROM plant WHERE name = 'Small'")
        sources = await load_sources(db, [plant_id for (plant_id,) in await plants.fetchall()])
        await db.execute(
            "INSERT INTO telemetry_latest (source_id, layout_id, time, vals) SELECT unnest(%s::bigint[]), %s, now(), ARRAY[1]",
            ([source.id for found in sources.values() for source in found], layout_id),
        )
        await db.execute("ANALYZE telemetry_source, telemetry_latest, telemetry_layout, plant")


async def test_newest_values_are_read_in_time_by_their_number(database: Database) -> None:
    """Those of one device, or of a device for each value, take as long as others. The planner assumes few devices.

    A device that sends each new name in a message has as many layouts.
    """
    plants = [await RecordedPlant.create(database) for _ in range(3)]
    layouts = [await plants[0].layout([f"m{number}"]) for number in range(4_000)]
    for plant, devices in zip(plants, (20, 1, 4_000), strict=True):
        async with database.transaction() as db:
            await db.execute(
                "INSERT INTO sub_device (id, organization_id, plant_id, external_id, name, type)"
                " SELECT gen_random_uuid(), %s, %s, 'D' || n, 'Device', 'INVERTER' FROM generate_series(1, %s) AS n",
                (plant.organization_id, plant.id, devices),
            )
            sources = [source.id for source in (await load_sources(db, [plant.id]))[plant.id] if source.external_id is not None]
            await db.execute(
                "INSERT INTO telemetry_latest (source_id, layout_id, time, vals)"
                " SELECT s.id, l.id, now() + l.place * interval '1 ms', ARRAY[1.0]"
                " FROM unnest(%s::int[]) WITH ORDINALITY AS l (id, place)"
                " JOIN unnest(%s::bigint[]) WITH ORDINALITY AS s (id, place) ON s.place = 1 + l.place %% %s",
                (layouts, sources, devices),
            )
    await add_small_plants(database, layouts[0])
    seconds = []
    for plant in plants:
        tries = []
        for _ in range(3):
            async with database.transaction() as db:
                await db.execute("SET LOCAL plan_cache_mode = force_generic_plan")
                begun = monotonic()
                assert len(await latest_points(db, plant.org, plant.id)) == len(layouts)
                tries.append(monotonic() - begun)
        seconds.append(min(tries))
    assert max(seconds) < 4 * seconds[0]


async def test_a_watched_plant_that_gets_too_many_values_ends_its_watch_alone(database: Database) -> None:
    growing, other = await RecordedPlant.create(database), await RecordedPlant.create(database)
    live = LiveValues(database)
    async with (
        aclosing(live.watch(growing.org, growing.id, database.transaction)) as first,
        aclosing(live.watch(other.org, other.id, database.transaction)) as second,
    ):
        assert ((await anext(first)).points, (await anext(second)).points) == ([], [])
        await grow(growing, 126)
        async with asyncio.timeout(20):
            assert [changes async for changes in first if changes.points] == []
        await other.write(None, ["a"], {datetime.now(UTC): [1.0]})
        assert [point.value for point in (await next_change(second)).points] == [1.0]
