"""The unit of a rule's thresholds, and what happens if its measurement changes its unit."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from gridfleet.domains.alerts import store as alerts
from gridfleet.domains.alerts.matches import Watch
from gridfleet.domains.alerts.models import AlertRule
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.notifications.queue import Notification, NotificationContent, notify_each
from gridfleet.domains.telemetry.units import converted
from gridfleet.kernel.db import Connection

__all__ = ["adopt_units", "in_unit", "measured_unit", "report_unfit"]


def in_unit(rule: AlertRule, unit: str) -> AlertRule | None:
    """Return the rule with its thresholds in `unit`; None if they cannot be converted.

    A rule or a measurement without a unit is compared as a number.
    """
    if not unit or rule.unit is None or rule.unit == unit:
        return rule
    threshold = converted(rule.threshold, rule.unit, unit)
    if threshold is None:
        return None
    clear = None if rule.clear_threshold is None else converted(rule.clear_threshold, rule.unit, unit)
    return msgspec.structs.replace(rule, threshold=threshold, clear_threshold=clear, unit=unit)


async def measured_unit(db: Connection, organization_id: UUID, plant_id: UUID | None, metric: str) -> str | None:
    """Return the unit of the newest values that a rule watches; None if there is no unit or more than one."""
    units = await store.units_of(db, organization_id, plant_id, metric)
    return units.pop() if len(units) == 1 else None


async def adopt_units(db: Connection, watches: Sequence[Watch]) -> None:
    """Give rules without a unit the unit of a metric that they watch, unless another of their metrics has another unit."""
    known = await store.layout_units(db, [watch.rule for watch in watches])
    new = [watch for watch in watches if known.get(watch.rule.id, set()) <= {watch.unit}]
    await store.set_units(db, [(watch.rule.id, watch.rule.plant_id, watch.rule.metric, watch.unit) for watch in new])


async def report_unfit(db: Connection, unfit: Iterable[Watch]) -> None:
    """Notify the members once about each rule that cannot watch a measurement because of its unit."""
    watches = {watch.rule.id: watch for watch in unfit}
    claimed = [watches[rule_id] for rule_id in sorted(await store.claim_unit_notifications(db, watches))]
    plants = await alerts.plant_names(db, {watch.plant_id for watch in claimed}) if claimed else {}
    notifications: list[Notification] = []
    for rule, plant_id, _, metric, unit in claimed:
        plant = plants.get(plant_id)
        name = plant.name if plant else "a plant"
        content = NotificationContent(
            subject=f"Alert rule not applied: {rule.name}",
            body=(
                f"{metric} of {name} is measured in {unit}, but the thresholds of the rule {rule.name} are in {rule.unit},"
                " and there is no conversion. The rule does not watch it. Set the rule's unit and thresholds."
            ),
            metadata={
                "ruleId": str(rule.id),
                "plantId": str(plant_id),
                "organizationId": str(rule.organization_id),
                "severity": rule.severity.value,
            },
        )
        notifications.append(Notification(rule.organization_id, content, None, rule.severity, is_sent_once=True))
    await notify_each(db, notifications)
