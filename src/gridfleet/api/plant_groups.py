"""`/api/v1/plant-groups`: named sets of plants."""

from typing import Annotated, Any, ClassVar, cast
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import NOT_NULL, CursorQuery, Input, Message, PageQuery, S, endpoint, omitted, org_member
from gridfleet.domains.plants.groups import registry
from gridfleet.domains.plants.groups.models import (
    BriefPlant,
    CountedPlantGroup,
    GroupMember,
    GroupMemberFilter,
    PlantGroup,
    PlantGroupChanges,
)
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import CursorPage, Page

Name = Annotated[str, Field(min_length=1, max_length=100)]
Description = Annotated[str, Field(max_length=500)]


class NewPlantGroup(Input):
    """A group to create."""

    name: Name
    description: Annotated[Description | None, NOT_NULL] = None


class PlantGroupPatch(Input):
    """Changes to a group."""

    name: Name = omitted()
    description: Description = omitted()


class GroupMembers(Input):
    """Plants to add or remove."""

    plant_ids: Annotated[list[UUID], Field(min_length=1)]


class GroupMemberQuery(CursorQuery):
    """Filter of a group's plants by states, and by a text in name or serial number."""

    key: ClassVar[Any] = tuple[UUID]
    status: Annotated[list[PlantStatus], Field(max_length=len(PlantStatus))] = []
    search: Annotated[str, Field(max_length=255)] | None = None


class PlantGroupWithPlants(CountedPlantGroup, frozen=True, rename="camel"):
    """A single group with its plants, and the number of their sub-devices."""

    device_count: int
    plants: list[BriefPlant]


@endpoint(
    "GET",
    "/api/v1/plant-groups",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", *S),
    tagged=True,
)
async def list_plant_groups(org: OrgScope, db: Connection, query: PageQuery) -> Page[CountedPlantGroup]:
    """List the organisation's groups with the numbers of their plants, newest first."""
    return await registry.list_groups(db, org, query.paging)


@endpoint(
    "POST",
    "/api/v1/plant-groups",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("VALIDATION_ERROR", *S),
    success=201,
)
async def create_plant_group(org: OrgScope, db: Connection, body: NewPlantGroup) -> PlantGroup:
    """Create a group without plants."""
    return await registry.create_group(db, org, body.name, body.description)


@endpoint(
    "GET",
    "/api/v1/plant-groups/{id}",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
)
async def get_plant_group(org: OrgScope, db: Connection, id: UUID) -> PlantGroupWithPlants:
    """Return one group with its plants."""
    group = await registry.get_group(db, org, id)
    count, text = await registry.plants_in(db, org, id)
    devices = await registry.count_devices(db, org, id)
    plants = cast("list[BriefPlant]", text)  # JSON, which is inserted into the response unchanged
    return PlantGroupWithPlants(**msgspec.structs.asdict(group), plant_count=count, device_count=devices, plants=plants)


@endpoint(
    "PATCH",
    "/api/v1/plant-groups/{id}",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("BAD_REQUEST", "NOT_FOUND", *S),
)
async def update_plant_group(org: OrgScope, db: Connection, id: UUID, body: PlantGroupPatch) -> PlantGroup:
    """Change a group's name or description. Omitted members stay as they are."""
    return await registry.update_group(db, org, id, PlantGroupChanges(body.name, body.description))


@endpoint(
    "DELETE",
    "/api/v1/plant-groups/{id}",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
)
async def delete_plant_group(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Delete a group. Its plants stay."""
    await registry.delete_group(db, org, id)
    return Message("The group is deleted.")


@endpoint(
    "GET",
    "/api/v1/plant-groups/{id}/available-plants",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
    response=list[BriefPlant],
    kept_seconds=5,
)
async def list_available_plants(org: OrgScope, db: Connection, id: UUID) -> msgspec.Raw:
    """List the organisation's plants that are not in the group, newest first. A `status` may be 5 s old.

    The response is an array of `BriefPlant`.
    """
    return await registry.plants_outside(db, org, id)


@endpoint(
    "GET",
    "/api/v1/plant-groups/{id}/plants",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
    response=list[BriefPlant],
)
async def list_group_plants(org: OrgScope, db: Connection, id: UUID) -> msgspec.Raw:
    """List the plants in the group, newest first."""
    return (await registry.plants_in(db, org, id))[1]


@endpoint(
    "GET",
    "/api/v1/plant-groups/{id}/members",
    caller=org_member(OrgRole.VIEWER, scope="plants:read"),
    codes=("VALIDATION_ERROR", "INVALID_UUID", "NOT_FOUND", *S),
    addition=True,
)
async def list_group_members(org: OrgScope, db: Connection, id: UUID, query: GroupMemberQuery) -> CursorPage[GroupMember]:
    """List the plants in the group in pages, newest first, with the numbers of their sub-devices."""
    return await registry.list_members(db, org, id, GroupMemberFilter(frozenset(query.status), query.search), query.paging)


@endpoint(
    "POST",
    "/api/v1/plant-groups/{id}/plants",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("BAD_REQUEST", "NOT_FOUND", *S),
)
async def add_group_plants(org: OrgScope, db: Connection, id: UUID, body: GroupMembers) -> Message:
    """Add plants to the group: all of them, or none if one does not exist."""
    await registry.add_plants(db, org, id, body.plant_ids)
    return Message("The plants are in the group.")


@endpoint(
    "DELETE",
    "/api/v1/plant-groups/{id}/plants",
    caller=org_member(OrgRole.OPERATOR, scope="plants:write"),
    codes=("BAD_REQUEST", "NOT_FOUND", *S),
)
async def remove_group_plants(org: OrgScope, db: Connection, id: UUID, body: GroupMembers) -> Message:
    """Remove plants from the group: all of them, or none if one does not exist."""
    await registry.remove_plants(db, org, id, body.plant_ids)
    return Message("The plants are not in the group.")
