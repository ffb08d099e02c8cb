"""`/api/v1/fleet/plants`."""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import Input, S, endpoint, org_member
from gridfleet.domains.fleet.plants.listing import decode_position, list_fleet
from gridfleet.domains.fleet.plants.models import (
    AlertCondition,
    FleetFilter,
    FleetPaging,
    FleetPlantPage,
    FleetSort,
    Position,
    SortOrder,
)
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection

MOST_PLANTS = 500


class FleetPlantsQuery(Input):
    """Filter, sort order and page of the plants of a fleet. Every filter that is given applies."""

    plant_id: UUID | None = None
    q: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    status: Annotated[list[PlantStatus], Field(max_length=len(PlantStatus))] = []
    lifecycle_status: Annotated[list[Lifecycle], Field(max_length=len(Lifecycle))] = []
    group_id: UUID | None = None
    template_id: UUID | None = None
    alert: AlertCondition | None = None
    refused: bool | None = None
    sort: FleetSort = FleetSort.NAME
    order: SortOrder = SortOrder.ASC
    cursor: Annotated[str, Field(max_length=1_000)] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_PLANTS)] = 50

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the cursor is not that of a page with this sort order."""
        if self.cursor is not None and self.after is None:
            yield "cursor: must be the nextCursor of a page with the same sort and order"

    @property
    def after(self) -> Position | None:
        """Where the page begins; None without a valid cursor."""
        try:
            position = None if self.cursor is None else decode_position(self.cursor)
        except ValueError:
            return None
        return position if position and (position.sort, position.order) == (self.sort, self.order) else None


@endpoint(
    "GET",
    "/api/v1/fleet/plants",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def list_fleet_plants(org: OrgScope, db: Connection, query: FleetPlantsQuery) -> FleetPlantPage:
    """List plants with their newest power, state of charge, energy of the day and open alerts.

    `plantId` finds one plant, `q` a part of the name or serial number. `status` and `lifecycleStatus` may be repeated.
    `templateId` is the template of a plant or of one of its sub-devices. `refused` finds plants of which a message was refused
    in the last 24 hours, or the others. Plants without a fresh value come last if the list is sorted by it. While values
    change, a plant may be on two pages or on none.
    """
    which = FleetFilter(
        query.plant_id,
        query.q,
        query.status,
        query.lifecycle_status,
        query.group_id,
        query.template_id,
        query.alert,
        query.refused,
    )
    return await list_fleet(db, org, which, FleetPaging(query.sort, query.order, query.limit, query.after))
