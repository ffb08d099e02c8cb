"""`/api/v1/plants/{id}/live`: the newest values of a plant on every change, as server-sent events."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from uuid import UUID

from gridfleet.api.http import Call, S, Stream, endpoint, org_member
from gridfleet.api.http.json_out import to_json
from gridfleet.api.streams import StreamQuery, event, event_stream
from gridfleet.domains.telemetry.computing import COMPUTING
from gridfleet.domains.telemetry.history.live import ValueChanges
from gridfleet.domains.telemetry.history.models import TelemetryPoint
from gridfleet.domains.telemetry.latest.queries import MOST_IN_LOOP
from gridfleet.kernel.caller import OrgRole, OrgScope


@endpoint(
    "GET",
    "/api/v1/plants/{id}/live",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read", by_query=True),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "PLANT_NOT_FOUND", *S),
    response=list[TelemetryPoint],
    response_content_types=("text/event-stream",),
    addition=True,
)
async def watch_plant(call: Call, org: OrgScope, id: UUID, query: StreamQuery) -> Stream:
    """Stream events named `values`, arrays of points as in `latest`: first all points, then changed ones.

    An event follows about a second after a value's commit. With `Last-Event-ID` the first event has the points that changed
    since that event, or all if that event is no longer kept. The stream ends within seconds of the caller's logout or
    loss of membership, and when the plant is deleted; it continues when the access token expires. `organizationId` names the
    organisation for a browser's `EventSource`, which logs in with the session cookie.
    """
    last_id = call.headers.get("last-event-id") or query.last_event_id
    return event_stream(call, org, _events(call, org, id, last_id))


async def _events(call: Call, org: OrgScope, plant_id: UUID, last_id: str | None) -> AsyncGenerator[bytes, None]:
    watching = call.state.live.watch(org, plant_id, partial(call.state.shares.transaction, org), last_id)
    is_first = True
    async with aclosing(watching) as values:
        async for changes in values:
            yield await _encoded(changes, org) if changes.points or is_first else b""
            is_first = False


async def _encoded(changes: ValueChanges, org: OrgScope) -> bytes:
    """Return the event, which is encoded once for all watchers of the plant, who request it at the same time."""
    if changes.encoding is None:
        changes.encoding = asyncio.create_task(_encode(changes, org), name="live event")
    return await asyncio.shield(changes.encoding)  # a watcher that leaves does not end it for the others


async def _encode(changes: ValueChanges, org: OrgScope) -> bytes:
    make = partial(to_json, changes.points)
    data = await COMPUTING.run(org.organization_id, make) if len(changes.points) > MOST_IN_LOOP else make()
    return event("values", data, changes.id)
