"""Access of API keys to the REST API, and the record of their last use."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.partners import store
from gridfleet.domains.partners.models import LiveKey
from gridfleet.kernel.addresses import is_within
from gridfleet.kernel.caller import KeyCaller, OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["NOTED_EVERY", "admits", "find_live", "note_use", "scope_of"]

NOTED_EVERY: Final = timedelta(minutes=1)
"""The resolution of `lastUsedAt`."""


async def find_live(db: Connection, digest: bytes) -> LiveKey | None:
    """Return the key with this digest; None if it was revoked or has expired."""
    return await store.find_live(db, digest)


def admits(key: LiveKey, ip: str) -> bool:
    """Return whether the key is valid now for a caller at this address."""
    return (key.expires_at is None or utc_now() < key.expires_at) and (not key.networks or is_within(ip, key.networks))


def scope_of(program: KeyCaller, role: OrgRole) -> OrgScope:
    """Return the key's scope in its own organisation with `role`, limited to the plants that it allows."""
    return OrgScope(program.organization_id, role, program, program.plant_ids)


async def note_use(db: Connection, key_id: UUID) -> None:
    """Update `lastUsedAt` of a live key."""
    await store.note_use(db, key_id, NOTED_EVERY)
