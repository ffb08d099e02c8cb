"""Who may act in which organisation."""

from collections.abc import Sequence
from uuid import UUID

from gridfleet.domains.organizations import store
from gridfleet.domains.organizations.models import OwnOrganization
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden

__all__ = ["current_organization", "enter", "organizations_of"]


async def enter(db: Connection, caller: UserCaller, organization_id: UUID) -> OrgScope:
    """The caller's right to act in an organisation: with the own role, SuperAdmins as ORG_ADMIN everywhere.

    Raises Forbidden, alike for a stranger's organisation and for one that does not exist.
    """
    standing = await store.find_standing(db, organization_id, caller.user_id)
    if standing is None:
        raise Forbidden
    role = OrgRole.ORG_ADMIN if caller.is_super_admin else standing.role
    if role is None:
        raise Forbidden
    return OrgScope(organization_id, role, caller)


async def organizations_of(db: Connection, user_id: UUID) -> list[OwnOrganization]:
    """The organisations a person belongs to, the first joined first."""
    return await store.list_of_member(db, user_id)


async def current_organization(
    db: Connection, own: Sequence[OwnOrganization], default_id: UUID | None, *, is_super_admin: bool
) -> OwnOrganization | None:
    """The organisation a person starts in: the default one, else the first joined, else none.

    A SuperAdmin's default may be one he does not belong to.
    """
    for organization in own:
        if organization.id == default_id:
            return organization
    if is_super_admin and default_id is not None and (foreign := await store.find(db, default_id)) is not None:
        return OwnOrganization(foreign.id, foreign.name, OrgRole.ORG_ADMIN, foreign.slug)
    return own[0] if own else None
