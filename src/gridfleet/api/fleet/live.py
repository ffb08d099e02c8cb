"""`/api/v1/fleet/live`: what changes in an organisation, as server-sent events."""

from functools import partial
from typing import Final

from gridfleet.api.http import Call, S, Stream, endpoint, org_member
from gridfleet.api.http.json_out import to_json
from gridfleet.api.streams import StreamQuery, event, event_stream
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.partners.scopes import Scope
from gridfleet.domains.plants.changes import ChangeKind
from gridfleet.kernel.caller import KeyCaller, OrgRole, OrgScope

_SCOPES: Final = {
    ChangeKind.PLANT: Scope.TELEMETRY_READ,
    ChangeKind.VALUES: Scope.TELEMETRY_READ,
    ChangeKind.ALERT: Scope.TELEMETRY_READ,
    ChangeKind.COMMAND: Scope.COMMANDS_READ,
}
"""What an API key needs to receive each kind of change."""


@endpoint(
    "GET",
    "/api/v1/fleet/live",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read", by_query=True),
    codes=("VALIDATION_ERROR", *S),
    response=FleetSummary,
    response_content_types=("text/event-stream",),
    addition=True,
)
async def watch_fleet(call: Call, org: OrgScope, query: StreamQuery) -> Stream:
    """Stream what changes in the organisation: `summary`, `plants`, `gone`, `alerts`, `commands`, and `reset`.

    The first event is a `summary`. Open the stream first and then read the lists: later changes follow within a second. With
    `Last-Event-ID`, what has happened since that event comes first, or a `reset` if that event is no longer kept: read the
    lists again. The stream ends within seconds of the caller's logout or loss of membership. An API key receives `alerts` with
    the scope `telemetry:read` and `commands` with `commands:read`. `organizationId` names the organisation for a browser's
    `EventSource`, which logs in with the session cookie.
    """
    scopes = org.actor.scopes if isinstance(org.actor, KeyCaller) else None
    kinds = frozenset(kind for kind, scope in _SCOPES.items() if scopes is None or scope in scopes)
    last_id = call.headers.get("last-event-id") or query.last_event_id
    transaction = partial(call.state.shares.transaction, org)
    return event_stream(call, org, call.state.fleet.watch(org, kinds, transaction, _encoded, last_id))


def _encoded(name: str, record: object, event_id: str | None) -> bytes:
    return event(name, to_json(record), event_id)
