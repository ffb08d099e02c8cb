"""`/api/v1/alert-rules`: alert rules, and the preview of a rule on stored history."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from gridfleet.api.http import Input, Message, PageQuery, S, endpoint, omitted, org_member
from gridfleet.domains.alerts.conditions import complaint_about
from gridfleet.domains.alerts.models import AlertRule, Condition, RuleChanges, Severity
from gridfleet.domains.alerts.rules import registry
from gridfleet.domains.alerts.rules.back_test import BackTest, back_test
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page

Name = Annotated[str, Field(min_length=1, max_length=200)]
Metric = Annotated[str, Field(min_length=1, max_length=100)]
CooldownMinutes = Annotated[int, Field(ge=1, le=1440)]
ForSeconds = Annotated[int, Field(ge=0, le=86_400)]
Unit = Annotated[str, Field(min_length=1, max_length=20)]


class RuleFilter(PageQuery):
    """Filter of rules. `plantId` returns only the rules of that plant; None: all rules of the organisation."""

    plant_id: UUID | None = None


class NewAlertRule(Input):
    """A rule to create. `plantId` null: all plants of the organisation. `unit` null: the unit of the newest values."""

    condition: Condition
    metric: Metric
    name: Name
    threshold: float
    plant_id: UUID | None = None
    severity: Severity = Severity.WARNING
    cooldown_minutes: CooldownMinutes = 15
    enabled: bool = True
    for_seconds: ForSeconds = 0
    clear_threshold: float | None = None
    auto_resolve: bool = False
    unit: Unit | None = None

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if no alert of this rule can clear."""
        if complaint := complaint_about(self.condition, self.threshold, self.clear_threshold):
            yield complaint


class AlertRulePatch(Input):
    """Changes to a rule. Null removes the plant or the clear threshold; `unit` null means the unit of the newest values."""

    condition: Condition = omitted()
    metric: Metric = omitted()
    name: Name = omitted()
    threshold: float = omitted()
    plant_id: UUID | None = omitted()
    severity: Severity = omitted()
    cooldown_minutes: CooldownMinutes = omitted()
    enabled: bool = omitted()
    for_seconds: ForSeconds = omitted()
    clear_threshold: float | None = omitted()
    auto_resolve: bool = omitted()
    unit: Unit | None = omitted()


class AlertRulePreview(Input):
    """A rule to evaluate on history: `from` is inclusive, `to` exclusive."""

    rule: NewAlertRule
    since: datetime = Field(alias="from")
    until: datetime = Field(alias="to")

    def complaints(self) -> Iterator[str]:
        """Yield a complaint if the span is not positive, and those about the rule."""
        if self.since >= self.until:
            yield "from: must be before to"
        for complaint in self.rule.complaints():
            yield f"rule.{complaint}"


@endpoint(
    "GET", "/api/v1/alert-rules", caller=org_member(OrgRole.VIEWER, scope="telemetry:read"), codes=("VALIDATION_ERROR", *S)
)
async def list_alert_rules(org: OrgScope, db: Connection, query: RuleFilter) -> Page[AlertRule]:
    """List the organisation's rules, newest first."""
    return await registry.list_rules(db, org, query.plant_id, query.paging)


@endpoint(
    "POST",
    "/api/v1/alert-rules",
    caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"),
    codes=("VALIDATION_ERROR", *S),
    success=201,
)
async def create_alert_rule(org: OrgScope, db: Connection, body: NewAlertRule) -> AlertRule:
    """Create a rule. It applies to values that are measured from now on."""
    return await registry.create_rule(db, org, dict(body))


@endpoint(
    "GET",
    "/api/v1/alert-rules/{id}",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
)
async def get_alert_rule(org: OrgScope, db: Connection, id: UUID) -> AlertRule:
    """Return one rule."""
    return await registry.get_rule(db, org, id)


@endpoint(
    "PATCH",
    "/api/v1/alert-rules/{id}",
    caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"),
    codes=("VALIDATION_ERROR", "NOT_FOUND", *S),
)
async def update_alert_rule(org: OrgScope, db: Connection, id: UUID, body: AlertRulePatch) -> AlertRule:
    """Change a rule. Omitted members stay as they are."""
    return await registry.update_rule(db, org, id, RuleChanges(**dict(body)))


@endpoint(
    "DELETE",
    "/api/v1/alert-rules/{id}",
    caller=org_member(OrgRole.OPERATOR, scope="telemetry:write"),
    codes=("INVALID_UUID", "NOT_FOUND", *S),
)
async def delete_alert_rule(org: OrgScope, db: Connection, id: UUID) -> Message:
    """Delete a rule. The alerts that it raised stay."""
    await registry.delete_rule(db, org, id)
    return Message("The alert rule has been deleted.")


@endpoint(
    "POST",
    "/api/v1/alert-rules/preview",
    caller=org_member(OrgRole.VIEWER, scope="telemetry:read"),
    codes=("VALIDATION_ERROR", *S),
    addition=True,
)
async def preview_alert_rule(org: OrgScope, db: Connection, body: AlertRulePreview) -> BackTest:
    """Apply a rule to the stored values of up to a month and return the alerts that it would raise. Nothing is stored."""
    now = utc_now()
    rule = AlertRule(
        id=new_id(),
        organization_id=org.organization_id,
        last_triggered_at=None,
        created_at=now,
        updated_at=now,
        **dict(body.rule),
    )
    return await back_test(db, org, rule, body.since, body.until)
