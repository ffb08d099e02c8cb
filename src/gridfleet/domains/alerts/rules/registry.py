"""Create, find, list, change and delete alert rules. Every change is published to the ingest processes at once."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from psycopg import errors as pg

from gridfleet.domains.alerts.conditions import complaint_about
from gridfleet.domains.alerts.errors import RuleNotFound
from gridfleet.domains.alerts.models import AlertRule, RuleChanges
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.units import measured_unit
from gridfleet.domains.alerts.states import store as states
from gridfleet.domains.audit.differences import differences
from gridfleet.domains.audit.models import Event, Subject, SubjectType
from gridfleet.domains.audit.recorder import record_in
from gridfleet.domains.plants.errors import PlantNotFound
from gridfleet.domains.plants.registry import get_plant
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.db.queries import given
from gridfleet.kernel.errors import Forbidden, ValidationFailed
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.pagination import Page, Paging

__all__ = ["check_plant", "create_rule", "delete_rule", "get_rule", "list_rules", "update_rule"]

MOST_RULES: Final = 500
"""The most rules of a plant, and the most for all plants of an organisation: ingest compares each value with all of them."""
MOST_OF_ORGANIZATION: Final = 50_000
"""The most rules of an organisation: after a change of one, ingest reads those of all plants whose messages arrive."""

_FOREIGN_PLANT: Final = "plantId: is no plant of this organisation"
"""Raised by the check of the plant, or by the foreign key if the plant is moved or deleted after the check."""

_RESTARTS_TIME: Final = ("plant_id", "metric", "condition", "threshold", "unit", "enabled")
"""Members that decide which values meet the rule: after a change, `for_seconds` counts from the next value."""


async def create_rule(db: Connection, org: OrgScope, columns: dict[str, Any]) -> AlertRule:
    """Create a rule. Without a `unit` it takes the unit of the newest values that it watches.

    Raises:
        ValidationFailed: The plant is not the organisation's, or there are too many rules.
        Forbidden: The caller is limited to some plants, and the rule would watch all.
    """
    await check_plant(db, org, columns["plant_id"])
    counts = await store.counts(db, org, columns["plant_id"])
    _check_number(counts, columns["plant_id"])
    if counts.of_organization >= MOST_OF_ORGANIZATION:
        raise ValidationFailed(details=[f"plantId: the organisation has {MOST_OF_ORGANIZATION:,} rules, the maximum"])
    if columns["unit"] is None:
        columns["unit"] = await measured_unit(db, org.organization_id, columns["plant_id"], columns["metric"])
    try:
        rule = await store.insert(db, org, new_id(), columns)
    except pg.ForeignKeyViolation:
        raise ValidationFailed(details=[_FOREIGN_PLANT]) from None
    await record_in(db, org, Event.ALERT_RULE_CREATED, _subject(rule), {"name": rule.name, "metric": rule.metric})
    return rule


async def get_rule(db: Connection, org: OrgScope, rule_id: UUID) -> AlertRule:
    """Return one rule.

    Raises:
        RuleNotFound: There is no such rule.
    """
    rule = await store.find(db, org, rule_id)
    if rule is None:
        raise RuleNotFound
    return rule


async def list_rules(db: Connection, org: OrgScope, plant_id: UUID | None, paging: Paging) -> Page[AlertRule]:
    """Return one page of the organisation's rules, newest first; with `plant_id` only those of this plant."""
    return Page.of(await store.page(db, org, plant_id, paging), await store.count(db, org, plant_id), paging)


