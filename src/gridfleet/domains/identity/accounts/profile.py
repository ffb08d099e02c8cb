"""What people change about themselves without a mail: their name, their phone, the organisation they start in."""

from typing import Final
from uuid import UUID

from gridfleet.domains.identity.accounts import store
from gridfleet.kernel.db import Connection

__all__ = ["PHONE_PATTERN", "change_phone", "forget_default_organization", "rename", "start_in", "start_in_first"]


PHONE_PATTERN: Final = r"^\+[1-9][0-9]{6,14}$"
"""A number as ITU-T E.164 writes it."""


async def rename(db: Connection, user_id: UUID, name: str) -> None:
    """Gives somebody another name."""
    await store.set_name(db, user_id, name)


async def change_phone(db: Connection, user_id: UUID, phone: str | None) -> None:
    """Where somebody gets text messages; None: nowhere."""
    await store.set_phone(db, user_id, phone)


async def start_in(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """Chooses the organisation somebody starts in; whether he may is the caller's business."""
    await store.set_default_organization(db, user_id, organization_id)


async def start_in_first(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """The same for somebody who joins his first organisation; nothing when he has chosen one."""
    await store.set_first_default_organization(db, user_id, organization_id)


async def forget_default_organization(db: Connection, user_id: UUID, organization_id: UUID) -> None:
    """For somebody who leaves an organisation; nothing when he starts in another."""
    await store.clear_default_organization(db, user_id, organization_id)
