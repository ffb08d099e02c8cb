"""Who calls, and in which organisation: values that only authorisation creates.

A store that reads or writes tenant data takes an `OrgScope`; nothing else yields an organisation id to SQL, so a
query without its organisation cannot be written by accident.
"""

from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

__all__ = ["OrgRole", "OrgScope", "SystemScope", "UserCaller"]


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


@dataclass(frozen=True, slots=True)
class OrgScope:
    """The right to act in one organisation with a role. Made by the HTTP edge's organisation guard only.

    `plant_ids` limits an API key to some plants; None means all of the organisation's.
    """

    organization_id: UUID
    role: OrgRole
    actor: UserCaller
    plant_ids: frozenset[UUID] | None = None


@dataclass(frozen=True, slots=True)
class SystemScope:
    """The service's own right to act across organisations: broker questions, ingest, jobs. Never made by `api`."""

    reason: str
