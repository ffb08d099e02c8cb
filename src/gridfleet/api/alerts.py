"""`/api/v1/alerts`: alerts of rules, their numbers, and their acknowledgement and resolution by users."""

from typing import Annotated
from uuid import UUID

import msgspec
from pydantic import Field

from gridfleet.api.http import Input, PageQuery, S, SpanQuery, endpoint, org_member
from gridfleet.domains.alerts import actions
from gridfleet.domains.alerts.models import Alert, AlertCounts, AlertFilter, AlertResult, AlertStatus, Severity
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page

_ONE = ("INVALID_UUID", "NOT_FOUND", *S)


class CountQuery(SpanQuery):
    """Filter of alerts by plant and time of raising: `from` inclusive, `to` exclusive."""

    plant_id: UUID | None = None


class AlertQuery(PageQuery, CountQuery):
    """Filter of alerts by plant, states, severities and time of raising: `from` inclusive, `to` exclusive."""

    status: Annotated[list[AlertStatus], Field(max_length=len(AlertStatus))] = []
    severity: Annotated[list[Severity], Field(max_length=len(Severity))] = []


class ChosenAlerts(Input):
    """The alerts to change."""

    alert_ids: Annotated[list[UUID], Field(min_length=1, max_length=500)]


class AlertResults(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome for each alert, in the order of the request and without repetitions."""

    results: list[AlertResult]


@endpoint("GET", "/api/v1/alerts", caller=org_member(OrgRole.VIEWER, scope="telemetry:read"), codes=("VALIDATION_ERROR", *S))
async def list_alerts(org: OrgScope, db: Connection, query: AlertQuery) -> Page[Alert]:
    """List the organisation's alerts, newest first."""
    which = AlertFilter(query.plant_id, frozenset(query.status), frozenset(query.severity), query.since, query.until)
    return await actions.list_alerts(db, org, which, query.paging)


@endpoint(
    "GET",
    "/api/v1/alerts/counts",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
    kept_seconds=5,
)
async def count_alerts(org: OrgScope, db: Connection, query: CountQuery) -> AlertCounts:
    """Count the organisation's alerts by status and severity. The numbers may be 5 s old."""
    return await actions.count_alerts(db, org, AlertFilter(query.plant_id, since=query.since, until=query.until))


@endpoint(
    "POST",
    "/api/v1/alerts/acknowledge",
    caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
    once=True,
)
async def acknowledge_alerts(org: OrgScope, db: Connection, body: ChosenAlerts) -> AlertResults:
    """Acknowledge up to 500 alerts in one transaction.

    Alerts that are not ACTIVE stay as they are, and unknown ids do not affect the others: each alert has its own outcome.
    """
    return AlertResults(await actions.acknowledge_many(db, org, body.alert_ids))


@endpoint(
    "POST",
    "/api/v1/alerts/resolve",
    caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
    once=True,
)
async def resolve_alerts(org: OrgScope, db: Connection, body: ChosenAlerts) -> AlertResults:
    """Resolve up to 500 alerts in one transaction, and acknowledge those that were not acknowledged.

    Alerts that are resolved stay as they are, and unknown ids do not affect the others: each alert has its own outcome.
    """
    return AlertResults(await actions.resolve_many(db, org, body.alert_ids))


@endpoint("GET", "/api/v1/alerts/{id}", caller=org_member(OrgRole.VIEWER, scope="telemetry:read"), codes=_ONE)
async def get_alert(org: OrgScope, db: Connection, id: UUID) -> Alert:
    """Return one alert."""
    return await actions.get_alert(db, org, id)


@endpoint("PATCH", "/api/v1/alerts/{id}/acknowledge", caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"), codes=_ONE)
async def acknowledge_alert(org: OrgScope, db: Connection, id: UUID) -> Alert:
    """Acknowledge an alert. Repeated calls change nothing."""
    return await actions.acknowledge(db, org, id)


@endpoint("PATCH", "/api/v1/alerts/{id}/resolve", caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"), codes=_ONE)
async def resolve_alert(org: OrgScope, db: Connection, id: UUID) -> Alert:
    """Resolve an alert, and acknowledge it if that has not happened. Repeated calls change nothing."""
    return await actions.resolve(db, org, id)
