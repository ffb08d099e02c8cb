"""Events to partners about alerts."""

from collections.abc import Sequence
from uuid import UUID

from gridfleet.domains.alerts import store
from gridfleet.domains.partner_events.changes import publish_alert_changes
from gridfleet.kernel.db import Connection

__all__ = ["publish_changes"]


async def publish_changes(db: Connection, alert_ids: Sequence[UUID]) -> None:
    """Publish the status that each of these alerts has just got, in the transaction of the change."""
    if alert_ids:
        await publish_alert_changes(db, await store.changes(db, alert_ids))
