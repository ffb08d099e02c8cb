"""Cache of the alert rules in an ingest process, compiled to positions in frames.

A frame without rules costs one lookup.

Database notifications invalidate entries. Missing entries are compiled at the next message of their source.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import eq, gt, itemgetter, lt
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.alerts.conditions import MAX_AGE_SECONDS, Point
from gridfleet.domains.alerts.matches import Findings, Hit, Run, Watch
from gridfleet.domains.alerts.models import AlertRule, Condition
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.units import adopt_unit, in_unit, report_unfit
from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.places.lookup import layout_columns, source_owners
from gridfleet.domains.telemetry.places.models import LayoutColumns, SourceOwner
from gridfleet.kernel.caller import SystemScope
from gridfleet.kernel.db import Database

__all__ = ["RULES_CHANNEL", "Check", "RuleCache", "compile_checks"]

RULES_CHANNEL: Final = "alert_rule_changed"
"""Channel of the database notification that rules changed; the payload is their organisation."""

_SYSTEM: Final = SystemScope("ingest applies every organisation's rules to its plants")
_COMPARE: Final[dict[Condition, Callable[[float, float], bool]]] = {Condition.LT: lt, Condition.GT: gt, Condition.EQ: eq}


class Check(NamedTuple):
    """One rule at one position of a frame."""

    position: int
    compare: Callable[[float, float], bool]
    threshold: float
    remembers: bool
    watch: Watch


class _Owner(NamedTuple):
    organization_id: str
    plant_id: str


class RuleCache:
    """The rules for each position in the frames of each source."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owners: dict[tuple[int, int], _Owner] = {}
        self._checks: dict[tuple[int, int], tuple[Check, ...]] = {}
        self._changes = 0

    async def examine(self, frames: FrameBatch, now: datetime) -> Findings:
        """Apply the rules to the frames. Values older than `MAX_AGE_SECONDS` are ignored."""
        checks = self._checks
        if missing := frames.latest.keys() - self._owners.keys():
            checks = await self._compile(missing)
        hits: dict[int, tuple[int, float, Watch]] = {}
        runs: dict[int, Run] = {}
        if checks.keys().isdisjoint(frames.latest):
            return Findings()
        horizon = microseconds(now) - MAX_AGE_SECONDS * 1_000_000
        for (source_id, time, layout_id), values in frames.frames.items():
            if time < horizon:
                continue
            for position, compare, threshold, remembers, watch in checks.get((source_id, layout_id), ()):
                value = values[position]
                if value is None:
                    continue
                matched = compare(value, threshold)
                if remembers:
                    run = runs.get(id(watch))
                    if run is None:
                        run = runs[id(watch)] = Run(watch)
                    run.points.append((time, value))
                    run.matched = run.matched or matched
                elif matched:
                    rule = id(watch.rule)
                    if rule not in hits or time < hits[rule][0]:
                        hits[rule] = (time, value, watch)
        return Findings(_earliest(hits.values()), list(runs.values()))

    def invalidate_organization(self, organization_id: str) -> None:
        """Remove the entries of one organisation, because its rules changed."""
        self._remove({place for place, owner in self._owners.items() if owner.organization_id == organization_id})

    def invalidate_plant(self, plant_id: str) -> None:
        """Remove the entries of one plant, because it may have moved to another organisation."""
        self._remove({place for place, owner in self._owners.items() if owner.plant_id == plant_id})

    def invalidate_all(self) -> None:
        """Remove all entries."""
        self._remove(set(self._owners))

    def _remove(self, places: set[tuple[int, int]]) -> None:
        # New dictionaries, because a batch that is being examined continues with the old ones.
        self._changes += 1
        self._owners = {place: owner for place, owner in self._owners.items() if place not in places}
        self._checks = {place: checks for place, checks in self._checks.items() if place not in places}

    async def _compile(self, missing: set[tuple[int, int]]) -> dict[tuple[int, int], tuple[Check, ...]]:
        changes, before = self._changes, self._checks
        async with self._database.transaction() as db:
            sources = await source_owners(db, {source_id for source_id, _ in missing})
            rules = await store.enabled_of(db, _SYSTEM, {source.organization_id for source in sources.values()})
            layouts = await layout_columns(db, {layout_id for _, layout_id in missing} if rules else ())
        by_organization: dict[UUID, list[AlertRule]] = defaultdict(list)
        for rule in rules:
            by_organization[rule.organization_id].append(rule)
        owners: dict[tuple[int, int], _Owner] = {}
        compiled: dict[tuple[int, int], tuple[Check, ...]] = {}
        unfit: list[Watch] = []
        for source_id, layout_id in missing:
            if (source := sources.get(source_id)) is None:
                continue
            owners[source_id, layout_id] = _Owner(str(source.organization_id), str(source.plant_id))
            if (own := by_organization.get(source.organization_id)) and (layout := layouts.get(layout_id)) is not None:
                compiled[source_id, layout_id] = compile_checks(own, source, layout, unfit)
        await self._settle_units(compiled, unfit)
        compiled = {place: checks for place, checks in compiled.items() if checks}
        if changes == self._changes:  # otherwise it may be outdated: used for this batch but not cached
            self._owners |= owners
            self._checks |= compiled
            return self._checks
        return before | compiled

    async def _settle_units(self, compiled: dict[tuple[int, int], tuple[Check, ...]], unfit: list[Watch]) -> None:
        """Give rules without a unit the unit of their measurement, and report rules whose unit cannot be converted."""
        met = {check.watch.rule.id: check.watch for checks in compiled.values() for check in checks if check.watch.unit}
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
            checks.append(Check(position, _COMPARE[fitting.condition], fitting.threshold, fitting.remembers, watch))
    return tuple(checks)


def _earliest(hits: Iterable[tuple[int, float, Watch]]) -> dict[UUID, Hit]:
    # A rule that was compiled at different times for different plants is several objects, so hits are grouped by its
    # id.
    found: dict[UUID, Hit] = {}
    for time, value, watch in sorted(hits, key=itemgetter(0)):
        found.setdefault(watch.rule.id, Hit(watch, Point(time, value)))
    return found
