"""Matches of alert rules in a batch of frames, before the database is queried."""

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.alerts.conditions import Point
from gridfleet.domains.alerts.models import AlertRule

__all__ = ["Findings", "Hit", "Run", "RunKey", "Watch"]

RunKey = tuple[UUID, int, str]
"""Rule, source, name of the metric."""


class Watch(NamedTuple):
    """A rule on one metric of one source. `name` is `{externalId}.{key}`, or the key for the plant itself."""

    rule: AlertRule
    plant_id: UUID
    source_id: int
    name: str
    unit: str


class Hit(NamedTuple):
    """A value that meets its rule."""

    watch: Watch
    point: Point


@dataclass(slots=True)
class Run:
    """All values of a metric whose rule depends on more than one value.

    Attributes:
        points: Times and values. The runs of all rules of the metric share them.
        matched: Whether one of them meets the condition.
        newest: Time of the metric's newest value of earlier batches, if the rule needs it.
    """

    watch: Watch
    points: list[tuple[int, float]] = field(default_factory=list)
    matched: bool = False
    newest: int | None = None

    @property
    def key(self) -> RunKey:
        """The key of the state in the database."""
        return self.watch.rule.id, self.watch.source_id, self.watch.name


@dataclass(slots=True)
class Findings:
    """For rules on single values the earliest hit; for other rules all values, because the result depends on earlier ones."""

    hits: dict[UUID, Hit] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.hits or self.runs)
