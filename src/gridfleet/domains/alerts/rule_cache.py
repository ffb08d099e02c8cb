"""Cache of the alert rules in an ingest process, compiled to positions in frames.

A frame without rules costs one lookup. Missing entries are compiled at the next message of their source.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import eq, gt, itemgetter, lt
from typing import Final
from uuid import UUID

import structlog
from psycopg.errors import QueryCanceled

from gridfleet.domains.alerts.conditions import MAX_AGE_SECONDS, Point
from gridfleet.domains.alerts.matches import MOST_STATES, Check, Checks, Findings, Hit, Run, Watch
from gridfleet.domains.alerts.models import AlertRule, Condition
from gridfleet.domains.alerts.rules import store
from gridfleet.domains.alerts.rules.units import adopt_units, in_unit, report_unfit
from gridfleet.domains.telemetry.frames.lookup import layout_columns, source_owners
from gridfleet.domains.telemetry.frames.models import FrameBatch, LayoutColumns, SourceOwner, microseconds
from gridfleet.kernel.db import Database, limit_statements
from gridfleet.kernel.db.notified_cache import NotifiedCache

__all__ = ["ADOPT_PAUSE_SECONDS", "MOST_ADOPT_SECONDS", "RULES_CHANNEL", "SLOW_ADOPT_SECONDS", "RuleCache"]

log = structlog.get_logger(__name__)

RULES_CHANNEL: Final = "alert_rule_changed"
"""Channel of the database notification that rules changed; the payload is their organisation."""

_CHECKS_AT_ONCE: Final = 20_000
MOST_ADOPT_SECONDS: Final = 5.0
"""How long the messages of all plants may wait for the units of an organisation's rules."""
SLOW_ADOPT_SECONDS: Final = 0.5
"""How long the units of an organisation's rules may take to read, so that new rules get theirs without a pause."""
ADOPT_PAUSE_SECONDS: Final = 600.0
"""How long a rule that got no unit, and an organisation whose units take long to read, are left alone.

Each try reads which layouts the devices use that the rules watch.
"""

_SEARCH_PAUSE_SECONDS: Final = 1.0
"""There may be thousands of rules to search."""
_MOST_DOUBLINGS: Final = 7
"""Of the pause of an organisation whose units were not read in time again and again: up to 21 hours."""

_COMPARE: Final[dict[Condition, Callable[[float, float], bool]]] = {Condition.LT: lt, Condition.GT: gt, Condition.EQ: eq}


