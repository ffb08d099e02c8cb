"""`/api/v1/telemetry`: the history of a plant, as points and as columns, and its newest values."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Asset, Call, Input, S, Stream, endpoint, org_member
from gridfleet.api.http.negotiation import preferences
from gridfleet.domains.telemetry.history.columns import (
    DEFAULT_POINTS,
    MAX_COLUMN_METRICS,
    MAX_COLUMN_POINTS,
    ColumnsQuery,
    columns_json,
)
from gridfleet.domains.telemetry.history.formats import PointWriter, TextFormat
from gridfleet.domains.telemetry.history.models import Bucket, ColumnBucket, HistoryQuery, Page, TelemetryPoint
from gridfleet.domains.telemetry.history.queries import open_history
from gridfleet.domains.telemetry.latest.queries import latest_json
from gridfleet.kernel.caller import OrgRole, OrgScope


class TelemetryQuery(Input):
    """Query of points: `from` is inclusive, `to` exclusive."""

    plant_id: UUID = Field(alias="plantId")
    start: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    metric: Annotated[str, Field(max_length=200)] | None = None
    bucket: Bucket | None = None


@endpoint(
    "GET",
    "/api/v1/telemetry",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", "PLANT_NOT_FOUND", *S),
    response=list[TelemetryPoint],
    response_content_types=("application/json", "text/csv", "application/x-ndjson"),
)
async def get_telemetry(call: Call, org: OrgScope, query: TelemetryQuery) -> Stream:
    """Return points by time, then metric: measured values or, with `bucket`, averages with min, max and count.

    Sub-device metrics are named `{externalId}.{key}`. With `Accept: text/csv` or `application/x-ndjson`, the response has that
    format and any size; a JSON response has at most 500,000 points.
    """
    text_format = preferred_format(call.headers.get("accept", ""))
    wanted = HistoryQuery(query.plant_id, query.start, query.end, query.metric, query.bucket)
    history = await open_history(call.state.history_reads.of(org), org, wanted, capped=text_format is TextFormat.JSON)
    writer = PointWriter(query.plant_id, text_format)
    content_type = "text/csv; charset=utf-8" if text_format is TextFormat.CSV else text_format.value
    call.set_header("vary", "accept")
    return Stream(content_type, written(history.pages(call.confirm), writer))


async def written(pages: AsyncIterator[Page], writer: PointWriter) -> AsyncIterator[bytes]:
    """Yield the response page by page."""
    async for page in pages:
        for piece in writer.pieces(page):
            yield piece
            await asyncio.sleep(0)
    yield writer.finish()


class ColumnsFilter(Input):
    """Query of columns: `from` is inclusive, `to` exclusive."""

    plant_id: UUID = Field(alias="plantId")
    metrics: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1, max_length=MAX_COLUMN_METRICS)
    ]
    start: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    points: Annotated[int, Field(ge=1, le=MAX_COLUMN_POINTS)] | None = None
    bucket: ColumnBucket | None = None

    def complaints(self) -> Iterator[str]:
        """Yield what is wrong beyond single fields."""
        if len(set(self.metrics)) < len(self.metrics):
            yield "metrics: must not name a metric twice"
        if self.points is not None and self.bucket is not None:
            yield "points: must not be given together with bucket"


class MetricColumn(msgspec.Struct, frozen=True):
    """A metric in the buckets of `times`: null where a bucket has no value."""

    metric: str
    unit: str | None
    average: list[float | None]
    min: list[float | None]
    max: list[float | None]


class TelemetryColumns(msgspec.Struct, frozen=True, rename="camel"):
    """Metrics of a plant in the same buckets."""

    plant_id: UUID
    bucket: ColumnBucket
    times: list[datetime]
    columns: list[MetricColumn]


@endpoint(
    "GET",
    "/api/v1/telemetry/columns",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", "PLANT_NOT_FOUND", *S),
    response=TelemetryColumns,
    addition=True,
)
async def get_telemetry_columns(call: Call, org: OrgScope, query: ColumnsFilter) -> Asset:
    """Return several metrics for a chart: one array of times, and arrays of averages, minimums and maximums for each metric.

    Without `bucket`, the service chooses the narrowest one of which at most `points` cover the range, 1,000 unless given. It is
    not narrower than twice the usual interval of the device that sends most often, so that null means that the device was
    silent. Columns times buckets are limited to 40,000.
    """
    wanted = ColumnsQuery(query.plant_id, query.metrics, query.start, query.end, query.points or DEFAULT_POINTS, query.bucket)
    return Asset("application/json", await columns_json(call.state.history_reads.of(org), org, wanted))


@endpoint(
    "GET",
    "/api/v1/telemetry/{plantId}/latest",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
    response=list[TelemetryPoint],
)
async def get_latest_values(call: Call, org: OrgScope, plant_id: UUID) -> Asset:
    """Return the newest value of each metric of the plant and its sub-devices, with its own time."""
    # Usually one statement: as a transaction it would take three round trips.
    async with call.state.shares.of(org).autocommit() as db:
        return Asset("application/json", await latest_json(db, org, plant_id))


_FORMATS: Final[dict[str, TextFormat]] = {text_format.value: text_format for text_format in TextFormat}


def preferred_format(accept: str) -> TextFormat:
    """Return the format with the highest quality in an Accept header (RFC 9110), or JSON if no known format is named."""
    best, best_quality = TextFormat.JSON, 0.0
    for media_type, quality in preferences(accept):
        chosen = _FORMATS.get(media_type)
        if chosen is not None and quality > best_quality:
            best, best_quality = chosen, quality
    return best
