"""Accounts and sessions."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gridfleet.kernel.caller import UserCaller

__all__ = ["Account", "Client", "LiveSession", "OpenedSession", "SessionInfo", "User", "UserRole"]


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


class User(msgspec.Struct, frozen=True, rename="camel"):
    """An account as others see it (spec, User record)."""

    id: UUID
    email: str
    name: str
    role: UserRole
    created_at: datetime
    updated_at: datetime


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


class LiveSession(msgspec.Struct, frozen=True):
    """A session that lives: its owner, the token version that its access tokens must name, and the moment it ends by itself."""

    caller: UserCaller
    token_version: int
    expires_at: datetime


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A session as its owner sees it; `current` is the one that asks."""

    id: UUID
    ip: str | None
    user_agent: str | None
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    current: bool
