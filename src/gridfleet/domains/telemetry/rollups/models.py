"""Levels of roll-ups, their coverage and their retention."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple
from uuid import UUID

__all__ = ["Days", "Kept", "Level", "Reach", "SetAsideHour", "Stale"]


class Level(Enum):
    """A table of roll-ups."""

    MINUTE = "telemetry_minute"
    QUARTER = "telemetry_quarter"
    HOUR = "telemetry_hour"
    DAY = "telemetry_day"

    @property
    def table(self) -> str:
        """Name of the table."""
        return self.value

    @property
    def width(self) -> timedelta:
        """Width of its buckets."""
        return _WIDTHS[self]


_WIDTHS = {
    Level.MINUTE: timedelta(minutes=1),
    Level.QUARTER: timedelta(minutes=15),
    Level.HOUR: timedelta(hours=1),
    Level.DAY: timedelta(days=1),
}


class Stale(NamedTuple):
    """An hour of a source whose roll-ups do not include all its frames."""

    source_id: int
    hour: datetime


class LayoutHour(NamedTuple):
    """An hour of one of a source's layouts that is to be rolled up, and whether its minutes and quarters are still kept."""

    source_id: int
    layout_id: int
    hour: datetime
    metrics: int
    keeps_minutes: bool
    keeps_quarters: bool


class SetAsideHour(NamedTuple):
    """An hour that could not be rolled up, with the last error. `external_id` is None for the plant itself."""

    plant_id: UUID
    external_id: str | None
    hour: datetime
    error: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Reach:
    """The coverage of the roll-ups of some sources.

    Hours from `watermark` on and `dirty` ones must be computed from frames, which exist from `raw_from` on. Minutes and
    quarters exist from `minutes_from` and `quarters_from` on.
    """

    watermark: datetime
    raw_from: datetime
    minutes_from: datetime
    quarters_from: datetime
    dirty: frozenset[datetime]

    def level_from(self, level: Level) -> datetime | None:
        """Return the start of the level; None if it is kept without limit."""
        return {Level.MINUTE: self.minutes_from, Level.QUARTER: self.quarters_from}.get(level)


class Days(NamedTuple):
    """Retention in days; hours and days are kept without limit."""

    raw: int
    minute: int
    quarter: int


class Kept(NamedTuple):
    """A table that retention trims: its time column, and the column of the source that holds the start of its data."""

    table: str
    time: str
    column: str
    monthly: bool
    """Whether a partition covers a month; otherwise a day."""
