"""A query whose metrics are too many for one process is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from gridfleet.domains.telemetry.history.models import Bucket, HistoryQuery
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.kernel.db import Database
from gridfleet.kernel.errors import ValidationFailed
from support.builders.telemetry_records import RecordedPlant

DAY = datetime(2026, 11, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize("bucket", [None, Bucket.HOUR])
async def test_a_query_of_too_many_metrics_is_refused_also_as_an_export(database: Database, bucket: Bucket | None) -> None:
    plant = await RecordedPlant.create(database)
    devices, layouts, width = 51, 10, 200
    ids = [await plant.layout([f"m{number}_{place}" for place in range(width)]) for number in range(layouts)]
    for number in range(devices):
        await plant.add_device(f"D{number}")
    await plant.source(None)
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO telemetry_latest (source_id, layout_id, time, vals, absent) SELECT s.id, l.id, now(),"
            " array_fill(1.5::float8, ARRAY[%s::int]), '' FROM telemetry_source s, unnest(%s::int[]) l (id)"
            " WHERE s.external_id IS NOT NULL",
            (width, ids),
        )
    async with database.transaction() as db:
        with pytest.raises(ValidationFailed) as refusal:
            await open_history(db, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, None, bucket), capped=False)
        assert refusal.value.details == ["metric: name one metric"]
        one = await open_history(db, plant.org, HistoryQuery(plant.id, DAY, DAY + HOUR, "D7.m0_3", bucket), capped=False)
        assert one.finished
