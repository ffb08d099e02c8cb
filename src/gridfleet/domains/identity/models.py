"""Accounts and sessions."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

__all__ = ["Account", "Client", "OpenedSession", "UserRole"]


class UserRole(StrEnum):
    """The global role, apart from those in organisations."""

    ADMIN = "ADMIN"
    USER = "USER"


class Account(msgspec.Struct, frozen=True):
    """A person's account without its password."""

    id: UUID
    email: str
    name: str
    is_super_admin: bool
    default_organization_id: UUID | None
    token_version: int

    @property
    def role(self) -> UserRole:
        """ADMIN for SuperAdmins, USER for everybody else."""
        return UserRole.ADMIN if self.is_super_admin else UserRole.USER


class Client(msgspec.Struct, frozen=True):
    """Where a session is opened from, kept for its owner to recognise it."""

    ip: str
    user_agent: str | None


class OpenedSession(msgspec.Struct, frozen=True):
    """What a person gets at login and at each refresh. Both tokens exist in clear only here."""

    account: Account
    access_token: str
    refresh_token: str
    refresh_expires_at: datetime
