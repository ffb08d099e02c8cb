"""What is kept of a plant's credentials, encrypted, and what of it for a while only: packages after provisioning, secrets
after their rotation."""

from typing import Final

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.encrypted import EncryptedTable

__all__ = ["PLANT_SECRETS", "forget_old_packages", "forget_previous_secrets"]

PLANT_SECRETS: Final = EncryptedTable("plant_secret", ("plant_id",), ("hmac_secret", "previous_hmac_secret", "package"))
"""What is encrypted of them."""


async def forget_old_packages(db: Connection, system: SystemScope) -> int:
    """Clears packages that may no longer be downloaded; answers how many."""
    return await store.forget_old_packages(db, system)


async def forget_previous_secrets(db: Connection, system: SystemScope) -> int:
    """Clears replaced secrets that verify no more; answers how many."""
    return await store.forget_previous_secrets(db, system)
