"""Alert rules and their alerts, for tests that write telemetry."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from gridfleet.domains.alerts.actions import list_alerts
from gridfleet.domains.alerts.models import Alert, AlertFilter, AlertRule, Condition, Severity
from gridfleet.domains.alerts.rules.registry import create_rule
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Paging
from gridfleet.protocol.envelope import format_time


def operator(organization_id: UUID, plant_ids: frozenset[UUID] | None = None) -> OrgScope:
    """Return the scope of an operator of the organisation."""
    caller = UserCaller(new_id(), new_id(), "operator@example.com", "Operator", False, None)
    return OrgScope(organization_id, OrgRole.OPERATOR, caller, plant_ids)


def rule_columns(**changes: Any) -> dict[str, Any]:
    """Return the columns of a rule: soc below 10, with `changes`."""
    return {
        "plant_id": None,
        "name": "Low battery",
        "metric": "soc",
        "condition": Condition.LT,
        "threshold": 10.0,
        "severity": Severity.WARNING,
        "cooldown_minutes": 15,
        "enabled": True,
        "for_seconds": 0,
        "clear_threshold": None,
        "auto_resolve": False,
        "unit": None,
        **changes,
    }


async def add_rule(database: Database, organization_id: UUID, **changes: Any) -> AlertRule:
    """Return a stored rule."""
    async with database.transaction() as db:
        return await create_rule(db, operator(organization_id), rule_columns(**changes))


async def alerts_of(database: Database, organization_id: UUID) -> list[Alert]:
    """Return the organisation's alerts, oldest first."""
    async with database.transaction() as db:
        page = await list_alerts(db, operator(organization_id), AlertFilter(), Paging(1, 100))
    return page.data[::-1]


def ago(seconds: float) -> datetime:
    """Return a time before now, in whole milliseconds."""
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def snapshot(moment: datetime, fields: dict[str, Any] | None = None, **devices: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot's payload. Keywords name sub-devices."""
    content: dict[str, Any] = {"time": format_time(moment)}
    if fields:
        content["fields"] = fields
    if devices:
        content["devices"] = [{"id": name, "fields": values} for name, values in devices.items()]
    return content
