"""Queries of a plant's history: check the query, read the first page, and return a reader of the other pages."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from gridfleet.domains.plants.registry import get_plant
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.domains.telemetry.errors import MAX_POINTS, TooManyPoints
from gridfleet.domains.telemetry.history.buckets import BucketReader, buckets_between, kept_bucket
from gridfleet.domains.telemetry.history.models import Bucket, HistoryQuery, Page, Series
from gridfleet.domains.telemetry.history.raw import FramesReader, SeriesReader, raw_reader
from gridfleet.domains.telemetry.history.reading import Reading
from gridfleet.domains.telemetry.history.series import by_unit, device_series, plant_series
from gridfleet.domains.telemetry.history.values import store
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import measurable
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["History", "fitting_level", "open_device_history", "open_history"]

_MICROSECOND: Final = timedelta(microseconds=1)


_Reader = SeriesReader | FramesReader | BucketReader


@dataclass(frozen=True, slots=True)
class History:
    """The response to a query of a plant by `org`: its first page, and a reader of the others."""

    first: Page
    org: OrgScope
    plant_id: UUID
    _reader: _Reader
    _reading: Reading

    @property
    def finished(self) -> bool:
        """Whether every page was read."""
        return self._reader.finished

    async def read(self) -> Page:
        """Return the next page; it may be empty.

        Raises:
            PlantNotFound: The plant was deleted or has moved to another organisation since the previous page.
        """
        # A reader changes its state only after its last statement, so that a page can be read again.
        page: Page = await self._reading(partial(get_plant, org=self.org, plant_id=self.plant_id), self._reader.read)
        return page

    async def pages(self, confirm: Callable[[], Awaitable[object]]) -> AsyncIterator[Page]:
        """Yield every page, each read in a transaction of its own.

        Args:
            confirm: Raises an error before a page if the caller may no longer read the plant.

        Raises:
            PlantNotFound: As `read`.
        """
        yield self.first
        while not self.finished:
            await confirm()
            yield await self.read()


async def open_history(reading: Reading, org: OrgScope, query: HistoryQuery, *, capped: bool) -> History:
    """Read the first page of the response to `query`.

    A metric that the plant does not have has no points.

    Args:
        reading: Runs the reads of all pages.
        capped: Whether the response is limited to `MAX_POINTS`.

    Raises:
        ValidationFailed: The range is empty.
        PlantNotFound: There is no such plant.
        TooManyMetrics: The response covers too many metrics.
        TooManyPoints: The response is capped and larger than the limit, or takes too long to count.
    """
    if query.start >= query.end:
        raise ValidationFailed(details=["from: must be before to"])
    check = partial(get_plant, org=org, plant_id=query.plant_id)
    first, reader = await reading(check, partial(_first_page, org=org, query=query, capped=capped))
    return History(first, org, query.plant_id, reader, reading)


async def _first_page(db: Connection, org: OrgScope, query: HistoryQuery, capped: bool) -> tuple[Page, _Reader]:
    start, end = measurable(query.start, query.end)
    series = await plant_series(db, org, query.plant_id, query.metric)
    reader: _Reader
    if not series:
        reader = FramesReader(series, start, end)
    elif query.bucket is None:
        reader = raw_reader(series, start, end)
    else:
        reader = await _bucket_reader(db, org, series, query.bucket, start, end)
        if capped and await reader.exceeds(db, MAX_POINTS):
            raise TooManyPoints(await _fitting_bucket(db, series, query.bucket, start, end))
    first: Page = await reader.read(db)
    if capped and query.bucket is None and not reader.finished:
        ahead = raw_reader(series, start, end)
        if await ahead.exceeds(db, MAX_POINTS):
            raise TooManyPoints(await _fitting_bucket(db, series, None, start, end))
    return first, reader


async def open_device_history(
    reading: Reading, org: OrgScope, plant_id: UUID, external_id: str, metric: str | None, start: datetime, end: datetime
) -> History:
    """Read the first page of a sub-device's values in buckets that fit the range; metrics have their own names.

    Where retention has deleted the buckets of that width, wider ones are used.

    Raises:
        ValidationFailed: The range is empty.
        SubDeviceNotFound: There is no such sub-device.
        TooManyMetrics: The sub-device has too many metrics.
        TooManyPoints: The response is larger than the limit, or takes too long to count.
    """
    if start >= end:
        raise ValidationFailed(details=["from: must be before to"])

    async def first_page(db: Connection) -> tuple[Page, _Reader]:
        series = await device_series(db, org, plant_id, external_id, metric)
        measured = measurable(start, end)
        bucket = await kept_bucket(db, series, fitting_level(end - start), measured[0])
        reader = await _bucket_reader(db, org, series, bucket, *measured)
        if await reader.exceeds(db, MAX_POINTS):
            raise TooManyPoints(None)
        return await reader.read(db), reader

    check = partial(get_sub_device, org=org, plant_id=plant_id, external_id=external_id)
    first, reader = await reading(check, first_page)
    return History(first, org, plant_id, reader, reading)


def fitting_level(span: timedelta) -> Bucket:
    """Return the default bucket of a range."""
    return next((bucket for longest, bucket in _LEVELS if span <= longest), Bucket.DAY)


_LEVELS: Final = (
    (timedelta(hours=6), Bucket.MINUTE),
    (timedelta(days=2), Bucket.FIVE_MINUTES),
    (timedelta(days=14), Bucket.QUARTER_HOUR),
    (timedelta(days=90), Bucket.HOUR),
)


async def _bucket_reader(
    db: Connection, org: OrgScope, series: Sequence[Series], bucket: Bucket, start: datetime, end: datetime
) -> BucketReader:
    series = by_unit(series)
    reader = BucketReader(org, series, bucket, start, end)
    if reader.one_page:
        return reader
    # Without this, a range of years around a week of data would be read bucket by bucket.
    start, end = await _extent(db, series, start, end)
    return BucketReader(org, series, bucket, start, end)


async def _extent(db: Connection, series: Sequence[Series], start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Return the range without the time before the first frame or roll-up and after the last."""
    found = await store.extent(db, sorted({position.source_id for one in series for position in one.positions}), start, end)
    return (found[0], found[1] + _MICROSECOND) if found else (start, start + _MICROSECOND)


async def _fitting_bucket(
    db: Connection, series: Sequence[Series], asked: Bucket | None, start: datetime, end: datetime
) -> Bucket | None:
    """Return the narrowest bucket, wider than `asked`, whose response cannot be too large; None if there is none."""
    series = by_unit(series)
    start, end = await _extent(db, series, start, end)
    return next(
        (
            bucket
            for bucket in Bucket
            if (asked is None or bucket.width > asked.width) and len(series) * buckets_between(start, end, bucket) <= MAX_POINTS
        ),
        None,
    )
