"""Read, acknowledge and resolve alerts."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from gridfleet.domains.alerts import store
from gridfleet.domains.alerts.errors import AlertNotFound
from gridfleet.domains.alerts.models import Alert, AlertFilter
from gridfleet.domains.alerts.publishing import publish_changes
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["acknowledge", "find_alerts", "get_alert", "list_alerts", "open_alerts_of", "resolve"]

_MOST_OF_PLANT: Final = 100


async def list_alerts(db: Connection, org: OrgScope, which: AlertFilter, paging: Paging) -> Page[Alert]:
    """Return one page of the organisation's alerts, newest first."""
    return Page.of(await store.page(db, org, which, paging), await store.count(db, org, which), paging)


async def get_alert(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Return one alert.

    Raises:
        AlertNotFound: There is no such alert.
    """
    alert = await store.find(db, org, alert_id)
    if alert is None:
        raise AlertNotFound
    return alert


async def find_alerts(db: Connection, org: OrgScope, alert_ids: Sequence[UUID]) -> list[Alert]:
    """Return those of the alerts that exist and that the caller may see."""
    return await store.find_many(db, org, alert_ids)


async def open_alerts_of(db: Connection, org: OrgScope, plant_id: UUID) -> list[Alert]:
    """Return a plant's newest 100 alerts that are not resolved."""
    return await store.open_of_plant(db, org, plant_id, _MOST_OF_PLANT)


async def acknowledge(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Acknowledge an alert and return it. A second call changes nothing.

    Raises:
        AlertNotFound: There is no such alert.
    """
    alert = await store.acknowledge(db, org, alert_id, _who(org))
    if alert is None:
        return await get_alert(db, org, alert_id)
    await publish_changes(db, [alert_id])
    await record_in(db, org, Event.ALERT_ACKNOWLEDGED, Subject(SubjectType.ALERT, alert_id, alert.plant_id))
    return alert


async def resolve(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Resolve an alert, acknowledge it if it was not, and return it. A second call changes nothing.

    Raises:
        AlertNotFound: There is no such alert.
    """
    alert = await store.resolve(db, org, alert_id, _who(org))
    if alert is None:
        return await get_alert(db, org, alert_id)
    await publish_changes(db, [alert_id])
    await store.clear_state_of_alert(db, org, alert_id)
    await record_in(db, org, Event.ALERT_RESOLVED, Subject(SubjectType.ALERT, alert_id, alert.plant_id))
    return alert


def _who(org: OrgScope) -> str:
    return org.actor.as_actor.id or ""
