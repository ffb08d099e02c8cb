"""The keys that verify a plant's messages."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import structlog

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.db import Connection
from gridfleet.kernel.security.keyring import DecryptionFailed, Keyring, UnknownKeyVersion

__all__ = ["SigningKeys", "load_signing_keys"]

log = structlog.get_logger(__name__)


class SigningKeys(NamedTuple):
    """The current key, and the previous one during the hour after a rotation."""

    current: bytes
    previous: bytes | None
    previous_valid_until: datetime | None


async def load_signing_keys(db: Connection, keyring: Keyring, plant_ids: Iterable[UUID]) -> dict[UUID, SigningKeys | None]:
    """Return keys by plant; plants without secrets are left out.

    The value is None if the plant's secrets cannot be decrypted. This is logged, and the keys of other plants are still loaded.
    """

    def decrypt(row: store.SecretRow, column: str, blob: bytes) -> bytes:
        return keyring.decrypt(blob, row.key_version, table="plant_secret", column=column, row_id=row.plant_id)

    def keys_of(row: store.SecretRow) -> SigningKeys | None:
        try:
            current = decrypt(row, "hmac_secret", row.hmac_secret)
            blob = row.previous_hmac_secret
            previous = None if blob is None else decrypt(row, "previous_hmac_secret", blob)
        except (DecryptionFailed, UnknownKeyVersion) as error:
            log.error("cannot decrypt a plant's secret", plant_id=str(row.plant_id), error=str(error))
            return None
        return SigningKeys(current, previous, row.previous_valid_until)

    return {row.plant_id: keys_of(row) for row in await store.find_many(db, plant_ids)}
