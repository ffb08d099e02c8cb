"""`/api/v1/plants/{id}/live`: the newest values of a plant on every change, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Final
from uuid import UUID

from gridfleet.api.http import Call, S, Stream, endpoint, org_member
from gridfleet.api.http.json_out import to_json
from gridfleet.domains.telemetry.history.latest import MOST_IN_LOOP
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.errors import CodedError

QUIET_SECONDS: Final = 10.0
"""After this time without a change a comment is sent: it keeps proxies from closing the stream and detects lost clients."""


@endpoint(
    "GET",
    "/api/v1/plants/{id}/live",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
    response=list[TelemetryPoint],
    response_content_types=("text/event-stream",),
    addition=True,
)
async def watch_plant(call: Call, org: OrgScope, id: UUID) -> Stream:
    """Stream events named `values`, arrays of points as in `latest`: first all points, then changed ones.

    An event follows about a second after a value's commit. The stream ends within seconds of the caller's logout or loss of
    membership, when the access token expires, and when the plant is deleted; an EventSource then reconnects.
    """
    call.set_header("cache-control", "no-store")
    call.set_header("x-accel-buffering", "no")
    return Stream("text/event-stream", _events(call, org, id))


async def _events(call: Call, org: OrgScope, plant_id: UUID) -> AsyncIterator[bytes]:
    values = call.state.live.watch(org, plant_id, partial(call.state.shares.transaction, org))
    sent_at = 0.0
    try:
        async for points in values:
            try:
                await call.authorize_again()
            except CodedError:
                return
            if points:
                large = len(points) > MOST_IN_LOOP
                data = await asyncio.to_thread(to_json, points) if large else to_json(points)
                yield b"event: values\ndata: " + data + b"\n\n"
            elif time.monotonic() - sent_at > QUIET_SECONDS:
                yield b": still here\n\n"
            else:
                continue
            sent_at = time.monotonic()
            await asyncio.sleep(0)
    finally:
        await values.aclose()
