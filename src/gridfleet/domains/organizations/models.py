"""Organisations, and how a person sees the own ones."""

from datetime import datetime
from uuid import UUID

import msgspec

from gridfleet.kernel.caller import OrgRole

__all__ = ["Organization", "OwnOrganization"]


class Organization(msgspec.Struct, frozen=True, rename="camel"):
    """A tenant."""

    id: UUID
    name: str
    slug: str
    description: str | None
    created_at: datetime
    updated_at: datetime


class OwnOrganization(msgspec.Struct, frozen=True):
    """An organisation with the role somebody has in it."""

    id: UUID
    name: str
    role: OrgRole
    slug: str
