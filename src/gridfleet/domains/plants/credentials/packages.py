"""What is kept for a while only: packages after provisioning, secrets after their rotation."""

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["forget_old_packages", "forget_previous_secrets"]


async def forget_old_packages(db: Connection, system: SystemScope) -> int:
    """Clears packages that may no longer be downloaded; answers how many."""
    return await store.forget_old_packages(db, system)


async def forget_previous_secrets(db: Connection, system: SystemScope) -> int:
    """Clears replaced secrets that verify no more; answers how many."""
    return await store.forget_previous_secrets(db, system)
