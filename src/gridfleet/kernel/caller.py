"""Callers and their scopes: values that only authorisation creates.

A store that reads or writes tenant data takes an `OrgScope`. No other value provides an organisation id for SQL, so a query
without its organisation cannot be written by accident. Functions that act beyond one organisation are listed, with
the reason, in `tests/architecture/test_tenancy.py`.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

from gridfleet.kernel.errors import Forbidden

__all__ = ["Actor", "ActorType", "Caller", "KeyCaller", "OrgRole", "OrgScope", "PlatformScope", "UserCaller"]


class ActorType(StrEnum):
    """Type of actor."""

    USER = "USER"
    API_KEY = "API_KEY"
    PLANT = "PLANT"
    SYSTEM = "SYSTEM"
    ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of an audit event and the address of the request. `id` is None for an unknown actor."""

    type: ActorType
    id: str | None = None
    ip: str | None = None


class OrgRole(IntEnum):
    """Organisation roles. Each role includes the lower ones."""

    VIEWER = 1
    OPERATOR = 2
    ORG_ADMIN = 3


@dataclass(frozen=True, slots=True)
class UserCaller:
    """A user with a valid session."""

    user_id: UUID
    session_id: UUID
    email: str
    name: str
    is_super_admin: bool
    default_organization_id: UUID | None
    ip: str | None = None
    """Address of the request."""

    @property
    def id(self) -> UUID:
        """Unique among all callers."""
        return self.user_id

    @property
    def as_actor(self) -> Actor:
        """Return the user as an audit event's actor."""
        return Actor(ActorType.USER, str(self.user_id), self.ip)


@dataclass(frozen=True, slots=True)
class KeyCaller:
    """A partner's program with a valid API key. It acts in the key's organisation only. `plant_ids` as in `OrgScope`."""

    key_id: UUID
    organization_id: UUID
    scopes: frozenset[str]
    plant_ids: frozenset[UUID] | None
    ip: str | None = None
    """Address of the request."""

    @property
    def id(self) -> UUID:
        """Unique among all callers."""
        return self.key_id

    @property
    def is_super_admin(self) -> bool:
        """False: no key has this role."""
        return False

    @property
    def as_actor(self) -> Actor:
        """Return the key as an audit event's actor."""
        return Actor(ActorType.API_KEY, str(self.key_id), self.ip)


Caller = UserCaller | KeyCaller
"""An authenticated caller."""


@dataclass(frozen=True, slots=True)
class OrgScope:
    """The right to act in one organisation with a role. Created only by the organisation guard of the HTTP layer.

    `plant_ids` limits an API key to some plants; None means all plants of the organisation.
    """

    organization_id: UUID
    role: OrgRole
    actor: Caller
    plant_ids: frozenset[UUID] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters `org` and `plants` of statements."""
        return {"org": self.organization_id, "plants": None if self.plant_ids is None else list(self.plant_ids)}

    @property
    def person(self) -> UserCaller:
        """Return the caller of an action that API keys must not perform.

        Raises:
            Forbidden: The caller is an API key.
        """
        if not isinstance(self.actor, UserCaller):
            raise Forbidden
        return self.actor


@dataclass(frozen=True, slots=True)
class PlatformScope:
    """A SuperAdmin's right to read across organisations. Created only by the organisation guard of the HTTP layer."""

    actor: UserCaller
