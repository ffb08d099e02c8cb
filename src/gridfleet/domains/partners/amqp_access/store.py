"""SQL for the broker's requests about partners."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from gridfleet.kernel.addresses import IPNetwork
from gridfleet.kernel.db import Connection


class BrokerKey(NamedTuple):
    """The fields of a key that the broker's requests need, in any state. `slug` is its organisation's."""

    id: UUID
    organization_id: UUID
    slug: str
    vhost: str
    scopes: list[str]
    allowed_ips: list[IPNetwork]
    expires_at: datetime | None
    revoked_at: datetime | None
    is_proven: bool
    is_known_at_broker: bool
    """Whether the key has connected to the broker before."""


_ASKED = (
    "SELECT k.id, k.organization_id, o.slug, k.vhost, k.scopes, k.allowed_ips, k.expires_at, k.revoked_at,"
    " k.activated_at IS NOT NULL AS is_proven, k.connected_at IS NOT NULL AS is_known_at_broker"
    " FROM partner_key k JOIN organization o ON o.id = k.organization_id"
)


async def find(db: Connection, digest: bytes) -> BrokerKey | None:
    """Return the key with this digest in any state, or None."""
    cursor = db.cursor(row_factory=class_row(BrokerKey))
    await cursor.execute(f"{_ASKED} WHERE k.key_hash = %s", (digest,))
    return await cursor.fetchone()


async def find_by_id(db: Connection, key_id: UUID) -> BrokerKey | None:
    """Return the key with this id in any state, or None."""
    cursor = db.cursor(row_factory=class_row(BrokerKey))
    await cursor.execute(f"{_ASKED} WHERE k.id = %s", (key_id,))
    return await cursor.fetchone()


async def note_connection(db: Connection, key_id: UUID) -> bool:
    """Record the key's first connection to the broker. Returns False if one was recorded before."""
    cursor = await db.execute("UPDATE partner_key SET connected_at = now() WHERE id = %s AND connected_at IS NULL", (key_id,))
    return cursor.rowcount == 1
