"""Encrypted credentials of plants, and the deletion of those with a limited lifetime: packages after provisioning, secrets
after a rotation.
"""

from typing import Final

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable

__all__ = ["PLANT_SECRETS", "forget_old_packages", "forget_previous_secrets"]

PLANT_SECRETS: Final = EncryptedTable("plant_secret", ("plant_id",), ("hmac_secret", "previous_hmac_secret", "package"))
"""The encrypted columns of the secrets."""


async def forget_old_packages(db: Connection) -> int:
    """Delete packages that may no longer be downloaded. Returns their number."""
    return await store.forget_old_packages(db)


async def forget_previous_secrets(db: Connection) -> int:
    """Delete replaced secrets that are no longer valid. Returns their number."""
    return await store.forget_previous_secrets(db)
