"""Read, acknowledge and resolve alerts."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace
from psycopg.errors import LockNotAvailable

from gridfleet.domains.alerts import store
from gridfleet.domains.alerts.errors import AlertNotFound
from gridfleet.domains.alerts.listing import store as listing
from gridfleet.domains.alerts.models import (
    Alert,
    AlertCounts,
    AlertFilter,
    AlertOutcome,
    AlertResult,
    AlertStatus,
    Severity,
    SeverityCounts,
)
from gridfleet.domains.alerts.publishing import publish_changes
from gridfleet.domains.alerts.states import store as states
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_all_in
from gridfleet.domains.organizations.actors import actor_names
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page, Paging

__all__ = [
    "acknowledge",
    "acknowledge_many",
    "count_alerts",
    "find_alerts",
    "get_alert",
    "list_alerts",
    "open_alerts_of",
    "resolve",
    "resolve_many",
]

_MOST_OF_PLANT: Final = 100
_TRIES: Final = 100
_PAUSE_SECONDS: Final = 0.05


async def list_alerts(db: Connection, org: OrgScope, which: AlertFilter, paging: Paging) -> Page[Alert]:
    """Return one page of the organisation's alerts, newest first."""
    alerts = await _with_names(db, org, await listing.page(db, org, which, paging))
    return Page.of(alerts, await listing.count(db, org, which), paging)


async def count_alerts(db: Connection, org: OrgScope, which: AlertFilter) -> AlertCounts:
    """Return the numbers of the organisation's alerts by status and severity."""
    found = await listing.counts(db, org, which)

    def of(status: AlertStatus) -> SeverityCounts:
        return SeverityCounts(*(found.get((status, severity), 0) for severity in Severity))

    return AlertCounts(of(AlertStatus.ACTIVE), of(AlertStatus.ACKNOWLEDGED), of(AlertStatus.RESOLVED))


async def get_alert(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Return one alert.

    Raises:
        AlertNotFound: There is no such alert.
    """
    alerts = await listing.find_many(db, org, [alert_id])
    if not alerts:
        raise AlertNotFound
    [alert] = await _with_names(db, org, alerts)
    return alert


async def find_alerts(db: Connection, org: OrgScope, alert_ids: Sequence[UUID]) -> list[Alert]:
    """Return those of the alerts that exist and that the caller may see, oldest first."""
    alerts = await _with_names(db, org, await listing.find_many(db, org, alert_ids))
    return sorted(alerts, key=lambda alert: (alert.created_at, alert.id))


async def open_alerts_of(db: Connection, org: OrgScope, plant_id: UUID) -> list[Alert]:
    """Return a plant's newest 100 alerts that are not resolved."""
    return await _with_names(db, org, await listing.open_of_plant(db, org, plant_id, _MOST_OF_PLANT))


async def acknowledge(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Acknowledge an alert and return it. A second call changes nothing.

    Raises:
        AlertNotFound: There is no such alert.
    """
    await acknowledge_many(db, org, [alert_id])
    return await get_alert(db, org, alert_id)


async def resolve(db: Connection, org: OrgScope, alert_id: UUID) -> Alert:
    """Resolve an alert, acknowledge it if it was not, and return it. A second call changes nothing.

    Raises:
        AlertNotFound: There is no such alert.
    """
    await resolve_many(db, org, [alert_id])
    return await get_alert(db, org, alert_id)


async def acknowledge_many(db: Connection, org: OrgScope, alert_ids: Iterable[UUID]) -> list[AlertResult]:
    """Acknowledge alerts. Returns the outcome for each id, in their order and without repetitions."""
    wanted = list(dict.fromkeys(alert_ids))
    changed = await store.acknowledge(db, org, wanted, _who(org))
    await _announce(db, org, Event.ALERT_ACKNOWLEDGED, changed)
    return await _results(db, org, wanted, changed)


async def resolve_many(db: Connection, org: OrgScope, alert_ids: Iterable[UUID]) -> list[AlertResult]:
    """Resolve alerts, and acknowledge those that were not. Returns the outcome for each id, as `acknowledge_many`.

    Raises:
        psycopg.errors.LockNotAvailable: Others have changed states of these alerts for five seconds.
    """
    wanted = list(dict.fromkeys(alert_ids))
    changed = await store.resolve(db, org, wanted, _who(org))
    await _announce(db, org, Event.ALERT_RESOLVED, changed)
    if changed:
        await _clear_states(db, org, list(changed))
    return await _results(db, org, wanted, changed)


async def _announce(db: Connection, org: OrgScope, event: Event, changed: Mapping[UUID, UUID]) -> None:
    await publish_changes(db, list(changed))
    subjects = [Subject(SubjectType.ALERT, alert_id, plant_id) for alert_id, plant_id in changed.items()]
    await record_all_in(db, org, event, [(subject, {}) for subject in subjects])


async def _clear_states(db: Connection, org: OrgScope, alert_ids: Sequence[UUID]) -> None:
    # Ingest processes of the previous release lock states in any order, with several statements. Waiting for one of them with
    # others locked could end in a deadlock, so all are locked at once or none.
    for remaining in reversed(range(_TRIES)):
        try:
            async with db.transaction():
                await states.clear_states_of_alerts(db, org, alert_ids)
            return
        except LockNotAvailable:
            if not remaining:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)


async def _results(db: Connection, org: OrgScope, wanted: Sequence[UUID], changed: Collection[UUID]) -> list[AlertResult]:
    found = {alert.id: alert.status for alert in await listing.find_many(db, org, wanted)}

    def outcome(alert_id: UUID) -> AlertOutcome:
        if alert_id in changed:
            return AlertOutcome.CHANGED
        return AlertOutcome.UNCHANGED if alert_id in found else AlertOutcome.NOT_FOUND

    return [AlertResult(alert_id, outcome(alert_id), found.get(alert_id)) for alert_id in wanted]


async def _with_names(db: Connection, org: OrgScope, alerts: Sequence[Alert]) -> list[Alert]:
    names = await actor_names(db, org, [alert.acknowledged_by for alert in alerts])
    return [replace(alert, acknowledged_by_name=names.get(alert.acknowledged_by)) for alert in alerts]


def _who(org: OrgScope) -> str:
    return org.actor.as_actor.id or ""
