"""The registry of plants. Responses combine a plant with its template; a single plant also with its groups and alerts."""

from collections.abc import Iterator
from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import Call, Input, Metadata, PageQuery, S, TimeZone, endpoint, omitted, org_member
from gridfleet.api.plants.views import PlantDetailed, PlantView, detailed, view
from gridfleet.domains.alerts.actions import open_alerts_of
from gridfleet.domains.device_templates.catalogue import written_by_id
from gridfleet.domains.device_templates.models import DeviceTemplate
from gridfleet.domains.plants import registry
from gridfleet.domains.plants.groups.registry import groups_of_plant
from gridfleet.domains.plants.models import AuthMethod, OwnPlace, Plant, PlantChanges, PlantType
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page

Name = Annotated[str, Field(min_length=1, max_length=100)]
LONGEST_SERIAL_NUMBER: Final = 50
"""Characters."""
SerialNumber = Annotated[str, Field(min_length=1, max_length=LONGEST_SERIAL_NUMBER)]
ExternalPlantId = Annotated[str, Field(min_length=1, max_length=120)]
Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Tag = Annotated[str, Field(min_length=1, max_length=120)]


class PlantFilter(PageQuery):
    """Filter of plants."""

    auth_method: AuthMethod | None = None


class PlantPlace(Input):
    """Where a plant is. Null, or omitted: the linked ESM's value counts, and the organisation's time zone."""

    latitude: Latitude | None = None
    longitude: Longitude | None = None
    tag: Tag | None = None
    time_zone: TimeZone | None = None

    def complaints(self) -> Iterator[str]:
        """Yield a complaint about a single coordinate."""
        if (self.latitude is None) != (self.longitude is None):
            yield f"latitude: {registry.BOTH_COORDINATES}"

    @property
    def place(self) -> OwnPlace:
        """The place in the form that the domain takes."""
        return OwnPlace(self.latitude, self.longitude, self.tag, self.time_zone)


class NewPlant(PlantPlace):
    """A plant to register."""

    name: Name
    serial_number: SerialNumber
    type: PlantType
    auth_method: AuthMethod = AuthMethod.MTLS
    metadata: Metadata = {}


class PlantPatch(Input):
    """Changes to a plant. Null unlinks the ESM plant, removes the template, or resets a place or time zone to its default."""

    name: Name = omitted()
    serial_number: SerialNumber = omitted()
    type: PlantType = omitted()
    auth_method: AuthMethod = omitted()
    metadata: Metadata = omitted()
    external_plant_id: ExternalPlantId | None = omitted()
    template_id: UUID | None = omitted()
    organization_id: UUID = omitted()
    latitude: Latitude | None = omitted()
    longitude: Longitude | None = omitted()
    tag: Tag | None = omitted()
    time_zone: TimeZone | None = omitted()


@endpoint("GET", "/api/v1/plants", caller=org_member(OrgRole.VIEWER, scope="plants:read"), codes=("VALIDATION_ERROR", *S))
async def list_plants(org: OrgScope, db: Connection, query: PlantFilter) -> Page[PlantView]:
    """List the organisation's plants, newest first."""
    page = await registry.list_plants(db, org, query.auth_method, query.paging)
    templates = await written_by_id(db, [plant.template_id for plant in page.data if plant.template_id])
    return Page(
        [view(plant, templates.get(plant.template_id) if plant.template_id else None) for plant in page.data], page.meta
    )


@endpoint(
    "POST",
    "/api/v1/plants",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("VALIDATION_ERROR", "PLANT_ALREADY_EXISTS", *S),
    success=201,
)
async def create_plant(org: OrgScope, db: Connection, body: NewPlant) -> PlantView:
    """Register a plant. It is PENDING and has no credentials yet."""
    plant = await registry.create_plant(
        db,
        org,
        name=body.name,
        serial_number=body.serial_number,
        type=body.type,
        auth_method=body.auth_method,
        metadata=body.metadata,
        place=body.place,
    )
    return view(plant, None)


@endpoint(
    "GET",
    "/api/v1/plants/{id}",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "PLANT_NOT_FOUND", *S),
)
async def get_plant(org: OrgScope, db: Connection, id: UUID) -> PlantDetailed:
    """Return one plant with its alerts and groups."""
    plant = await registry.get_plant(db, org, id)
    template = await _template_of(db, plant)
    return detailed(plant, template, await groups_of_plant(db, org, id), await open_alerts_of(db, org, id))


@endpoint(
    "PATCH",
    "/api/v1/plants/{id}",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=(
        "BAD_REQUEST",
        "PLANT_NOT_FOUND",
        "PLANT_ALREADY_EXISTS",
        "DEVICE_TEMPLATE_NOT_FOUND",
        "DEVICE_TEMPLATE_WRONG_LEVEL",
        *S,
    ),
)
async def update_plant(call: Call, org: OrgScope, db: Connection, id: UUID, body: PlantPatch) -> PlantView:
    """Change a plant. Omitted members stay as they are."""
    plant = await registry.update_plant(db, org, id, PlantChanges(**dict(body)))
    call.also_changed.add(plant.organization_id)  # the plant may have moved to another organisation
    return view(plant, await _template_of(db, plant))


async def _template_of(db: Connection, plant: Plant) -> DeviceTemplate | None:
    if plant.template_id is None:
        return None
    return (await written_by_id(db, [plant.template_id])).get(plant.template_id)
