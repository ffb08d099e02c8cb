"""Records of accounts and sessions."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec

from gridfleet.kernel.caller import UserCaller

__all__ = ["Account", "Client", "LiveSession", "OpenedSession", "SessionInfo", "User", "UserFilter", "UserRole"]


class UserRole(StrEnum):
    """The global role, separate from the roles in organisations."""

    ADMIN = "ADMIN"
    USER = "USER"


class Account(msgspec.Struct, frozen=True):
    """A user's account without its password."""

    id: UUID
    email: str
    name: str
    is_super_admin: bool
    default_organization_id: UUID | None
    token_version: int

    @property
    def role(self) -> UserRole:
        """ADMIN for SuperAdmins, USER for all others."""
        return UserRole.ADMIN if self.is_super_admin else UserRole.USER


class User(msgspec.Struct, frozen=True, rename="camel"):
    """An account as other users see it (spec, User record). `disabled_at` is None while the user may log in."""

    id: UUID
    email: str
    name: str
    role: UserRole
    disabled_at: datetime | None
    created_at: datetime
    updated_at: datetime


class UserFilter(msgspec.Struct, frozen=True):
    """A filter of accounts: `text` is part of the name or the e-mail address. None selects all."""

    text: str | None = None
    role: UserRole | None = None
    is_disabled: bool | None = None


class Client(msgspec.Struct, frozen=True):
    """Where a session was opened, so that its owner can recognise it."""

    ip: str
    user_agent: str | None


class OpenedSession(msgspec.Struct, frozen=True):
    """The result of a login or refresh. Both tokens exist in plain text only here."""

    account: Account
    access_token: str
    refresh_token: str


class LiveSession(msgspec.Struct, frozen=True):
    """A live session: its owner, the token version that its access tokens must have, and the time at which it expires."""

    caller: UserCaller
    token_version: int
    expires_at: datetime


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """A session as its owner sees it. `current` is the session of the request."""

    id: UUID
    ip: str | None
    user_agent: str | None
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime
    current: bool
