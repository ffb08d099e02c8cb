"""Run a rule over history with the same conditions, cooldown and clearing as on live values."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.alerts.conditions import Point, RuleState, advance, holds
from gridfleet.domains.alerts.models import AlertRule
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.registry import check_plant
from gridfleet.domains.alerts.rules.units import in_unit, measured_unit
from gridfleet.domains.telemetry.frames.models import microseconds, to_datetime
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.clock import LONGEST_MONTH
from gridfleet.kernel.db import Connection
from gridfleet.kernel.errors import ValidationFailed

__all__ = ["MOST_POINTS", "MOST_POSITIONS", "BackTest", "PastAlert", "Replay", "back_test"]

MOST_POINTS: Final = 1_000_000
MOST_POSITIONS: Final = 50_000
"""The statements about them take the event loop a microsecond for each."""
_MOST_LISTED: Final = 1_000
_BATCH: Final = 1_000
"""Values between two turns of the event loop, 4 ms."""


class PastAlert(msgspec.Struct, frozen=True, rename="camel"):
    """An alert that the rule would have raised, and when it would have cleared if the rule requires that."""

    plant_id: UUID
    metric: str
    time: datetime
    value: float
    cleared_at: datetime | None


class BackTest(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a rule on history.

    `points` is the number of values, `matches` that of the values that met the condition. `alerts` holds the first 1,000 of
    `alert_count`.
    """

    points: int
    matches: int
    alert_count: int
    alerts: list[PastAlert]


class _Raised(msgspec.Struct):
    plant_id: UUID
    metric: str
    point: Point
    cleared_at: int | None = None


class Replay:
    """One rule on values in the order of their times."""

    def __init__(self, rule: AlertRule) -> None:
        self._quiet_until: int | None = None
        self._states: dict[tuple[int, str], RuleState] = {}
        self._open: dict[tuple[int, str], _Raised] = {}
        self._cooldown = rule.cooldown_minutes * 60_000_000
        self.points = 0
        self.matches = 0
        self.alert_count = 0
        self._listed: list[_Raised] = []

    def take(self, rule: AlertRule, source_id: int, plant_id: UUID, metric: str, point: Point) -> None:
        """Process the next value; `rule` has its thresholds in the value's unit."""
        key = (source_id, metric)
        self.points += 1
        self.matches += holds(rule.condition, rule.threshold, point.value)
        may_raise = self._quiet_until is None or point.time >= self._quiet_until
        step = advance(rule, self._states.get(key), (point,), may_raise=may_raise)
        if step.cleared and key in self._open:
            self._open.pop(key).cleared_at = point.time
        if step.state is None:
            self._states.pop(key, None)
        else:
            self._states[key] = step.state
        if step.raised_at is not None:
            self._quiet_until = point.time + self._cooldown
            self.alert_count += 1
            raised = _Raised(plant_id, metric, point)
            if len(self._listed) < _MOST_LISTED:  # a million take 200 MB
                self._listed.append(raised)
            if step.state is not None and step.state.raised:
                self._open[key] = raised

    def outcome(self) -> BackTest:
        """Return the result."""
        return BackTest(self.points, self.matches, self.alert_count, list(_listed(self._listed)))


def _listed(raised: Iterable[_Raised]) -> Iterable[PastAlert]:
    for one in raised:
        cleared = None if one.cleared_at is None else to_datetime(one.cleared_at)
        yield PastAlert(one.plant_id, one.metric, to_datetime(one.point.time), one.point.value, cleared)


async def back_test(db: Connection, org: OrgScope, rule: AlertRule, start: datetime, end: datetime) -> BackTest:
    """Run the rule over the organisation's history with `start` <= time < `end`.

    Raises:
        ValidationFailed: The plant is not the organisation's, the range has more than a month or more than a million values, or
            more than 50,000 plants and devices have the metric.
        Forbidden: The rule covers all plants, and the caller is limited to some.
    """
    await check_plant(db, org, rule.plant_id)
    if end - start > LONGEST_MONTH:
        raise ValidationFailed(details=["from: must be at most 31 days and three hours before to"])
    if rule.unit is None:
        rule = msgspec.structs.replace(rule, unit=await measured_unit(db, org.organization_id, rule.plant_id, rule.metric))
    replay = Replay(rule)
    found = await store.positions_of(db, org, rule.plant_id, rule.metric, MOST_POSITIONS + 1)
    if len(found) > MOST_POSITIONS:
        raise ValidationFailed(details=[f"rule.plantId: more than {MOST_POSITIONS} plants and devices; choose one plant"])
    units = {position.unit for position in found}
    rules = {unit: fitting for unit in units if (fitting := in_unit(rule, unit)) is not None}
    positions = [position for position in found if position.unit in rules]
    # Counted first: all values are sorted before the first one is returned.
    if await store.count_history(db, org, positions, start, end, MOST_POINTS + 1) > MOST_POINTS:
        raise ValidationFailed(details=[f"from: more than {MOST_POINTS} values; choose a shorter range or one plant"])
    async with db.cursor(name="back_test", binary=True) as cursor:
        cursor.itersize = _BATCH
        await store.open_history(cursor, org, positions, start, end)
        async for source_id, plant_id, metric, unit, time, value in cursor:
            replay.take(rules[unit], source_id, plant_id, metric, Point(microseconds(time), value))
    return replay.outcome()
