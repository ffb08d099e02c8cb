"""All accounts, for SuperAdmins.

The responses combine accounts (identity) with their organisations.
"""

from typing import Annotated
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import SA, PageQuery, endpoint, super_admin
from gridfleet.domains.identity.accounts import disabling, registry
from gridfleet.domains.identity.models import User, UserFilter, UserRole
from gridfleet.domains.organizations import membership
from gridfleet.domains.organizations.invitations.registry import revoke_of
from gridfleet.domains.organizations.models import RoleName
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page


class UserQuery(PageQuery):
    """Filter of accounts, which all given parameters must match. `q` is a part of the name or the e-mail address."""

    q: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    role: UserRole | None = None
    disabled: bool | None = None


class ListedUser(User, frozen=True, rename="camel"):
    """An account in the list of all, with the number of organisations that the user is a member of."""

    organization_count: int


class UserOrganization(msgspec.Struct, frozen=True):
    """An organisation that a user is a member of."""

    id: UUID
    name: str
    role: RoleName
    slug: str


class UserWithOrganizations(User, frozen=True, rename="camel"):
    """An account with its organisations, in the order of joining."""

    organizations: list[UserOrganization]


_OF_USER = ("INVALID_UUID", "NOT_FOUND", *SA)


@endpoint("GET", "/api/v1/users", caller=super_admin(), codes=("VALIDATION_ERROR", *SA))
async def list_users(caller: UserCaller, db: Connection, query: UserQuery) -> Page[ListedUser]:
    """List all accounts, or those that match, newest first."""
    found = await registry.list_users(db, UserFilter(query.q, query.role, query.disabled), query.paging)
    counts = await membership.count_organizations(db, membership.everywhere(caller), [user.id for user in found.data])
    users = [ListedUser(**msgspec.structs.asdict(user), organization_count=counts.get(user.id, 0)) for user in found.data]
    return Page(users, found.meta)


@endpoint("GET", "/api/v1/users/{id}", caller=super_admin(), codes=_OF_USER)
async def get_user(db: Connection, id: UUID) -> UserWithOrganizations:
    """Return one account with its organisations."""
    user = await registry.get_user(db, id)
    own = await membership.organizations_of(db, id)
    organizations = [UserOrganization(one.id, one.name, RoleName(one.role.name), one.slug) for one in own]
    return UserWithOrganizations(**msgspec.structs.asdict(user), organizations=organizations)


@endpoint("POST", "/api/v1/users/{id}/disable", caller=super_admin(), codes=("FORBIDDEN", *_OF_USER), addition=True)
async def disable_user(caller: UserCaller, db: Connection, id: UUID) -> User:
    """Disable an account: its sessions, tokens and streams end immediately, and the user cannot log in.

    The user gets no notifications, and their open invitations are revoked. Memberships stay, and so do API keys that the user
    created, because they belong to their organisations. The last SuperAdmin that is enabled cannot be disabled. Disabling twice
    changes nothing.
    """
    disabled = await disabling.disable(db, caller, id)
    await revoke_of(db, membership.everywhere(caller), id)
    return disabled


@endpoint("POST", "/api/v1/users/{id}/enable", caller=super_admin(), codes=_OF_USER, addition=True)
async def enable_user(caller: UserCaller, db: Connection, id: UUID) -> User:
    """Enable a disabled account: the user can log in again with the same password."""
    return await disabling.enable(db, caller, id)
