"""Changes of the own account that need no mail: name, phone, default organisation."""

from typing import Final
from uuid import UUID

from gridfleet.domains.identity.accounts import store
from gridfleet.kernel.db import Connection

__all__ = ["PHONE_PATTERN", "change_phone", "clear_default_organization", "rename", "start_in", "start_in_first"]


PHONE_PATTERN: Final = r"^\+[1-9][0-9]{6,14}$"
"""A phone number in ITU-T E.164 format."""


async def rename(db: Connection, user_id: UUID, name: str) -> None:
    """Set a user's name."""
    await store.set_name(db, user_id, name)


async def change_phone(db: Connection, user_id: UUID, phone: str | None) -> None:
    """Set the number for a user's text messages; None for no messages."""
    await store.set_phone(db, user_id, phone)


async def start_in(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Set a user's default organisation. The caller has checked the right to it."""
    await store.set_default_organization(db, user_id, organization_id)


async def start_in_first(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Set a user's default organisation if they have none."""
    await store.set_first_default_organization(db, user_id, organization_id)


async def clear_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Clear a user's default organisation if it is this one."""
    await store.clear_default_organization(db, user_id, organization_id)
