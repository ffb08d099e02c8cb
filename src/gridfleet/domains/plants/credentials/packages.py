"""Packages are kept for a short while after provisioning, and no longer."""

from gridfleet.domains.plants.credentials import store
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["forget_old_packages"]


async def forget_old_packages(db: Connection, system: SystemScope) -> int:
    """Clears packages that may no longer be downloaded; answers how many."""
    return await store.forget_old_packages(db, system)
