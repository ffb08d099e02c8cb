"""Changes of the own account that need no mail: name, phone, default organisation."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from gridfleet.domains.audit.models import Event, Subject
from gridfleet.domains.audit.recorder import record
from gridfleet.domains.identity.accounts import store
from gridfleet.kernel.caller import UserCaller
from gridfleet.kernel.db import Connection

__all__ = [
    "PHONE_PATTERN",
    "change_phone",
    "clear_default_organization",
    "rename",
    "set_default_organization",
    "set_first_default_organization",
]


PHONE_PATTERN: Final = r"^\+[1-9][0-9]{6,14}$"
"""A phone number in ITU-T E.164 format."""


async def rename(db: Connection, caller: UserCaller, name: str) -> None:
    """Set the caller's name."""
    if await store.set_name(db, caller.user_id, name):
        await _record(db, Event.USER_PROFILE_CHANGED, caller, {"changed": "name"})


async def change_phone(db: Connection, caller: UserCaller, phone: str | None) -> None:
    """Set the number for the caller's text messages; None for no messages."""
    if await store.set_phone(db, caller.user_id, phone):
        await _record(db, Event.USER_PROFILE_CHANGED, caller, {"changed": "phone"})


async def set_default_organization(db: Connection, caller: UserCaller, organization_id: UUID) -> None:
    """Set the caller's default organisation, to which they have the right."""
    if not await store.set_default_organization(db, caller.user_id, organization_id):
        return
    await _record(db, Event.USER_DEFAULT_ORGANIZATION_CHANGED, caller, {"organizationId": str(organization_id)})


async def _record(db: Connection, event: Event, caller: UserCaller, details: Mapping[str, str]) -> None:
    await record(db, event, caller.as_actor, Subject.user(caller.user_id), details=details)


async def set_first_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Set a user's default organisation if they have none."""
    await store.set_first_default_organization(db, user_id, organization_id)


async def clear_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Clear a user's default organisation if it is this one."""
    await store.clear_default_organization(db, user_id, organization_id)
