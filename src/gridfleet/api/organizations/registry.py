"""The registry of organisations, for SuperAdmins."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import NOT_NULL, SA, Input, Message, PageQuery, Pattern, TimeZone, endpoint, super_admin
from gridfleet.domains.organizations import registry
from gridfleet.domains.organizations.membership import scope_of
from gridfleet.domains.organizations.models import Organization
from gridfleet.domains.trading.configuration import delete_unsaved, follow_slug
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


@endpoint("POST", "/api/v1/organizations", caller=super_admin(), codes=("VALIDATION_ERROR", "CONFLICT", *SA), success=201)
async def create_organization(caller: UserCaller, db: Connection, body: NewOrganization) -> Organization:
    """Create an organisation without members."""
    return await registry.create(db, caller.as_actor, body.name, body.slug, body.description, body.time_zone)


@endpoint("GET", "/api/v1/organizations", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def list_organizations(db: Connection, query: PageQuery) -> Page[Organization]:
    """List all organisations, newest first."""
    return await registry.list_organizations(db, query.paging)


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
async def update_organization(caller: UserCaller, db: Connection, id: UUID, body: OrganizationChanges) -> Organization:
    """Change name, slug, description or time zone."""
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
    """Delete an organisation without members, plants and trading configuration, together with its invitations."""
    await delete_unsaved(db, id)
    await registry.delete(db, caller.as_actor, id)
    return Message("The organisation was deleted.")
