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

__all__ = ["correct_due", "list_deliveries", "list_own_deliveries", "trim_deliveries"]

_KEPT: Final = timedelta(days=90)
_LONGEST_WAIT: Final = timedelta(minutes=20)
"""Above the time between two tries, at most ten minutes, and that until a receipt is queried, a quarter of an hour."""
_LONGEST_QUIET: Final = timedelta(hours=28)
"""Above the longest quiet hours, a day, and the time by which clocks may be set back in them."""


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


async def correct_due(db: Connection) -> int:
    """Make deliveries and receipts due whose due time a clock that was ahead has written. Returns how many.

    They are due later than any try, receipt or end of quiet hours. A user who has quiet hours now gets a delivery after these:
    it is delayed again when it is claimed.
    """
    deliveries = await store.correct_due(db, _LONGEST_WAIT, _LONGEST_QUIET)
    return deliveries + await store.correct_receipts_due(db, _LONGEST_WAIT)
