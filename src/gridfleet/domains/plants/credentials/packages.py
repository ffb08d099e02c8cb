"""Encrypted credentials of plants, and the deletion of those with a limited lifetime: packages after provisioning, secrets
after a rotation.
"""

from typing import Final

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable

__all__ = ["PLANT_SECRETS", "delete_old_packages", "delete_previous_secrets"]

PLANT_SECRETS: Final = EncryptedTable("plant_secret", ("plant_id",), ("hmac_secret", "previous_hmac_secret", "package"))
"""The encrypted columns of the secrets."""


async def delete_old_packages(db: Connection) -> int:
    """Delete packages that may no longer be downloaded. Returns their number."""
    return await store.delete_old_packages(db)


async def delete_previous_secrets(db: Connection) -> int:
    """Delete replaced secrets that are no longer valid. Returns their number."""
    return await store.delete_previous_secrets(db)