class RuleCache(NotifiedCache[tuple[int, int], Checks]):
    """The rules for each position in the frames of each source, by source and layout.

    The id of the organisation invalidates its entries, because its rules changed. The id of a plant invalidates the plant's,
    because it may have moved to another organisation.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(lambda _, own: (str(own.source.organization_id), str(own.source.plant_id)))
        self._database = database
        self._adopt_from: dict[UUID, float] = {}
        """Until when rules and organisations are left alone, by their ids."""
        self._unadopted: dict[UUID, Watch] = {}
        """Watches of rules without a unit, by rule: what is compiled already brings no new ones."""
        self._adopt_again_at = 0.0
        """When they are searched for an organisation to try again."""
        self._cancelled = Counter[UUID]()
        """How often the units of an organisation were not read in time, one time after the other."""

    def invalidate(self, tag: str) -> None:
        """Remove the entries with this tag. What compiles them again finds the rules that still exist."""
        super().invalidate(tag)
        self._unadopted = {id_: watch for id_, watch in self._unadopted.items() if str(watch.rule.organization_id) != tag}

    def invalidate_all(self) -> None:
        """Remove all entries."""
        super().invalidate_all()
        self._unadopted.clear()

    async def examine(self, frames: FrameBatch, now: datetime) -> Findings:
        """Apply the rules to the frames. Values older than `MAX_AGE_SECONDS` are ignored."""
        if watches := self._watches_to_try_again():
            await self._adopt_units(watches)
        known = await self.look_up(frames.latest.keys(), self._compile)
        found = Findings(checks={key: own for key, own in known.items() if own.checks})
        hits: dict[int, tuple[int, float, Check, SourceOwner]] = {}
        runs: dict[tuple[int, int], Run] = {}
        counts = Counter[UUID]()
        if not found.checks:
            return found
        since_pause = 0
        horizon = microseconds(now) - MAX_AGE_SECONDS * 1_000_000
        for (source_id, at, layout_id), values in frames.frames.items():
            own = found.checks.get((source_id, layout_id))
            if at < horizon or own is None:
                continue
            source, due, kept = own
            since_pause += len(due)
            if since_pause > _CHECKS_AT_ONCE:
                # Otherwise a batch with many values of a metric with many rules would block heartbeats.
                await asyncio.sleep(0)
                since_pause = 0
            for position in kept:
                # All rules of a metric share its values: each on its own, a thousand rules would take gigabytes for a batch.
                if (value := values[position]) is not None:
                    found.values.setdefault((source_id, layout_id, position), []).append((at, float(value)))
            for check in due:
                position, compare, threshold, keeps_state, rule, _, _ = check
                value = values[position]
                if value is None:
                    continue
                # A measured integer or boolean is only packed as a double.
                value = float(value)
                if not compare(value, threshold):
                    continue
                if not keeps_state:
                    if id(rule) not in hits or at < hits[id(rule)][0]:
                        hits[id(rule)] = (at, value, check, source)
                elif (source_id, id(check)) not in runs and counts[rule.organization_id] < MOST_STATES:
                    counts[rule.organization_id] += 1
                    runs[source_id, id(check)] = Run(check.watch(source), found.values[source_id, layout_id, position])
        found.hits, found.runs = _earliest(hits.values()), list(runs.values())
        return found

    async def _compile(self, missing: Collection[tuple[int, int]]) -> dict[tuple[int, int], Checks]:
        async with self._database.transaction() as db:
            sources = await source_owners(db, {source_id for source_id, _ in missing})
            owners = {source.plant_id: source.organization_id for source in sources.values()}
            rules = await store.enabled_of(db, set(owners.values()), owners)
            layouts = await layout_columns(db, {layout_id for _, layout_id in missing} if rules else ())
        compiler = _Compiler(rules, layouts)
        compiled = {
            (source_id, layout_id): compiler.checks_of(sources[source_id], layout_id)
            for source_id, layout_id in missing
            if source_id in sources
        }
        await self._adopt_units(compiler.without_unit)
        if compiler.unfit:
            async with self._database.transaction() as db:
                await report_unfit(db, compiler.unfit.values())
        return compiled

    def _watches_to_try_again(self) -> Mapping[UUID, Watch]:
        """Return the watches of one organisation whose pauses are over: each batch waits for the units of one at most."""
        now = time.monotonic()
        if not self._unadopted or now < self._adopt_again_at:
            return {}
        self._adopt_again_at = now + _SEARCH_PAUSE_SECONDS
        found = next(
            (watch.rule.organization_id for watch in self._unadopted.values() if not self._is_paused(watch, now)), None
        )
        return {id_: watch for id_, watch in self._unadopted.items() if watch.rule.organization_id == found}

    def _is_paused(self, watch: Watch, now: float) -> bool:
        return any(self._adopt_from.get(one, 0.0) > now for one in (watch.rule.id, watch.rule.organization_id))

    async def _adopt_units(self, without_unit: Mapping[UUID, Watch]) -> None:
        """Give rules without a unit the unit of their measurement, unless they or their organisation have a pause."""
        now = time.monotonic()
        self._adopt_from = {one: until for one, until in self._adopt_from.items() if until > now}
        self._unadopted |= without_unit
        due = defaultdict[UUID, list[Watch]](list)
        for watch in without_unit.values():
            if not self._is_paused(watch, now):
                due[watch.rule.organization_id].append(watch)
        for organization_id, watches in due.items():
            await self._adopt_units_of(organization_id, watches)

    async def _adopt_units_of(self, organization_id: UUID, watches: Sequence[Watch]) -> None:
        began = time.monotonic()
        self._adopt_from |= {watch.rule.id: began + ADOPT_PAUSE_SECONDS for watch in watches}
        pause = ADOPT_PAUSE_SECONDS
        try:
            with limit_statements(MOST_ADOPT_SECONDS):
                async with self._database.transaction() as db:
                    await adopt_units(db, watches)
        except QueryCanceled:
            log.warning("units of alert rules not read in time", organization_id=str(organization_id), rules=len(watches))
            pause *= 2 ** min(self._cancelled[organization_id], _MOST_DOUBLINGS)
            self._cancelled[organization_id] += 1
        else:
            self._cancelled.pop(organization_id, None)
            for watch in watches:
                self._unadopted.pop(watch.rule.id, None)
        if time.monotonic() - began > SLOW_ADOPT_SECONDS:
            # Otherwise an organisation could delay all others again and again with new rules.
            self._adopt_from[organization_id] = began + pause


_Owner = tuple[UUID, UUID | None]
"""Organisation and plant of a rule; None is every plant."""


class _Compiler:
    """Compiles rules to checks. Sources of the same plant and layout share the checks of rules that name no sub-device.

    Attributes:
        without_unit: By rule, one watch of each rule without a unit whose measurement has one.
        unfit: By rule, one watch of each rule whose unit cannot be converted.
    """

    def __init__(self, rules: Iterable[AlertRule], layouts: Mapping[int, LayoutColumns]) -> None:
        self._layouts = layouts
        self._rules: dict[_Owner, list[tuple[AlertRule, str]]] = defaultdict(list)
        self._named: dict[tuple[_Owner, str], list[tuple[AlertRule, str]]] = defaultdict(list)
        self._of_organizations: dict[tuple[UUID, int], tuple[Check, ...]] = {}
        self._of_plants: dict[tuple[UUID, int], tuple[tuple[Check, ...], tuple[int, ...]]] = {}
        self.without_unit: dict[UUID, Watch] = {}
        self.unfit: dict[UUID, Watch] = {}
        for rule in rules:
            owner = (rule.organization_id, rule.plant_id)
            self._rules[owner].append((rule, rule.metric))
            device, dot, key = rule.metric.partition(".")
            if dot:
                self._named[owner, device].append((rule, key))

    def checks_of(self, source: SourceOwner, layout_id: int) -> Checks:
        """Return the checks of a source's frames of a layout."""
        everywhere, here = (source.organization_id, None), (source.organization_id, source.plant_id)
        common = self._of_plants.get((source.plant_id, layout_id))
        if common is None:
            shared = self._of_organizations.get((source.organization_id, layout_id))
            if shared is None:
                shared = tuple(self._compile(self._rules.get(everywhere, ()), source, layout_id))
                self._of_organizations[source.organization_id, layout_id] = shared
            checks = (*shared, *self._compile(self._rules.get(here, ()), source, layout_id))
            common = self._of_plants[source.plant_id, layout_id] = (checks, _kept(checks))
        named: list[Check] = []
        if source.external_id is not None:
            for owner in (everywhere, here):
                named += self._compile(self._named.get((owner, source.external_id), ()), source, layout_id)
        if not named:
            return Checks(source, *common)
        checks = (*common[0], *named)
        return Checks(source, checks, _kept(checks))

    def _compile(self, rules: Iterable[tuple[AlertRule, str]], source: SourceOwner, layout_id: int) -> Iterator[Check]:
        """Yield the checks of (rule, key) in the layout, with thresholds in its units."""
        if (layout := self._layouts.get(layout_id)) is None:
            return
        for rule, key in rules:
            if (position := layout.positions.get(key)) is None:
                continue
            unit = layout.units[position]
            fitting = in_unit(rule, unit)
            check = Check(position, _COMPARE[rule.condition], rule.threshold, rule.keeps_state, rule, key, unit)
            if fitting is None:
                self.unfit[rule.id] = check.watch(source)
                continue
            if unit and rule.unit is None:
                self.without_unit[rule.id] = check.watch(source)
            yield check._replace(threshold=fitting.threshold, rule=fitting)


def _kept(checks: Iterable[Check]) -> tuple[int, ...]:
    return tuple(sorted({check.position for check in checks if check.keeps_state}))


def _earliest(hits: Iterable[tuple[int, float, Check, SourceOwner]]) -> dict[UUID, Hit]:
    # A rule that was compiled at different times for different plants is several objects, so hits are grouped by its
    # id.
    found: dict[UUID, Hit] = {}
    for at, value, check, source in sorted(hits, key=itemgetter(0)):
        found.setdefault(check.rule.id, Hit(check.watch(source), Point(at, value)))
    return found
