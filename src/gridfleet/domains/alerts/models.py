"""Rules and alerts."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.notifications.models import Severity

__all__ = [
    "Alert",
    "AlertCounts",
    "AlertFilter",
    "AlertOutcome",
    "AlertResult",
    "AlertRule",
    "AlertStatus",
    "AlertType",
    "Condition",
    "RuleChanges",
    "Severity",
    "SeverityCounts",
]


class Condition(StrEnum):
    """How a value is compared with the threshold."""

    LT = "LT"
    GT = "GT"
    EQ = "EQ"


class AlertStatus(StrEnum):
    """ACTIVE → ACKNOWLEDGED → RESOLVED; an active alert may be resolved directly."""

    ACTIVE = "ACTIVE"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"


class AlertType(StrEnum):
    """The cause of the alert."""

    THRESHOLD_EXCEEDED = "THRESHOLD_EXCEEDED"


class AlertRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that raises alerts.

    Attributes:
        plant_id: The plant; None is every plant of the organisation.
        metric: The key of a metric of the plant or of any of its sub-devices, or `{externalId}.{key}`.
        for_seconds: How long the condition must hold.
        clear_threshold: The value that must be reached again before the same metric may raise another alert.
        auto_resolve: Whether the alert is resolved when the metric reaches the clear threshold or, without one, when the
            condition no longer holds.
        unit: The unit of both thresholds; None if it is unknown, and they are compared as numbers.
    """

    id: UUID
    organization_id: UUID
    plant_id: UUID | None
    name: str
    metric: str
    condition: Condition
    threshold: float
    severity: Severity
    cooldown_minutes: int
    enabled: bool
    for_seconds: int
    clear_threshold: float | None
    auto_resolve: bool
    unit: str | None
    last_triggered_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def keeps_state(self) -> bool:
        """Whether the result depends on more than the current value."""
        return self.for_seconds > 0 or self.latches

    @property
    def latches(self) -> bool:
        """Whether a metric with an open alert must clear before it raises another."""
        return self.clear_threshold is not None or self.auto_resolve


class RuleChanges(msgspec.Struct, frozen=True):
    """Changes of a PATCH; UNSET members stay as they are."""

    plant_id: UUID | UnsetType | None = UNSET
    name: str | UnsetType = UNSET
    metric: str | UnsetType = UNSET
    condition: Condition | UnsetType = UNSET
    threshold: float | UnsetType = UNSET
    severity: Severity | UnsetType = UNSET
    cooldown_minutes: int | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    for_seconds: int | UnsetType = UNSET
    clear_threshold: float | UnsetType | None = UNSET
    auto_resolve: bool | UnsetType = UNSET
    unit: str | UnsetType | None = UNSET


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert that a rule raised. `acknowledged_by` is the id of the user or API key.

    Attributes:
        rule_name: The rule's name when it raised the alert. Like `condition`, `threshold` and `unit`, it is None for alerts of
            earlier releases.
        value: The value that raised the alert, measured at `measured_at`, in `unit`, which is that of `threshold` too.
    """

    id: UUID
    plant_id: UUID
    type: AlertType
    severity: Severity
    status: AlertStatus
    message: str
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    resolved_at: datetime | None
    created_at: datetime
    updated_at: datetime
    plant_name: str
    rule_id: UUID | None
    rule_name: str | None
    metric: str
    condition: Condition | None
    threshold: float | None
    value: float
    unit: str | None
    measured_at: datetime
    acknowledged_by_name: str | None


class AlertFilter(msgspec.Struct, frozen=True):
    """Conditions of a list of alerts. None, and an empty set, select all.

    Attributes:
        since: The first time of raising.
        until: The end of the times of raising, exclusive.
    """

    plant_id: UUID | None = None
    statuses: frozenset[AlertStatus] = frozenset()
    severities: frozenset[Severity] = frozenset()
    since: datetime | None = None
    until: datetime | None = None


class SeverityCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of alerts by severity."""

    info: int
    warning: int
    critical: int
    emergency: int


class AlertCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Numbers of alerts by status and severity."""

    active: SeverityCounts
    acknowledged: SeverityCounts
    resolved: SeverityCounts


class AlertOutcome(StrEnum):
    """What a request about several alerts did to one of them."""

    CHANGED = "CHANGED"
    UNCHANGED = "UNCHANGED"
    NOT_FOUND = "NOT_FOUND"


class AlertResult(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome for one alert. `status` is its status now; null if there is no such alert."""

    alert_id: UUID
    outcome: AlertOutcome
    status: AlertStatus | None
