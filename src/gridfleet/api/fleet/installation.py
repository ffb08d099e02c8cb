"""`/api/v1/fleet/refused-messages` and `/api/v1/fleet/unregistered-devices`: what installers look for over all plants."""

from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import CursorQuery, S, SpanQuery, endpoint, org_member
from gridfleet.domains.plants.refused_messages.listing import queries
from gridfleet.domains.plants.refused_messages.models import PlantRefusedMessage, PlantUnregisteredDevice, RefusedFilter
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import CursorPage
from gridfleet.protocol.envelope import RefusalReason


class PlantTimeQuery(CursorQuery, SpanQuery):
    """Filter by plant and time: `from` inclusive, `to` exclusive."""

    plant_id: UUID | None = None


class RefusedQuery(PlantTimeQuery):
    """Filter of refused messages by plant, reasons and time of receipt."""

    reason: Annotated[list[RefusalReason], Field(max_length=len(RefusalReason))] = []


class DeviceQuery(PlantTimeQuery):
    """Filter of unregistered devices by plant, and by the time at which they were first seen."""

    key: ClassVar[Any] = queries.DeviceKey


@endpoint(
    "GET",
    "/api/v1/fleet/refused-messages",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_refused_messages_of_fleet(org: OrgScope, db: Connection, query: RefusedQuery) -> CursorPage[PlantRefusedMessage]:
    """List the refused messages that all plants sent in the last seven days, newest first."""
    which = RefusedFilter(query.plant_id, frozenset(query.reason), query.since, query.until)
    return await queries.list_refused_messages(db, org, which, query.paging)


@endpoint(
    "GET",
    "/api/v1/fleet/unregistered-devices",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_unregistered_devices_of_fleet(
    org: OrgScope, db: Connection, query: DeviceQuery
) -> CursorPage[PlantUnregisteredDevice]:
    """List the unregistered devices in snapshots of all plants, most recently discovered first."""
    which = RefusedFilter(query.plant_id, since=query.since, until=query.until)
    return await queries.list_unregistered_devices(db, org, which, query.paging)
