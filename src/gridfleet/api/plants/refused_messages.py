"""Views for installers: refused messages with their reasons, and unregistered devices."""

from uuid import UUID

from gridfleet.api.http import PageQuery, S, endpoint, org_member
from gridfleet.domains.plants.refused_messages import records
from gridfleet.domains.plants.refused_messages.models import RefusedMessage, UnregisteredDevice
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


@endpoint(
    "GET",
    "/api/v1/plants/{id}/refused-messages",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "PLANT_NOT_FOUND", *S),
    addition=True,
)
async def list_refused_messages(org: OrgScope, db: Connection, id: UUID, query: PageQuery) -> Page[RefusedMessage]:
    """List the plant's refused messages of the last seven days, newest first."""
    return await records.list_refused_messages(db, org, id, query.paging)


@endpoint(
    "GET",
    "/api/v1/plants/{id}/unregistered-devices",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
    addition=True,
)
async def list_unregistered_devices(org: OrgScope, db: Connection, id: UUID) -> list[UnregisteredDevice]:
    """List unregistered devices that the plant's snapshots name, most recently seen first."""
    return await records.list_unregistered_devices(db, org, id)
