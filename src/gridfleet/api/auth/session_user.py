"""The session user, as returned by login, refresh and me.

It combines the account (identity), its organisations and the state of the sandbox ESM.
"""

from uuid import UUID

import msgspec

from gridfleet.api.http import Call
from gridfleet.domains.identity.models import Account, UserRole
from gridfleet.domains.organizations import membership
from gridfleet.domains.organizations.models import OwnOrganization, RoleName
from gridfleet.domains.sandbox_esm import access as sandbox
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import parse_uuid

__all__ = ["SessionUser", "SessionUserResponse", "asked_organization", "session_user"]


class SessionOrganization(msgspec.Struct, frozen=True, rename="camel"):
    """An organisation and the user's role in it."""

    id: UUID
    name: str
    role: RoleName
    slug: str
    time_zone: str


class FeatureFlags(msgspec.Struct, frozen=True, rename="camel"):
    """Features of the current organisation. `svcEsmEnabled` says whether the sandbox ESM is enabled."""

    svc_esm_enabled: bool


class SessionUser(msgspec.Struct, frozen=True, rename="camel"):
    """The logged-in user."""

    id: UUID
    email: str
    name: str
    role: UserRole
    is_super_admin: bool
    default_organization_id: UUID | None
    current_organization: SessionOrganization | None
    organizations: list[SessionOrganization]
    feature_flags: FeatureFlags


class SessionUserResponse(msgspec.Struct, frozen=True):
    """The response `{user}`."""

    user: SessionUser


def asked_organization(call: Call) -> UUID | None:
    """Return the organisation that the call names with `x-org-id`; None if the header is missing or is not a UUID."""
    return parse_uuid(call.headers.get("x-org-id", "").strip())


async def session_user(db: Connection, account: Account, asked: UUID | None = None) -> SessionUser:
    """Return the account with its organisations and the feature flags of the current one.

    The current organisation is the one `asked` for, if the user may act in it, else the default one, else the first joined.
    """
    own = await membership.organizations_of(db, account.id)
    default_id = account.default_organization_id
    preferred = [organization_id for organization_id in (asked, default_id) if organization_id is not None]
    current = await membership.current_organization(db, own, preferred, is_super_admin=account.is_super_admin)
    return SessionUser(
        id=account.id,
        email=account.email,
        name=account.name,
        role=account.role,
        is_super_admin=account.is_super_admin,
        default_organization_id=default_id,
        current_organization=_shown(current) if current else None,
        organizations=[_shown(organization) for organization in own],
        feature_flags=FeatureFlags(svc_esm_enabled=current is not None and await sandbox.is_enabled(db, current.id)),
    )


def _shown(organization: OwnOrganization) -> SessionOrganization:
    role = RoleName(organization.role.name)
    return SessionOrganization(organization.id, organization.name, role, organization.slug, organization.time_zone)
