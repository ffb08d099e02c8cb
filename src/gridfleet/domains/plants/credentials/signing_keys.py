"""The keys a plant's messages are verified with."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["SigningKeys", "load_signing_keys"]


class SigningKeys(NamedTuple):
    """The current key, and during the hour after a rotation the one before it."""

    current: bytes
    previous: bytes | None
    previous_valid_until: datetime | None


async def load_signing_keys(
    db: Connection, system: SystemScope, keyring: Keyring, plant_ids: Iterable[UUID]
) -> dict[UUID, SigningKeys]:
    """Keys by plant; plants without secrets are left out."""

    def decrypt(row: store.SecretRow, column: str, blob: bytes) -> bytes:
        return keyring.decrypt(blob, row.key_version, table="plant_secret", column=column, row_id=row.plant_id)

    return {
        row.plant_id: SigningKeys(
            decrypt(row, "hmac_secret", row.hmac_secret),
            None if row.previous_hmac_secret is None else decrypt(row, "previous_hmac_secret", row.previous_hmac_secret),
            row.previous_valid_until,
        )
        for row in await store.find_many(db, system, plant_ids)
    }
