"""The log of deliveries."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.listing import store as listing
from gridfleet.domains.notifications.models import DeliveryFilter, NotificationLog
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.batches import in_batches
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["list_deliveries", "list_own_deliveries", "trim_deliveries"]

_KEPT: Final = timedelta(days=90)


async def list_deliveries(db: Connection, paging: Paging) -> Page[NotificationLog]:
    """Return one page of all users' deliveries, newest first; for SuperAdmins."""
    return Page.of(await listing.page(db, paging), await listing.count(db), paging)


async def list_own_deliveries(db: Connection, user_id: UUID, wanted: DeliveryFilter, paging: Paging) -> Page[NotificationLog]:
    """Return one page of a user's deliveries that match, newest first."""
    found = await listing.page_of_user(db, user_id, wanted, paging)
    return Page.of(found, await listing.count_of_user(db, user_id, wanted), paging)


async def trim_deliveries(database: Database) -> int:
    """Delete finished deliveries that are older than 90 days, in short transactions. Returns how many."""
    return await in_batches(database, lambda db, limit: store.trim(db, _KEPT, limit))
