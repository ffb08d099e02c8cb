"""Records of organisations, memberships and a user's own organisations."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.identity.models import User
from gridfleet.kernel.caller import OrgRole

__all__ = ["Member", "MemberFilter", "Organization", "OrganizationRole", "OwnOrganization", "RoleName"]


class RoleName(StrEnum):
    """Organisation roles as the API writes them."""

    ORG_ADMIN = "ORG_ADMIN"
    OPERATOR = "OPERATOR"
    VIEWER = "VIEWER"


class OrganizationRole(NamedTuple):
    """A user's role in an organisation that exists; None if the user is not a member."""

    role: OrgRole | None


class MemberFilter(NamedTuple):
    """A filter of members: `text` is part of the user's name or e-mail address. None selects all."""

    text: str | None = None
    role: RoleName | None = None


class Organization(msgspec.Struct, frozen=True, rename="camel"):
    """A tenant. `time_zone` is the IANA name for plants that have none of their own."""

    id: UUID
    name: str
    slug: str
    description: str | None
    time_zone: str
    created_at: datetime
    updated_at: datetime


class OwnOrganization(msgspec.Struct, frozen=True):
    """An organisation with the role that a user has in it."""

    id: UUID
    name: str
    role: OrgRole
    slug: str
    time_zone: str


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """A user's membership in an organisation."""

    id: UUID
    organization_id: UUID
    user_id: UUID
    role: RoleName
    user: User
    created_at: datetime
    updated_at: datetime
