"""A query whose metrics are too many for one process is refused."""

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.telemetry.history.latest import latest_json, latest_points
from gridfleet.domains.telemetry.history.live import LiveValues
from gridfleet.domains.telemetry.history.models import Bucket, HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import TooManyRequests, ValidationFailed
from support.builders.telemetry_records import RecordedPlant

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def large_plant(database: Database, devices: int) -> RecordedPlant:
    """A plant whose devices have 2,000 metrics each."""
    plant = await RecordedPlant.create(database)
    await grow(plant, devices)
    return plant


async def grow(plant: RecordedPlant, devices: int) -> None:
    layouts, width = 10, 200
    ids = [await plant.layout([f"m{number}_{place}" for place in range(width)]) for number in range(layouts)]
    for number in range(devices):
        await plant.add_device(f"D{number}")
    await plant.source(None)
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
    async with database.transaction() as db:
        with pytest.raises(ValidationFailed) as refusal:
            await open_history(db, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, None, bucket), capped=False)
        assert refusal.value.details == ["metric: name one metric"]
        one = await open_history(db, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, "D7.m0_3", bucket), capped=False)
        assert one.finished


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


async def test_a_watched_plant_that_gets_too_many_values_ends_its_watch_alone(database: Database) -> None:
    growing, other = await RecordedPlant.create(database), await RecordedPlant.create(database)
    live = LiveValues(database)
    async with (
        aclosing(live.watch(growing.org, growing.id, database.transaction)) as first,
        aclosing(live.watch(other.org, other.id, database.transaction)) as second,
    ):
        assert (await anext(first), await anext(second)) == ([], [])
        await grow(growing, 126)
        async with asyncio.timeout(20):
            assert [changed async for changed in first if changed] == []
            await other.write(None, ["a"], {datetime.now(UTC): [1.0]})
            async for changed in second:
                if changed:
                    break
            assert [point.value for point in changed] == [1.0]
