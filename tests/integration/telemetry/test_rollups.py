"""Roll-ups against frames: whatever the order of writing, repeating, correcting, closing and recomputing, the same answers."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.frames.writer import write_batch
from gridfleet.domains.telemetry.history.buckets import read_buckets
from gridfleet.domains.telemetry.history.models import Bucket, Series
from gridfleet.domains.telemetry.history.series import plant_series
from gridfleet.domains.telemetry.rollups import store as rollups_store
from gridfleet.domains.telemetry.rollups.models import Stale
from gridfleet.domains.telemetry.rollups.recomputation import close_hour, roll_up
from gridfleet.kernel.db import Connection, Database
from support.builders.telemetry_records import RecordedPlant, work

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_AHEAD = timedelta(hours=-30)
"""A grace that closes hours before they have begun."""


@pytest.fixture(autouse=True)
async def watermark_at_this_hour(database: Database) -> None:
    """The schema may be older than an hour; no hour is to become due by itself while a test runs."""
    async with database.transaction() as db:
        await db.execute("UPDATE telemetry_seal SET sealed_before = date_bin('1 hour', now(), 'epoch')")


async def read_watermark(database: Database) -> datetime:
    async with database.transaction() as db:
        row = await (await db.execute("SELECT sealed_before FROM telemetry_seal")).fetchone()
    assert row is not None
    return row[0]


Aggregates = dict[tuple[datetime, str], tuple[float, float, float, int]]


async def from_frames(db: Connection, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime) -> Aggregates:
    """What the buckets must be, from every frame there is."""
    groups: dict[tuple[datetime, str], list[float]] = {}
    for one in series:
        values: dict[datetime, float] = {}
        for position in reversed(one.positions):
            cursor = await db.execute(
                "SELECT time, vals[%s] FROM telemetry_frame WHERE source_id = %s AND layout_id = %s"
                " AND time >= %s AND time < %s",
                (position.number + 1, position.source_id, position.layout_id, start, end),
            )
            values.update({time: value for time, value in await cursor.fetchall() if value is not None})
        for time, value in values.items():
            groups.setdefault((time - (time - EPOCH) % bucket.width, one.metric), []).append(value)
    return {key: (rounded(sum(found) / len(found)), min(found), max(found), len(found)) for key, found in groups.items()}


def rounded(average: float) -> float:
    """To the 12 significant digits that an average has."""
    return float(f"{average:.12g}")


async def compare(plant: RecordedPlant, random: Random, begin: datetime, finish: datetime) -> None:
    """Both ways on one snapshot, for one range and bucket."""
    span = int((finish - begin) / SECOND)
    start, end = sorted((begin + random.randrange(span) * SECOND, begin + random.randrange(span) * SECOND))
    if random.random() < 0.5:
        start, end = start - (start - EPOCH) % HOUR, end + (EPOCH - end) % HOUR
    bucket = random.choice(list(Bucket))
    async with plant.database.transaction() as db:
        await db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        series = await plant_series(db, plant.org, plant.id, random.choice([None, "a", "PV1.a", "PV1.c"]))
        found = await read_buckets(db, series, bucket, start, end)
        expected = await from_frames(db, series, bucket, start, end)
    assert {(time, one.metric): tuple(rest) for time, one, *rest in found} == expected


async def dirty_hours(database: Database) -> int:
    async with database.transaction() as db:
        row = await (await db.execute("SELECT count(*) FROM telemetry_dirty")).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_repetition_and_concurrency_gives_what_the_frames_give(
    database: Database, pytestconfig: pytest.Config, seed: int
) -> None:
    random = Random(seed)
    plant = await RecordedPlant.create(database)
    await plant.add_device("PV1")
    watermark = await read_watermark(database)
    begin, finish = watermark - 30 * HOUR, watermark + 20 * HOUR
    layouts = {None: [["a", "b"]], "PV1": [["a", "c"], ["a", "c", "d"]]}  # an edited template shares times with the old one
    await plant.write("PV1", ["a", "c"], {begin: [1.0, None]})

    async def write(writer: Random) -> None:
        for _ in range(25):
            device = writer.choice([None, "PV1"])
            metrics = writer.choice(layouts[device])
            first = begin + writer.randrange(int((finish - begin) / MINUTE)) * MINUTE
            frames = {
                first + number * writer.choice([10 * SECOND, MINUTE, 20 * MINUTE]): [
                    None if writer.random() < 0.2 else writer.randrange(-800, 800) / 8 for _ in metrics
                ]
                for number in range(writer.randrange(1, 40))
            }
            await plant.write(device, metrics, frames)
            await asyncio.sleep(writer.random() / 50)

    async def recompute(worker: Random) -> None:
        while not written.is_set():
            if worker.random() < 0.3:
                await close_hour(database, FAR_AHEAD)
            else:
                await roll_up(database, seconds=0.05, connections=worker.choice([1, 2, 5]))
            await asyncio.sleep(worker.random() / 50)

    async def read(reader: Random) -> None:
        # Citus has no common snapshot of its servers.
        while not (written.is_set() or pytestconfig.getoption("--citus")):
            await compare(plant, reader, begin, finish)
            await asyncio.sleep(0)

    written = asyncio.Event()

    async def write_all() -> None:
        await asyncio.gather(write(Random(seed + 100)), write(Random(seed + 200)))
        written.set()

    await asyncio.gather(write_all(), recompute(Random(seed + 300)), recompute(Random(seed + 400)), read(Random(seed + 500)))
    await roll_up(database)
    while await dirty_hours(database):
        await roll_up(database)
    for _ in range(40):
        await compare(plant, random, begin, finish)


async def test_roll_ups_are_used_and_not_the_frames(database: Database) -> None:
    """Else the test above would prove nothing: here the frames are gone."""
    plant = await RecordedPlant.create(database)
    watermark = await read_watermark(database)
    day = watermark - 72 * HOUR
    day -= (day - EPOCH) % timedelta(days=1)
    await plant.write(None, ["a", "b"], {day + number * MINUTE: [number / 4, None] for number in range(0, 1440, 7)})
    async with database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        expected = {bucket: await read_buckets(db, series, bucket, day, day + 24 * HOUR) for bucket in Bucket}
    assert await dirty_hours(database) > 0
    assert await roll_up(database) == 24
    assert await dirty_hours(database) == 0
    async with database.transaction() as db:
        await db.execute("DELETE FROM telemetry_frame")
        for bucket in Bucket:
            assert await read_buckets(db, series, bucket, day, day + 24 * HOUR) == expected[bucket]


async def test_a_repeated_frame_of_a_closed_hour_changes_nothing(database: Database) -> None:
    """A gateway may repeat the last measurement of a device that it does not reach with each message, for weeks."""
    plant = await RecordedPlant.create(database)
    await plant.add_device("PV1")
    time = await read_watermark(database) - 3 * HOUR
    await plant.write("PV1", ["a", "b"], {time: [1.0, 2.0]})
    assert await dirty_hours(database) == 1
    await work(database)
    for values, changed in (([1.0, 2.0], 0), ([None, 2.0], 0), ([1.0, 3.0], 1)):
        await plant.write("PV1", ["a", "b"], {time: values})
        assert await dirty_hours(database) == changed


async def test_a_frame_that_is_not_committed_when_its_hour_is_recomputed_is_not_lost(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    hour = await read_watermark(database) - 3 * HOUR
    await plant.write(None, ["a"], {hour: [1.0]})
    source, layout = await plant.source(None), await plant.layout(["a"])
    async with database.transaction() as db:
        batch = FrameBatch()
        batch.add(source, layout, microseconds(hour + MINUTE), [3.0])
        await write_batch(db, batch)
        assert await roll_up(database) == 1  # the hour of the first frame; the second is not there yet
        assert await dirty_hours(database) == 0
    assert await dirty_hours(database) == 1
    async with database.transaction() as db:
        series = await plant_series(db, plant.org, plant.id)
        (point,) = await read_buckets(db, series, Bucket.HOUR, hour, hour + HOUR)
        assert (point.average, point.size) == (2.0, 2)
    await roll_up(database)
    async with database.transaction() as db:
        (point,) = await read_buckets(db, series, Bucket.HOUR, hour, hour + HOUR)
        assert (point.average, point.size) == (2.0, 2)


async def test_sealing_waits_for_those_who_took_the_hour_for_open(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    hour = await read_watermark(database)
    source, layout = await plant.source(None), await plant.layout(["a"])
    await plant.write(None, ["b"], {hour: [0.0]})

    async with database.transaction() as db:
        batch = FrameBatch()
        batch.add(source, layout, microseconds(hour + MINUTE), [3.0])
        await write_batch(db, batch)
        closing = asyncio.create_task(close_hour(database, FAR_AHEAD))
        await asyncio.sleep(0.2)
        assert not closing.done()
    assert await closing
    assert await read_watermark(database) == hour + HOUR
    assert await roll_up(database) == 1
    async with database.transaction() as db:
        await db.execute("DELETE FROM telemetry_frame")
        series = await plant_series(db, plant.org, plant.id, "a")
        (point,) = await read_buckets(db, series, Bucket.HOUR, hour, hour + HOUR)
        assert (point.average, point.size) == (3.0, 1)


async def test_first_and_last_values_and_values_of_any_size(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    hour = await read_watermark(database) - 30 * HOUR
    await plant.write(None, ["a", "b"], {hour: [None, 1e308], hour + MINUTE: [2.0, 1e308], hour + 20 * MINUTE: [5.0, None]})
    await roll_up(database)
    async with database.transaction() as db:
        for table in ("telemetry_hour", "telemetry_day"):
            cursor = await db.execute(f"SELECT firsts, lasts, counts FROM {table}")
            assert await cursor.fetchall() == [([2.0, 1e308], [5.0, 1e308], [2, 2])]
        series = await plant_series(db, plant.org, plant.id, "b")
        (point,) = await read_buckets(db, series, Bucket.HOUR, hour, hour + HOUR)
    assert point.average == 1e308


async def test_hours_are_recomputed_for_the_layouts_that_have_frames_in_them(database: Database) -> None:
    """A device that sends each new name in a message of its own has as many layouts as names."""
    plant = await RecordedPlant.create(database)
    watermark = await read_watermark(database)
    hours = [watermark - number * HOUR for number in range(1, 4)]
    for number in range(20):
        await plant.write(None, [f"a{number}"], {hours[number % 2] + MINUTE: [1.0]})
    source = await plant.source(None)
    async with database.transaction() as db:
        due = await rollups_store.layouts_to_recompute(db, [Stale(source, hour) for hour in hours])
        found = await (
            await db.execute("SELECT time, layout_id FROM telemetry_frame WHERE source_id = %s", (source,))
        ).fetchall()
    assert {(one.hour, one.layout_id) for one in due} == {(time - MINUTE, layout_id) for time, layout_id in found}
    assert len(due) == 20
    await compare(plant, Random(), hours[-1], watermark)


async def test_many_scattered_dirty_hours_are_read_in_one_go(database: Database) -> None:
    plant = await RecordedPlant.create(database)
    watermark = await read_watermark(database)
    await plant.write(None, ["a"], {watermark - number * 30 * MINUTE: [float(number)] for number in range(1, 300)})
    await roll_up(database)
    dirty = range(3, 143, 2)
    await plant.write(None, ["a"], {watermark - hours * HOUR + MINUTE: [1e6] for hours in dirty})
    assert await dirty_hours(database) == len(dirty)
    for _ in range(20):
        await compare(plant, Random(), watermark - 150 * HOUR, watermark)
