"""Members of the organisation in the path."""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import Input, Message, PageQuery, S, endpoint, org_member
from gridfleet.domains.organizations import members
from gridfleet.domains.organizations.models import Member, MemberFilter, RoleName
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class MemberQuery(PageQuery):
    """Filter of members, which all given parameters must match. `q` is a part of the user's name or e-mail address."""

    q: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    role: RoleName | None = None


class NewRole(Input):
    """The new role of a member."""

    role: RoleName


@endpoint(
    "GET",
    "/api/v1/organizations/{orgId}/members",
    caller=org_member(OrgRole.OPERATOR, organization="orgId"),
    codes=("INVALID_UUID", "VALIDATION_ERROR", *S),
)
async def list_members(org: OrgScope, db: Connection, org_id: UUID, query: MemberQuery) -> Page[Member]:
    """List the organisation's members, or those that match, newest first."""
    return await members.list_members(db, org, MemberFilter(query.q, query.role), query.paging)


@endpoint(
    "PATCH",
    "/api/v1/organizations/{orgId}/members/{memberId}",
    caller=org_member(OrgRole.ORG_ADMIN, organization="orgId"),
    codes=("BAD_REQUEST", "MEMBER_NOT_FOUND", *S),
)
async def change_member_role(org: OrgScope, db: Connection, org_id: UUID, member_id: UUID, body: NewRole) -> Member:
    """Change a member's role immediately. Only a SuperAdmin can demote the last ORG_ADMIN."""
    return await members.change_role(db, org, member_id, body.role)


@endpoint(
    "DELETE",
    "/api/v1/organizations/{orgId}/members/{memberId}",
    caller=org_member(OrgRole.ORG_ADMIN, organization="orgId"),
    codes=("INVALID_UUID", "MEMBER_NOT_FOUND", *S),
)
async def remove_member(org: OrgScope, db: Connection, org_id: UUID, member_id: UUID) -> Message:
    """End a membership immediately. The account stays. Only a SuperAdmin can remove the last ORG_ADMIN."""
    await members.remove(db, org, member_id)
    return Message("The member was removed.")
