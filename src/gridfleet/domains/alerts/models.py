"""Rules and alerts."""

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from gridfleet.domains.notifications.models import Channel

__all__ = [
    "CHANNELS",
    "Alert",
    "AlertFilter",
    "AlertRule",
    "AlertStatus",
    "AlertType",
    "Condition",
    "RuleChanges",
    "Severity",
]


class Severity(StrEnum):
    """How bad it is, from mild to worst."""

    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    EMERGENCY = "EMERGENCY"


CHANNELS: Final = {
    Severity.INFO: (Channel.PUSH,),
    Severity.WARNING: (Channel.PUSH, Channel.EMAIL),
    Severity.CRITICAL: (Channel.PUSH, Channel.EMAIL, Channel.SMS),
    Severity.EMERGENCY: (Channel.PUSH, Channel.EMAIL, Channel.SMS),
}
"""How members are notified of what a rule finds."""


class Condition(StrEnum):
    """How a value is compared with the threshold."""

    LT = "LT"
    GT = "GT"
    EQ = "EQ"


class AlertStatus(StrEnum):
    """ACTIVE → ACKNOWLEDGED → RESOLVED; an active one may be resolved at once."""

    ACTIVE = "ACTIVE"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    RESOLVED = "RESOLVED"


class AlertType(StrEnum):
    """What made the alert."""

    THRESHOLD_EXCEEDED = "THRESHOLD_EXCEEDED"


class AlertRule(msgspec.Struct, frozen=True, rename="camel"):
    """What to watch. `plant_id` None: every plant of the organisation.

    `metric`: the key of a plant's metric or of any of its sub-devices', or `{externalId}.{key}`. `for_seconds`: how long the
    condition must hold. `clear_threshold`: the value that must be passed again before the same metric may raise anew.
    `auto_resolve`: the alert is resolved when that happens; without a clear threshold, when the condition no longer holds.
    `unit`: that of both thresholds; None when it is not known, and they are compared as numbers.
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
    def remembers(self) -> bool:
        """Whether more than the value at hand decides."""
        return self.for_seconds > 0 or self.latches

    @property
    def latches(self) -> bool:
        """Whether a metric with an open alert must clear before it raises another."""
        return self.clear_threshold is not None or self.auto_resolve


class RuleChanges(msgspec.Struct, frozen=True):
    """What a PATCH asks for; members left out stay as they are."""

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
    """Something that a rule found. `acknowledged_by` is the person's or the API key's id."""

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


class AlertFilter(msgspec.Struct, frozen=True):
    """Which alerts; None: all."""

    plant_id: UUID | None = None
    status: AlertStatus | None = None
    severity: Severity | None = None
