"""Records of invitations."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.organizations.models import RoleName

__all__ = ["Acceptance", "Invitation", "InvitationStatus", "ListedInvitation"]


class InvitationStatus(StrEnum):
    """State of an invitation.

    An ACCEPTED one may still wait for its registration, and can be revoked until then. EXPIRED and REVOKED are final. A pending
    one past its expiry is shown as EXPIRED.
    """

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    EXPIRED = "EXPIRED"
    REVOKED = "REVOKED"


class Invitation(msgspec.Struct, frozen=True, rename="camel"):
    """An invitation as the organisation sees it, without its token."""

    id: UUID
    organization_id: UUID
    email: str
    role: RoleName
    status: InvitationStatus
    invited_by: str
    expires_at: datetime
    accepted_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ListedInvitation(Invitation, frozen=True, rename="camel"):
    """An invitation in a list. It can be revoked until it expires or, at `joined_at`, creates a membership."""

    joined_at: datetime | None


class Acceptance(NamedTuple):
    """The result of an opened link. `joined` says that the address had an account, which is a member now."""

    joined: bool
