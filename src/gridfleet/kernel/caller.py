"""Who calls, and in which organisation: values that only authorisation creates.

A store that reads or writes tenant data takes an `OrgScope`; nothing else yields an organisation id to SQL, so a
query without its organisation cannot be written by accident.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from uuid import UUID

from gridfleet.kernel.errors import Forbidden

__all__ = ["Actor", "ActorType", "Caller", "KeyCaller", "OrgRole", "OrgScope", "PlatformScope", "SystemScope", "UserCaller"]


class ActorType(StrEnum):
    """What kind of somebody acts."""

    USER = "USER"
    API_KEY = "API_KEY"
    SYSTEM = "SYSTEM"
    ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts and from where, as audit events name them. `id` is None for nobody known."""

    type: ActorType
    id: str | None = None
    ip: str | None = None


class OrgRole(IntEnum):
    """Organisation roles, each including those below it."""

    VIEWER = 1
    OPERATOR = 2
    ORG_ADMIN = 3


@dataclass(frozen=True, slots=True)
class UserCaller:
    """A person with a valid session."""

    user_id: UUID
    session_id: UUID
    email: str
    name: str
    is_super_admin: bool
    default_organization_id: UUID | None
    ip: str | None = None
    """Address that this call comes from."""

    @property
    def id(self) -> UUID:
        """Unlike every other caller's."""
        return self.user_id

    @property
    def as_actor(self) -> Actor:
        """The person as an audit event's actor."""
        return Actor(ActorType.USER, str(self.user_id), self.ip)


@dataclass(frozen=True, slots=True)
class KeyCaller:
    """A partner's program with a valid API key: it acts in the key's own organisation alone. `plant_ids` as in `OrgScope`."""

    key_id: UUID
    organization_id: UUID
    scopes: frozenset[str]
    plant_ids: frozenset[UUID] | None
    ip: str | None = None
    """Address that this call comes from."""

    @property
    def id(self) -> UUID:
        """Unlike every other caller's."""
        return self.key_id

    @property
    def is_super_admin(self) -> bool:
        """No key is."""
        return False

    @property
    def as_actor(self) -> Actor:
        """The key as an audit event's actor."""
        return Actor(ActorType.API_KEY, str(self.key_id), self.ip)


Caller = UserCaller | KeyCaller
"""Whoever is known."""


@dataclass(frozen=True, slots=True)
class OrgScope:
    """The right to act in one organisation with a role. Made by the HTTP edge's organisation guard only.

    `plant_ids` limits an API key to some plants; None means all of the organisation's.
    """

    organization_id: UUID
    role: OrgRole
    actor: Caller
    plant_ids: frozenset[UUID] | None = None

    @property
    def person(self) -> UserCaller:
        """The actor of what no key may do. Raises Forbidden."""
        if not isinstance(self.actor, UserCaller):
            raise Forbidden
        return self.actor


@dataclass(frozen=True, slots=True)
class PlatformScope:
    """A SuperAdmin's right to read across organisations. Made by the HTTP edge's organisation guard only."""

    actor: UserCaller


@dataclass(frozen=True, slots=True)
class SystemScope:
    """The service's own right to act across organisations: broker questions, ingest, jobs. Never made by `api`."""

    reason: str
