"""Members of an organisation and their roles."""

from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record, record_in
from gridfleet.domains.identity.accounts import profile
from gridfleet.domains.identity.accounts.registry import users_by_id
from gridfleet.domains.identity.models import User
from gridfleet.domains.organizations import store
from gridfleet.domains.organizations.errors import LastAdmin, MemberNotFound
from gridfleet.domains.organizations.invitations.registry import revoke_of_member
from gridfleet.domains.organizations.models import Member, MemberFilter, RoleName
from gridfleet.kernel.caller import Actor, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import Forbidden
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["add", "change_role", "list_members", "remove"]


async def list_members(db: Connection, org: OrgScope, wanted: MemberFilter, paging: Paging) -> Page[Member]:
    """Return one page of the organisation's members that match, newest first."""
    found = await store.list_members(db, org, wanted, paging)
    users = await users_by_id(db, {membership.user_id for membership in found})
    shown = [_member(membership, users[membership.user_id]) for membership in found]
    return Page.of(shown, await store.count_members(db, org, wanted), paging)


async def add(db: Connection, actor: Actor, organization_id: UUID, user_id: UUID, role: RoleName) -> None:
    """Make a user a member. Does nothing if the user is one already.

    The organisation becomes the user's default if they have none.
    """
    member_id = new_id()
    if await store.insert_member(db, member_id, organization_id, user_id, role):
        await profile.set_first_default_organization(db, user_id, organization_id)
        subject = Subject(SubjectType.MEMBER, member_id)
        details = {"userId": str(user_id), "role": role}
        await record(db, Event.MEMBER_ADDED, actor, subject, organization_id=organization_id, details=details)


async def change_role(db: Connection, org: OrgScope, member_id: UUID, role: RoleName) -> Member:
    """Change a member's role and return the member. An ORG_ADMIN who is demoted loses their open invitations.

    Raises MemberNotFound, LastAdmin.
    """
    before = await _claim(db, org, member_id, stays_admin=role is RoleName.ORG_ADMIN)
    if role is not RoleName.ORG_ADMIN:
        await revoke_of_member(db, org, before.user_id)
    after = await store.set_role(db, org, member_id, role) if before.role is not role else before
    if after is None:
        raise MemberNotFound
    if before.role is not role:
        details = {"userId": str(before.user_id), "from": before.role, "to": role}
        await record_in(db, org, Event.MEMBER_ROLE_CHANGED, Subject(SubjectType.MEMBER, member_id), details)
    users = await users_by_id(db, {after.user_id})
    return _member(after, users[after.user_id])


async def remove(db: Connection, org: OrgScope, member_id: UUID) -> None:
    """End a membership at once, and revoke the member's open invitations. The account stays.

    Raises MemberNotFound, LastAdmin.
    """
    before = await _claim(db, org, member_id, stays_admin=False)
    await revoke_of_member(db, org, before.user_id)
    if not await store.delete_member(db, org, member_id):
        raise MemberNotFound
    await profile.clear_default_organization(db, before.user_id, org.organization_id)
    details = {"userId": str(before.user_id), "role": before.role}
    await record_in(db, org, Event.MEMBER_REMOVED, Subject(SubjectType.MEMBER, member_id), details)


async def _claim(db: Connection, org: OrgScope, member_id: UUID, *, stays_admin: bool) -> store.Membership:
    """Return the membership, with the rows of all ORG_ADMINs locked.

    If two ORG_ADMINs demote each other at the same time, the second waits, and is no ORG_ADMIN any more when it continues.

    Raises:
        Forbidden: The caller is no longer an ORG_ADMIN of the organisation.
        MemberNotFound: The organisation has no such member.
        LastAdmin: The member is the last ORG_ADMIN and would not stay one.
    """
    admins = await store.lock_admins(db, org)
    if not org.actor.is_super_admin and org.actor.id not in admins:
        raise Forbidden
    found = await store.find_member(db, org, member_id)
    if found is None:
        raise MemberNotFound
    if admins == {found.user_id} and not stays_admin and not org.actor.is_super_admin:
        raise LastAdmin
    return found


def _member(membership: store.Membership, user: User) -> Member:
    return Member(
        id=membership.id,
        organization_id=membership.organization_id,
        user_id=membership.user_id,
        role=membership.role,
        user=user,
        created_at=membership.created_at,
        updated_at=membership.updated_at,
    )