async def update_rule(db: Connection, org: OrgScope, rule_id: UUID, changes: RuleChanges) -> AlertRule:
    """Change a rule and return it.

    Open alerts stay linked to the rule: they clear by its new condition, and until then their metrics raise no second one.
    Alerts that were raised while the rule had neither autoResolve nor clearThreshold, and those of a metric or plant that it no
    longer watches, do not clear by themselves. If the metric changes, or the unit is set to None, the unit of the newest values
    is used.

    Raises:
        RuleNotFound: There is no such rule, or the caller may not see it.
        ValidationFailed: The clear threshold does not fit, the plant is not the organisation's, or it has too many rules.
        Forbidden: The caller is limited to some plants, and the rule watches or would watch all.
    """
    columns = given(changes)
    measured = await _measured(db, org, rule_id, columns)
    rule = await store.lock(db, org, rule_id)
    if rule is None:
        raise RuleNotFound
    if rule.plant_id is None:
        _refuse_limited(org)
    if not columns:
        return rule
    if "plant_id" in columns:
        await check_plant(db, org, columns["plant_id"])
        if columns["plant_id"] != rule.plant_id:
            _check_number(await store.counts(db, org, columns["plant_id"]), columns["plant_id"])
    changed = msgspec.structs.replace(rule, **columns)
    if changed.metric != rule.metric or "unit" in columns:
        if columns.get("unit") is None:
            columns["unit"] = measured.unit_of(changed)
        changed = msgspec.structs.replace(changed, unit=columns["unit"])
        columns["unit_notice_at"] = None
    if complaint := complaint_about(changed.condition, changed.threshold, changed.clear_threshold):
        raise ValidationFailed(details=[complaint])
    restarts = any(getattr(changed, name) != getattr(rule, name) for name in _RESTARTS_TIME)
    if restarts or not changed.latches:
        await states.delete_states_of_rule(db, org, rule_id, waiting=restarts, raised=not changed.latches)
    try:
        updated = await store.update(db, org, rule_id, columns)
    except pg.ForeignKeyViolation:
        raise ValidationFailed(details=[_FOREIGN_PLANT]) from None
    if differing := differences(rule, updated, RuleChanges.__struct_fields__):
        await record_in(db, org, Event.ALERT_RULE_CHANGED, _subject(updated), differing)
    return updated


class _Measured(NamedTuple):
    """The unit of the newest values that a rule would watch after a change."""

    plant_id: UUID | None
    metric: str
    unit: str | None

    def unit_of(self, rule: AlertRule) -> str | None:
        """Return the unit for a rule. If another request has changed it meanwhile, ingest gives it the unit of a value."""
        return self.unit if (rule.plant_id, rule.metric) == (self.plant_id, self.metric) else None


async def _measured(db: Connection, org: OrgScope, rule_id: UUID, columns: Mapping[str, Any]) -> _Measured:
    """Return the unit that a change of a rule needs.

    It is read before the rule is locked: it takes seconds in a large fleet, and ingest waits for the lock, with the messages of
    all plants, when it would raise an alert of the rule.
    """
    if columns.keys().isdisjoint(("metric", "unit")) or columns.get("unit") is not None:
        return _Measured(None, "", None)
    rule = await get_rule(db, org, rule_id)
    plant_id, metric = columns.get("plant_id", rule.plant_id), columns.get("metric", rule.metric)
    is_needed = metric != rule.metric or "unit" in columns
    if is_needed and plant_id is None:
        _refuse_limited(org)
    unit = await measured_unit(db, org.organization_id, plant_id, metric) if is_needed else None
    return _Measured(plant_id, metric, unit)


async def delete_rule(db: Connection, org: OrgScope, rule_id: UUID) -> None:
    """Delete a rule; the alerts that it raised stay.

    Raises:
        RuleNotFound: There is no such rule.
        Forbidden: The caller is limited to some plants, and the rule watches all.
    """
    rule = await store.lock(db, org, rule_id, to_delete=True)
    if rule is None:
        raise RuleNotFound
    if rule.plant_id is None:
        _refuse_limited(org)
    await states.delete_states_of_rule(db, org, rule_id, waiting=True, raised=True)
    await store.delete(db, org, rule_id)
    await record_in(db, org, Event.ALERT_RULE_DELETED, _subject(rule), {"name": rule.name, "metric": rule.metric})


def _subject(rule: AlertRule) -> Subject:
    return Subject(SubjectType.ALERT_RULE, rule.id, rule.plant_id)


async def check_plant(db: Connection, org: OrgScope, plant_id: UUID | None) -> None:
    """Check that the caller may watch the plant, or all plants.

    Raises:
        ValidationFailed: The plant is not the organisation's.
        Forbidden: The caller is limited to some plants, and `plant_id` is None.
    """
    if plant_id is None:
        _refuse_limited(org)
        return
    try:
        await get_plant(db, org, plant_id)
    except PlantNotFound:
        raise ValidationFailed(details=[_FOREIGN_PLANT]) from None


def _check_number(counts: store.RuleCounts, plant_id: UUID | None) -> None:
    if counts.of_plant >= MOST_RULES:
        which = "for all plants" if plant_id is None else "for one plant"
        raise ValidationFailed(details=[f"plantId: there are {MOST_RULES} rules {which}, the maximum"])


def _refuse_limited(org: OrgScope) -> None:
    if org.plant_ids is not None:
        raise Forbidden("A key that is limited to some plants cannot create, change or delete a rule for all plants.")
