"""Columns for charts: several metrics of a plant in the same buckets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import msgspec
import orjson

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.telemetry.computing import COMPUTING
from gridfleet.domains.telemetry.errors import MAX_COLUMN_VALUES, TooManyColumnValues
from gridfleet.domains.telemetry.history import store
from gridfleet.domains.telemetry.history.buckets import bucket_starts, buckets_between, kept_bucket, read_columns
from gridfleet.domains.telemetry.history.models import Column, ColumnBucket, Series
from gridfleet.domains.telemetry.history.reading import Reading
from gridfleet.domains.telemetry.history.series import by_unit, named_series
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import measurable
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["DEFAULT_POINTS", "MAX_COLUMN_METRICS", "MAX_COLUMN_POINTS", "MOST_IN_LOOP", "ColumnsQuery", "columns_json"]

DEFAULT_POINTS: Final = 1_000
MAX_COLUMN_POINTS: Final = 10_000
MAX_COLUMN_METRICS: Final = 20
MOST_IN_LOOP: Final = 4_000
"""Buckets times columns above which the text is made in a thread. Each takes half a microsecond."""


@dataclass(frozen=True, slots=True)
class ColumnsQuery:
    """Metrics of a plant with `start` <= time < `end`: in buckets of this width, or in at most `points` buckets."""

    plant_id: UUID
    metrics: Sequence[str]
    start: datetime
    end: datetime
    points: int = DEFAULT_POINTS
    bucket: ColumnBucket | None = None


async def columns_json(reading: Reading, org: OrgScope, query: ColumnsQuery) -> bytes:
    """Return the response to `query` as JSON, with an entry for each bucket of the range.

    A metric that the plant does not have is a column without values. A metric whose unit was edited has a column for each unit
    with values.

    Raises:
        ValidationFailed: The range is empty, or no bucket is wide enough for `points`.
        PlantNotFound: There is no such plant.
        TooManyColumnValues: The response is larger than the limit.
    """
    if query.start >= query.end:
        raise ValidationFailed(details=["from: must be before to"])
    check = partial(get_plant, org=org, plant_id=query.plant_id)
    bucket, starts, columns = await reading(check, partial(_read, org=org, query=query))
    if len(starts) * len(columns) > MOST_IN_LOOP:
        return await COMPUTING.run(org.organization_id, partial(_json, query.plant_id, bucket, starts, columns))
    return _json(query.plant_id, bucket, starts, columns)


async def _read(db: Connection, org: OrgScope, query: ColumnsQuery) -> tuple[ColumnBucket, list[datetime], list[Column]]:
    """Return the bucket of the response, the starts of its buckets, and its columns."""
    start, end = measurable(query.start, query.end)
    named = await named_series(db, org, query.plant_id, query.metrics)
    series = by_unit(one for one in named if one.positions)
    count = max(len(series), len(query.metrics))
    if query.bucket is None:
        bucket = _fitting(start, end, query.points, count, await _least_width(db, org, query))
        bucket = await kept_bucket(db, series, bucket, start)
    else:
        bucket = query.bucket
        if count * buckets_between(start, end, bucket) > MAX_COLUMN_VALUES:
            raise TooManyColumnValues(next(_wide_enough(start, end, MAX_COLUMN_VALUES // count), None))
    found = await read_columns(db, series, bucket, start, end)
    starts = bucket_starts(start, end, bucket)
    return bucket, starts, list(_ordered(named, found, len(starts)))


async def _least_width(db: Connection, org: OrgScope, query: ColumnsQuery) -> timedelta:
    """Return the width from which a silent plant, and nothing else, leaves a bucket without a value.

    That is twice the usual interval, because messages do not arrive at regular times. Of several devices, the most frequent one
    counts.
    """
    devices = {external_id if dot else None for external_id, dot, _ in (metric.partition(".") for metric in query.metrics)}
    return 2 * timedelta(seconds=await store.usual_seconds(db, org, query.plant_id, list(devices)) or 0)


def _fitting(start: datetime, end: datetime, points: int, count: int, least: timedelta) -> ColumnBucket:
    """Return the narrowest bucket of which at most `points` cover the range, if possible not narrower than `least`."""
    fitting = list(_wide_enough(start, end, min(points, MAX_COLUMN_VALUES // count)))
    if not fitting:
        needed = buckets_between(start, end, ColumnBucket.MONTH)
        if count * needed > MAX_COLUMN_VALUES:
            raise TooManyColumnValues(None)
        raise ValidationFailed(details=[f"points: must be at least {needed} for this range"])
    return next((bucket for bucket in fitting if bucket.width >= least), fitting[-1])


def _wide_enough(start: datetime, end: datetime, points: int) -> Iterator[ColumnBucket]:
    return (bucket for bucket in ColumnBucket if buckets_between(start, end, bucket) <= points)


def _ordered(named: Sequence[Series], found: Sequence[Column], size: int) -> Iterator[Column]:
    """Yield the columns in the order of the query: for each metric the one of the newest unit, then other units with values."""
    by_metric: dict[str, list[Column]] = {}
    for column in found:
        by_metric.setdefault(column.series.metric, []).append(column)
    for one in named:
        nothing: list[float | None] = [None] * size
        first, *others = by_metric.get(one.metric, [Column(one, nothing, nothing, nothing)])
        yield first
        yield from (column for column in others if any(value is not None for value in column.average))


def _json(plant_id: UUID, bucket: ColumnBucket, starts: Sequence[datetime], columns: Sequence[Column]) -> bytes:
    # msgspec writes a list of times many times faster than Python. All are whole seconds, so the milliseconds are added.
    times = msgspec.json.encode(starts).replace(b'Z"', b'.000Z"')
    written = orjson.dumps(
        [
            {
                "metric": column.series.metric,
                "unit": column.series.unit if column.series.positions else None,
                "average": column.average,
                "min": column.minimum,
                "max": column.maximum,
            }
            for column in columns
        ]
    )
    return b'{"plantId":"%b","bucket":"%b","times":%b,"columns":%b}' % (
        str(plant_id).encode(),
        bucket.value.encode(),
        times,
        written,
    )
