"""The right of users to act in organisations."""

from collections.abc import Sequence
from uuid import UUID

from gridfleet.domains.identity.accounts import profile
from gridfleet.domains.organizations import store
from gridfleet.domains.organizations.errors import MembershipRequired, OrganizationNotFound
from gridfleet.domains.organizations.models import OrganizationRole, OwnOrganization
from gridfleet.kernel.caller import OrgRole, OrgScope, PlatformScope, UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden

__all__ = [
    "count_organizations",
    "current_organization",
    "everywhere",
    "organizations_of",
    "require_admin",
    "role_in",
    "scope_of",
    "set_default_organization",
]


async def role_in(db: Connection, user_id: UUID, organization_id: UUID) -> OrganizationRole | None:
    """Return the role of a user in an organisation, or None if there is no such organisation."""
    return await store.find_role(db, organization_id, user_id)


def scope_of(
    caller: UserCaller, organization_id: UUID, membership: OrganizationRole | None, *, must_exist: bool = True
) -> OrgScope:
    """Return the caller's right to act in an organisation: with their own role, SuperAdmins as ORG_ADMIN everywhere.

    Without `must_exist` a SuperAdmin gets the right to an organisation that does not exist, which is then empty.

    Raises:
        Forbidden: The caller is not a member, or the organisation does not exist.
    """
    if caller.is_super_admin and (membership is not None or not must_exist):
        return OrgScope(organization_id, OrgRole.ORG_ADMIN, caller)
    if membership is None or membership.role is None:
        raise Forbidden("You belong to no organisation with this id.")
    return OrgScope(organization_id, membership.role, caller)


async def require_admin(db: Connection, org: OrgScope) -> None:
    """Check that the caller is still an ORG_ADMIN of the organisation, or a SuperAdmin, until the transaction ends.

    For changes that outlast a membership, because a request may have waited since its rights were checked.

    Raises:
        Forbidden: The caller is no longer an ORG_ADMIN, or is an API key.
    """
    if not org.person.is_super_admin and not await store.hold_admin(db, org, org.person.user_id):
        raise Forbidden


def everywhere(caller: UserCaller) -> PlatformScope:
    """Return a SuperAdmin's right to read all organisations. Raises Forbidden for other users."""
    if not caller.is_super_admin:
        raise Forbidden
    return PlatformScope(caller)


async def set_default_organization(db: Connection, caller: UserCaller, organization_id: UUID) -> None:
    """Set the caller's default organisation: one of their own, or any for a SuperAdmin.

    Raises:
        MembershipRequired: The caller is not a member, or the organisation does not exist.
        OrganizationNotFound: It does not exist, and the caller is a SuperAdmin.
    """
    membership = await role_in(db, caller.user_id, organization_id)
    if caller.is_super_admin and membership is None:
        raise OrganizationNotFound
    if not caller.is_super_admin and (membership is None or membership.role is None):
        raise MembershipRequired
    await profile.set_default_organization(db, caller, organization_id)


async def organizations_of(db: Connection, user_id: UUID) -> list[OwnOrganization]:
    """Return the organisations of a user, in the order of joining."""
    return await store.list_of_member(db, user_id)


async def count_organizations(db: Connection, scope: PlatformScope, user_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of organisations of each of the users who is a member of some."""
    return await store.organization_counts(db, scope, user_ids)


async def current_organization(
    db: Connection, own: Sequence[OwnOrganization], preferred: Sequence[UUID], *, is_super_admin: bool
) -> OwnOrganization | None:
    """Return the first of the preferred organisations in which a user may act, else the first joined, else None.

    A SuperAdmin may act in an organisation without their membership.
    """
    memberships = {organization.id: organization for organization in own}
    for organization_id in preferred:
        if organization_id in memberships:
            return memberships[organization_id]
        if is_super_admin and (foreign := await store.find(db, organization_id)) is not None:
            return OwnOrganization(foreign.id, foreign.name, OrgRole.ORG_ADMIN, foreign.slug, foreign.time_zone)
    return own[0] if own else None
