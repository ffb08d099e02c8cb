"""Invitations to the organisation."""

from uuid import UUID

from gridfleet.api.auth.limits import limit_account_calls
from gridfleet.api.http import Call, Email, Input, Message, PageQuery, S, endpoint, org_member
from gridfleet.domains.organizations.invitations import registry
from gridfleet.domains.organizations.invitations.models import Invitation, ListedInvitation
from gridfleet.domains.organizations.models import RoleName
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class NewInvitation(Input):
    """The address to invite, and the role."""

    email: Email
    role: RoleName = RoleName.VIEWER


@endpoint("GET", "/api/v1/invitations", caller=org_member(OrgRole.OPERATOR), codes=("VALIDATION_ERROR", *S))
async def list_invitations(org: OrgScope, db: Connection, query: PageQuery) -> Page[ListedInvitation]:
    """List the organisation's invitations, newest first, each with the time at which it added a member."""
    return await registry.list_invitations(db, org, query.paging)


@endpoint(
    "POST", "/api/v1/invitations", caller=org_member(OrgRole.ORG_ADMIN), codes=("VALIDATION_ERROR", "CONFLICT", *S), success=201
)
async def create_invitation(call: Call, org: OrgScope, db: Connection, body: NewInvitation) -> Invitation:
    """Invite an address. The service mails it a link that is valid for seven days."""
    await limit_account_calls(call)
    return await registry.invite(db, call.state.mail, org, body.email, body.role)


@endpoint(
    "DELETE",
    "/api/v1/invitations/{id}",
    caller=org_member(OrgRole.ORG_ADMIN),
    codes=("BAD_REQUEST", "INVITATION_NOT_FOUND", *S),
)
async def revoke_invitation(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Revoke an invitation that has not added a member yet. Its link stops working."""
    await registry.revoke(db, org, id)
    return Message("The invitation was revoked.")
