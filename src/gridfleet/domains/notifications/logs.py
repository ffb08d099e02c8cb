"""The log of deliveries."""

from datetime import timedelta
from typing import Final

from gridfleet.domains.notifications import store
from gridfleet.domains.notifications.models import NotificationLog
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["list_deliveries", "trim_deliveries"]

_KEPT: Final = timedelta(days=90)


async def list_deliveries(db: Connection, paging: Paging) -> Page[NotificationLog]:
    """Return one page of all users' deliveries, newest first; for SuperAdmins."""
    return Page.of(await store.page(db, paging), await store.count(db), paging)


async def trim_deliveries(db: Connection) -> None:
    """Delete finished deliveries that are older than 90 days."""
    await store.trim(db, _KEPT)
