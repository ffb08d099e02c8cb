"""`/api/v1/alerts`: alerts of rules, and their acknowledgement and resolution by users."""

from uuid import UUID

from gridfleet.api.http import PageQuery, S, endpoint, org_member
from gridfleet.domains.alerts import actions
from gridfleet.domains.alerts.models import Alert, AlertFilter, AlertStatus, Severity
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.pagination import Page

_ONE = ("INVALID_UUID", "NOT_FOUND", *S)


class AlertQuery(PageQuery):
    """Filter of alerts."""

    plant_id: UUID | None = None
    status: AlertStatus | None = None
    severity: Severity | None = None


@endpoint("GET", "/api/v1/alerts", caller=org_member(OrgRole.VIEWER, scope="telemetry:read"), codes=("VALIDATION_ERROR", *S))
async def list_alerts(org: OrgScope, db: Connection, query: AlertQuery) -> Page[Alert]:
    """List the organisation's alerts, newest first."""
    return await actions.list_alerts(db, org, AlertFilter(query.plant_id, query.status, query.severity), query.paging)


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
