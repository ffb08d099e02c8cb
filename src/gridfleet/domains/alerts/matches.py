"""What the rules make of a batch of frames, before the database is asked."""

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from gridfleet.domains.alerts.conditions import Point
from gridfleet.domains.alerts.models import AlertRule

__all__ = ["Findings", "Hit", "Run", "RunKey", "Watch"]

RunKey = tuple[UUID, int, str]
"""Rule, source, metric's name."""


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
    """Every value of a metric whose rule looks further than one of them.

    `matched`: one of them meets the condition. `newest`: time of the metric's newest value of earlier batches, where the rule
    needs it.
    """

    watch: Watch
    points: list[tuple[int, float]] = field(default_factory=list)
    matched: bool = False
    newest: int | None = None

    @property
    def key(self) -> RunKey:
        """What the database knows it by."""
        return self.watch.rule.id, self.watch.source_id, self.watch.name


@dataclass(slots=True)
class Findings:
    """Of rules that look at single values the earliest hit; of the others all values, since what came before counts."""

    hits: dict[UUID, Hit] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.hits or self.runs)
