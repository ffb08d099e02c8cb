"""Cache of the alert rules in an ingest process, compiled to positions in frames.

A frame without rules costs one lookup. Missing entries are compiled at the next message of their source.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from operator import eq, gt, itemgetter, lt
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.alerts.conditions import MAX_AGE_SECONDS, Point
from gridfleet.domains.alerts.matches import Findings, Hit, Run, Watch
from gridfleet.domains.alerts.models import AlertRule, Condition
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.units import adopt_unit, in_unit, report_unfit
from gridfleet.domains.telemetry.frames.lookup import layout_columns, source_owners
from gridfleet.domains.telemetry.frames.models import FrameBatch, LayoutColumns, SourceOwner, microseconds
from gridfleet.kernel.db import Database
from gridfleet.kernel.db.notified_cache import NotifiedCache

__all__ = ["RULES_CHANNEL", "Check", "RuleCache", "compile_checks"]

RULES_CHANNEL: Final = "alert_rule_changed"
"""Channel of the database notification that rules changed; the payload is their organisation."""

_CHECKS_AT_ONCE: Final = 20_000

_COMPARE: Final[dict[Condition, Callable[[float, float], bool]]] = {Condition.LT: lt, Condition.GT: gt, Condition.EQ: eq}


class Check(NamedTuple):
    """One rule at one position of a frame."""

    position: int
    compare: Callable[[float, float], bool]
    threshold: float
    keeps_state: bool
    watch: Watch


class _Compiled(NamedTuple):
    organization_id: UUID
    plant_id: UUID
    checks: tuple[Check, ...]


class RuleCache(NotifiedCache[tuple[int, int], _Compiled]):
    """The rules for each position in the frames of each source, by source and layout.

    The id of the organisation invalidates its entries, because its rules changed. The id of a plant invalidates the plant's,
    because it may have moved to another organisation.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(lambda _, compiled: (str(compiled.organization_id), str(compiled.plant_id)))
        self._database = database

    async def examine(self, frames: FrameBatch, now: datetime) -> Findings:
        """Apply the rules to the frames. Values older than `MAX_AGE_SECONDS` are ignored."""
        known = await self.look_up(frames.latest.keys(), self._compile)
        checks = {key: compiled.checks for key, compiled in known.items() if compiled.checks}
        hits: dict[int, tuple[int, float, Watch]] = {}
        runs: dict[int, Run] = {}
        # All rules of a metric share its points: each on its own, a thousand rules would take gigabytes for a batch.
        points: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
        if not checks:
            return Findings()
        since_pause = 0
        horizon = microseconds(now) - MAX_AGE_SECONDS * 1_000_000
        for (source_id, time, layout_id), values in frames.frames.items():
            if time < horizon:
                continue
            due = checks.get((source_id, layout_id), ())
            since_pause += len(due)
            if since_pause > _CHECKS_AT_ONCE:
                # Otherwise a batch with many values of a metric with many rules would block heartbeats.
                await asyncio.sleep(0)
                since_pause = 0
            for position, compare, threshold, keeps_state, watch in due:
                value = values[position]
                if value is None:
                    continue
                # A measured integer or boolean is only packed as a double.
                value = float(value)
                matched = compare(value, threshold)
                if keeps_state:
                    run = runs.get(id(watch))
                    if run is None:
                        run = runs[id(watch)] = Run(watch, points.setdefault((source_id, layout_id, position), []))
                    if not run.points or run.points[-1][0] != time:
                        run.points.append((time, value))
                    run.matched = run.matched or matched
                elif matched:
                    rule = id(watch.rule)
                    if rule not in hits or time < hits[rule][0]:
                        hits[rule] = (time, value, watch)
        return Findings(_earliest(hits.values()), list(runs.values()))

    async def _compile(self, missing: Collection[tuple[int, int]]) -> dict[tuple[int, int], _Compiled]:
        async with self._database.transaction() as db:
            sources = await source_owners(db, {source_id for source_id, _ in missing})
            rules = await store.enabled_of(db, {source.organization_id for source in sources.values()})
            layouts = await layout_columns(db, {layout_id for _, layout_id in missing} if rules else ())
        by_organization: dict[UUID, list[AlertRule]] = defaultdict(list)
        for rule in rules:
            by_organization[rule.organization_id].append(rule)
        compiled: dict[tuple[int, int], _Compiled] = {}
        unfit: list[Watch] = []
        for source_id, layout_id in missing:
            if (source := sources.get(source_id)) is None:
                continue
            checks: tuple[Check, ...] = ()
            if (own := by_organization.get(source.organization_id)) and (layout := layouts.get(layout_id)) is not None:
                checks = compile_checks(own, source, layout, unfit)
            compiled[source_id, layout_id] = _Compiled(source.organization_id, source.plant_id, checks)
        await self._adopt_units(compiled.values(), unfit)
        return compiled

    async def _adopt_units(self, compiled: Iterable[_Compiled], unfit: list[Watch]) -> None:
        """Give rules without a unit the unit of their measurement, and report rules whose unit cannot be converted."""
        met = {check.watch.rule.id: check.watch for one in compiled for check in one.checks if check.watch.unit}
        new = [watch for watch in met.values() if watch.rule.unit is None]
        if new or unfit:
            async with self._database.transaction() as db:
                for watch in sorted(new, key=lambda watch: watch.rule.id):
                    await adopt_unit(db, watch.rule, watch.unit)
                await report_unfit(db, unfit)


def compile_checks(
    rules: Iterable[AlertRule], source: SourceOwner, layout: LayoutColumns, unfit: list[Watch]
) -> tuple[Check, ...]:
    """Return the checks of a layout by the rules of the source's organisation, with thresholds in the layout's units.

    Watches whose unit cannot be converted are added to `unfit`.
    """
    prefix = None if source.external_id is None else f"{source.external_id}."
    checks: list[Check] = []
    for rule in rules:
        if rule.plant_id is not None and rule.plant_id != source.plant_id:
            continue
        keys = {rule.metric} if prefix is None else {rule.metric, rule.metric.removeprefix(prefix)}
        for key in keys & layout.positions.keys():
            position = layout.positions[key]
            unit = layout.units[position]
            watch = Watch(rule, source.plant_id, source.id, f"{prefix or ''}{key}", unit)
            fitting = in_unit(rule, unit)
            if fitting is None:
                unfit.append(watch)
                continue
            watch = watch._replace(rule=fitting)
            checks.append(Check(position, _COMPARE[fitting.condition], fitting.threshold, fitting.keeps_state, watch))
    return tuple(checks)


def _earliest(hits: Iterable[tuple[int, float, Watch]]) -> dict[UUID, Hit]:
    # A rule that was compiled at different times for different plants is several objects, so hits are grouped by its
    # id.
    found: dict[UUID, Hit] = {}
    for time, value, watch in sorted(hits, key=itemgetter(0)):
        found.setdefault(watch.rule.id, Hit(watch, Point(time, value)))
    return found
