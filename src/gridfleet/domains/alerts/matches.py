"""Matches of alert rules in a batch of frames, before the database is queried."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.alerts.conditions import Point
from gridfleet.domains.alerts.models import AlertRule
from gridfleet.domains.telemetry.frames.models import SourceOwner

__all__ = ["MOST_STATES", "Check", "Checks", "Findings", "Hit", "Run", "RunKey", "Watch"]

MOST_STATES: Final = 20_000
"""The most states of an organisation: each takes 60 µs of a batch's transaction (docs/decisions/0281)."""

RunKey = tuple[UUID, int, str]
"""Rule, source, name of the metric."""

Points = list[tuple[int, float]]
"""Times and values of a metric."""


class Watch(NamedTuple):
    """A rule on one metric of one source. `name` is `{externalId}.{key}`, or the key for the plant itself."""

    rule: AlertRule
    plant_id: UUID
    source_id: int
    name: str
    unit: str


class Check(NamedTuple):
    """One rule at one position of a layout's frames. Sources share it: a thousand devices may have a thousand rules each.

    `rule` has its thresholds in `unit`, the unit of the position.
    """

    position: int
    compare: Callable[[float, float], bool]
    threshold: float
    keeps_state: bool
    rule: AlertRule
    key: str
    unit: str

    def watch(self, source: SourceOwner) -> Watch:
        """Return the check as a watch of one source."""
        name = self.key if source.external_id is None else f"{source.external_id}.{self.key}"
        return Watch(self.rule, source.plant_id, source.id, name, self.unit)


class Checks(NamedTuple):
    """The checks of a source's frames of one layout. `kept` are the positions whose rules depend on more than one value."""

    source: SourceOwner
    checks: tuple[Check, ...]
    kept: tuple[int, ...]


class Hit(NamedTuple):
    """A value that meets its rule."""

    watch: Watch
    point: Point


class Run(NamedTuple):
    """All values of a metric whose rule depends on more than one value. The runs of all rules of the metric share them."""

    watch: Watch
    points: Points

    @property
    def key(self) -> RunKey:
        """The key of the state in the database."""
        return self.watch.rule.id, self.watch.source_id, self.watch.name


@dataclass(slots=True)
class Findings:
    """The earliest hits of rules on single values; for other rules all values, because the result depends on earlier ones.

    Attributes:
        hits: The hits by rule.
        runs: The runs with a value that meets the condition.
        checks: The checks of each source and layout with `values`.
        values: The values of each (source, layout, position) whose rules depend on more than one.
        newest: Time of the newest value of earlier batches, by source and name of the metric, where a rule needs it.
    """

    hits: dict[UUID, Hit] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    checks: dict[tuple[int, int], Checks] = field(default_factory=dict)
    values: dict[tuple[int, int, int], Points] = field(default_factory=dict)
    newest: dict[tuple[int, str], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.hits or self.values)

    def runs_of(self, keys: Collection[RunKey]) -> list[Run]:
        """Return the runs with these keys, without those that have no values or whose rule no longer watches the metric."""
        rules: dict[int, set[UUID]] = {}
        for rule_id, source_id, _ in keys:
            rules.setdefault(source_id, set()).add(rule_id)
        found: list[Run] = []
        for (source_id, layout_id), (source, checks, _) in self.checks.items():
            if (wanted := rules.get(source_id)) is None:
                continue
            for check in checks:
                if not check.keeps_state or check.rule.id not in wanted:
                    continue
                if points := self.values.get((source_id, layout_id, check.position)):
                    found.append(Run(check.watch(source), points))
        return [run for run in found if run.key in keys]
