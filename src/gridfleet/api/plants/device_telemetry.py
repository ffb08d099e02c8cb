"""`/api/v1/plants/{plantId}/sub-devices/{externalId}/telemetry`: a sub-device's history in buckets."""

from collections.abc import AsyncIterator
from datetime import datetime
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Call, Input, S, Stream, endpoint, org_member
from gridfleet.api.http.json_out import to_json
from gridfleet.domains.telemetry.history.models import BucketPoint, Page
from gridfleet.domains.telemetry.history.queries import open_device_history
from gridfleet.kernel.caller import OrgRole, OrgScope


class DeviceTelemetryQuery(Input):
    """Query of a sub-device's history: `from` inclusive, `to` exclusive, `metric` without the device's prefix."""

    start: datetime = Field(alias="from")
    end: datetime = Field(alias="to")
    metric: str | None = None


class SubDeviceAggregate(msgspec.Struct, frozen=True, rename="camel"):
    """Aggregate of `count` values of one metric and unit in one bucket. `bucket` is the start of the bucket."""

    bucket: datetime
    metric: str
    avg_value: float
    min_value: float
    max_value: float
    count: int
    unit: str | None


@endpoint(
    "GET",
    "/api/v1/plants/{plantId}/sub-devices/{externalId}/telemetry",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", "SUB_DEVICE_NOT_FOUND", *S),
    response=list[SubDeviceAggregate],
)
async def get_device_telemetry(
    call: Call, org: OrgScope, plant_id: UUID, external_id: str, query: DeviceTelemetryQuery
) -> Stream:
    """Return averages, minimums and maximums, ordered by time, then metric.

    The range determines the bucket: up to 6 hours 1 minute, 2 days 5 minutes, 14 days 15 minutes, 90 days 1 hour, else 1 day.
    If retention has deleted the buckets of that width, the bucket is the next wider one that is kept.
    """
    reading = call.state.history_reads.of(org)
    history = await open_device_history(reading, org, plant_id, external_id, query.metric, query.start, query.end)
    return Stream("application/json", _pieces(history.pages(call.confirm)))


async def _pieces(pages: AsyncIterator[Page]) -> AsyncIterator[bytes]:
    opening = b"["
    async for page in pages:
        if text := _encoded(page):
            yield opening + text
            opening = b","
    yield b"[]" if opening == b"[" else b"]"


def _encoded(page: Page) -> bytes:
    assert isinstance(page, list)
    return to_json([_aggregate(point) for point in page])[1:-1]


def _aggregate(point: BucketPoint) -> SubDeviceAggregate:
    series = point.series
    return SubDeviceAggregate(point.time, series.metric, point.average, point.minimum, point.maximum, point.size, series.unit)
