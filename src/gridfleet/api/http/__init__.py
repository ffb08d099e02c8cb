"""The interface for handler modules: the endpoint decorator, caller rules, the call, and response types.

    @endpoint("GET", "/api/v1/plants/{id}", caller=org_member(OrgRole.VIEWER, scope="plants:read"),
              codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S))
    async def get_plant(call: Call, org: OrgScope, db: Connection, id: UUID) -> PlantDetailed:
        "One plant with its alerts and groups."

A handler declares what it needs as arguments: `call`, `caller` (UserCaller), `org` (OrgScope), `client` (id of a client of the
sandbox ESM), `db` (Connection of the request's transaction), `query` and `body` (`Input`; `bytes` for a body that is not
JSON), and its path parameters in snake_case (UUID or str).
"""

from gridfleet.api.access.guards import esm_client, internal, org_member, public, session, super_admin
from gridfleet.api.access.idempotency import key_of
from gridfleet.api.http.call import Call
from gridfleet.api.http.endpoint import SA, S, endpoint, internal_endpoint
from gridfleet.api.http.inputs import NOT_NULL, As, Email, Input, Metadata, Pattern, TimeZone, omitted
from gridfleet.api.http.pages import PAGE_TYPES, POLICY, page, page_file, read_page
from gridfleet.api.http.queries import CursorQuery, PageQuery, SpanQuery
from gridfleet.api.http.responses import Asset, Message, Stream
from gridfleet.api.state import AppState

__all__ = [
    "NOT_NULL",
    "PAGE_TYPES",
    "POLICY",
    "SA",
    "AppState",
    "As",
    "Asset",
    "Call",
    "CursorQuery",
    "Email",
    "Input",
    "Message",
    "Metadata",
    "PageQuery",
    "Pattern",
    "S",
    "SpanQuery",
    "Stream",
    "TimeZone",
    "endpoint",
    "esm_client",
    "internal",
    "internal_endpoint",
    "key_of",
    "omitted",
    "org_member",
    "page",
    "page_file",
    "public",
    "read_page",
    "session",
    "super_admin",
]
