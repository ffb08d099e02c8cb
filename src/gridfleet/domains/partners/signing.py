"""The keys that partners use at the broker, in the form that the gateway needs.

The database notifies `partner_key_changed`, with the key's id, when a key is created, revoked, changed or expires.
"""

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from gridfleet.domains.partners.broker_keys import store
from gridfleet.domains.partners.models import AmqpKey, SendingKey
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["KEY_CHANGED", "SIGNING_KEYS", "list_amqp_keys", "load_sending_key"]

KEY_CHANGED: Final = "partner_key_changed"

SIGNING_KEYS: Final = EncryptedTable("partner_key", ("id",), ("signing_key",))
"""The encrypted columns of keys."""


async def load_sending_key(db: Connection, keyring: Keyring, key_id: UUID) -> SendingKey | None:
    """Return the key with its signing key; None if it is unknown, revoked, expired, or may not use the broker."""
    found = await store.find_sending(db, key_id)
    if found is None:
        return None
    if found.signing_key is None or found.key_version is None:
        return SendingKey(found.key, None)
    opened = keyring.decrypt(
        found.signing_key, found.key_version, table="partner_key", column="signing_key", row_id=found.key.id
    )
    return SendingKey(found.key, opened)


async def list_amqp_keys(db: Connection, organization_ids: Collection[UUID], known: Mapping[UUID, AmqpKey]) -> list[AmqpKey]:
    """Return the active keys of these organisations that may use the broker, oldest first.

    Args:
        known: Keys that were read before, by id. Their plants never change, and are not read again.
    """
    return await store.list_amqp_of_many(db, organization_ids, known)
