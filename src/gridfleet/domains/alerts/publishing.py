"""Events to partners about alerts."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from gridfleet.domains.alerts import store
from gridfleet.domains.partner_events.changes import publish_alert_changes
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Connection

__all__ = ["publish_changes"]

_SYSTEM: Final = SystemScope("partners receive the alerts of plants")


async def publish_changes(db: Connection, alert_ids: Sequence[UUID]) -> None:
    """Publish the status that each of these alerts has just got, in the transaction of the change."""
    if alert_ids:
        await publish_alert_changes(db, await store.changes(db, _SYSTEM, alert_ids))
