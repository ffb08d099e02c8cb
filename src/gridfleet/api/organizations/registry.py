"""The registry of organisations, for SuperAdmins."""

from typing import Annotated
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import NOT_NULL, SA, Call, Input, Message, PageQuery, Pattern, TimeZone, endpoint, super_admin
from gridfleet.domains.organizations import registry
from gridfleet.domains.organizations.membership import everywhere, scope_of
from gridfleet.domains.organizations.models import Organization
from gridfleet.domains.plants.registry import count_plants
from gridfleet.domains.trading.configuration import delete_disabled, follow_slug
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page
from gridfleet.kernel.time_zones import UTC_NAME

Name = Annotated[str, Field(min_length=2, max_length=100)]
Slug = Annotated[
    str,
    Field(min_length=2, max_length=50),
    Pattern(r"^[a-z0-9]+(-[a-z0-9]+)*$", "must be lowercase letters and digits in groups joined by single hyphens"),
]
Description = Annotated[str, Field(max_length=500)]


class NewOrganization(Input):
    """A tenant to create."""

    name: Name
    slug: Slug
    description: Annotated[Description | None, NOT_NULL] = None
    time_zone: TimeZone = UTC_NAME


class OrganizationChanges(Input):
    """Changes to an organisation; omitted fields stay unchanged."""

    name: Annotated[Name | None, NOT_NULL] = None
    slug: Annotated[Slug | None, NOT_NULL] = None
    description: Annotated[Description | None, NOT_NULL] = None
    time_zone: Annotated[TimeZone | None, NOT_NULL] = None


class OrganizationQuery(PageQuery):
    """Filter of organisations. `q` is a part of the name or the slug."""

    q: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class ListedOrganization(Organization, frozen=True, rename="camel"):
    """An organisation in the list of all, with the numbers of its members and its plants."""

    member_count: int
    plant_count: int


@endpoint("POST", "/api/v1/organizations", caller=super_admin(), codes=("VALIDATION_ERROR", "CONFLICT", *SA), success=201)
async def create_organization(caller: UserCaller, db: Connection, body: NewOrganization) -> Organization:
    """Create an organisation without members."""
    return await registry.create(db, caller.as_actor, body.name, body.slug, body.description, body.time_zone)


@endpoint("GET", "/api/v1/organizations", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def list_organizations(caller: UserCaller, db: Connection, query: OrganizationQuery) -> Page[ListedOrganization]:
    """List all organisations, or those that match, newest first, with the numbers of their members and plants."""
    found = await registry.list_organizations(db, query.q, query.paging)
    scope, ids = everywhere(caller), [organization.id for organization in found.data]
    members, plants = await registry.count_members(db, scope, ids), await count_plants(db, scope, ids)
    organizations = [
        ListedOrganization(
            **msgspec.structs.asdict(one), member_count=members.get(one.id, 0), plant_count=plants.get(one.id, 0)
        )
        for one in found.data
    ]
    return Page(organizations, found.meta)


@endpoint("GET", "/api/v1/organizations/{id}", caller=super_admin(), codes=("INVALID_UUID", "ORGANIZATION_NOT_FOUND", *SA))
async def get_organization(db: Connection, id: UUID) -> Organization:
    """Return one organisation."""
    return await registry.get(db, id)


@endpoint(
    "PATCH",
    "/api/v1/organizations/{id}",
    caller=super_admin(),
    codes=("VALIDATION_ERROR", "ORGANIZATION_NOT_FOUND", "CONFLICT", *SA),
)
async def update_organization(
    call: Call, caller: UserCaller, db: Connection, id: UUID, body: OrganizationChanges
) -> Organization:
    """Change name, slug, description or time zone."""
    call.also_changed.add(id)  # its cached energies have the days of the former time zone
    changed = await registry.change(db, caller.as_actor, id, body.name, body.slug, body.description, body.time_zone)
    if body.slug is not None:
        await follow_slug(db, scope_of(caller, id, None, must_exist=False))
    return changed


@endpoint(
    "DELETE",
    "/api/v1/organizations/{id}",
    caller=super_admin(),
    codes=("INVALID_UUID", "ORGANIZATION_NOT_FOUND", "CONFLICT", *SA),
)
async def delete_organization(caller: UserCaller, db: Connection, id: UUID) -> Message:
    """Delete an organisation. It must have no members, no plants, no keys that are not revoked, and no enabled trading.

    Its invitations and revoked keys are deleted too.
    """
    await delete_disabled(db, id)
    await registry.delete(db, caller.as_actor, id)
    return Message("The organisation was deleted.")
