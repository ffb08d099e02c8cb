"""Queries, the series that they select, and the pages of their responses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from math import inf, isnan
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates.decoder import Metric

__all__ = [
    "Bucket",
    "BucketPoint",
    "Column",
    "ColumnBucket",
    "HistoryQuery",
    "KeyedPosition",
    "LatestSignal",
    "LayoutIndex",
    "LayoutSource",
    "Newest",
    "Page",
    "Point",
    "Series",
    "SeriesPosition",
    "SeriesValues",
    "TelemetryPoint",
]


class Bucket(StrEnum):
    """Width of a bucket. Buckets are aligned to the epoch, in UTC; sorted from narrow to wide."""

    MINUTE = "1 minute"
    FIVE_MINUTES = "5 minutes"
    QUARTER_HOUR = "15 minutes"
    HOUR = "1 hour"
    DAY = "1 day"

    @property
    def width(self) -> timedelta:
        """How long a bucket lasts."""
        return _WIDTHS[self]


_WIDTHS = {
    Bucket.MINUTE: timedelta(minutes=1),
    Bucket.FIVE_MINUTES: timedelta(minutes=5),
    Bucket.QUARTER_HOUR: timedelta(minutes=15),
    Bucket.HOUR: timedelta(hours=1),
    Bucket.DAY: timedelta(days=1),
}


class ColumnBucket(StrEnum):
    """Width of a bucket of columns. Aligned as `Bucket`; sorted from narrow to wide.

    Each is a multiple of a level of roll-ups, except those below a minute, which are computed from frames.
    """

    TEN_SECONDS = "10 seconds"
    THIRTY_SECONDS = "30 seconds"
    MINUTE = "1 minute"
    TWO_MINUTES = "2 minutes"
    FIVE_MINUTES = "5 minutes"
    TEN_MINUTES = "10 minutes"
    QUARTER_HOUR = "15 minutes"
    HALF_HOUR = "30 minutes"
    HOUR = "1 hour"
    TWO_HOURS = "2 hours"
    THREE_HOURS = "3 hours"
    SIX_HOURS = "6 hours"
    HALF_DAY = "12 hours"
    DAY = "1 day"
    WEEK = "7 days"
    MONTH = "30 days"

    @property
    def width(self) -> timedelta:
        """How long a bucket lasts."""
        number, unit = self.value.split()
        return int(number) * _UNITS[unit.rstrip("s")]


_UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Points of a plant with `start` <= time < `end`; of one metric, or of all; raw, or in buckets."""

    plant_id: UUID
    start: datetime
    end: datetime
    metric: str | None = None
    bucket: Bucket | None = None


@dataclass(frozen=True)
class LayoutIndex:
    """A layout for readers, or a part of it: its metrics by position (from 0), and the position of each key."""

    id: int
    metrics: Sequence[Metric] | Mapping[int, Metric]
    positions: Mapping[str, int]

    def of(self, key: str) -> Metric:
        """Return the metric with this key, which the layout has."""
        return self.metrics[self.positions[key]]

    @cached_property
    def by_key(self) -> "tuple[KeyedPosition, ...]":
        """Its positions in the order of their keys."""
        return tuple(
            KeyedPosition(key, number, *_range(self.metrics[number])) for key, number in sorted(self.positions.items())
        )


@dataclass(frozen=True, slots=True)
class LayoutSource:
    """A source of frames: the plant (`external_id` None) or a sub-device, which may be deleted."""

    id: int
    external_id: str | None
    layouts: tuple[LayoutIndex, ...]


class SeriesPosition(NamedTuple):
    """The position of a series in frames of one source and layout; `number` counts from 0.

    Values outside `low`…`high` are flagged.
    """

    source_id: int
    layout_id: int
    number: int
    unit: str | None
    low: float
    high: float

    @classmethod
    def of(cls, source_id: int, layout: LayoutIndex, number: int) -> "SeriesPosition":
        """Return the position of a layout's metric."""
        return cls(source_id, layout.id, number, *_range(layout.metrics[number]))


class KeyedPosition(NamedTuple):
    """The position of a metric in frames of one layout; `number` counts from 0. Values outside `low`…`high` are flagged."""

    key: str
    number: int
    unit: str | None
    low: float
    high: float


def _range(metric: Metric) -> tuple[str | None, float, float]:
    low, high = metric.minimum, metric.maximum
    return metric.unit or None, -inf if low is None or isnan(low) else low, inf if high is None or isnan(high) else high


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of a plant over time: `key`, or `{sub_device}.{key}`.

    It has several positions if its device's template was edited, or if the device was deleted and created again. If two of them
    have a value of the same time, the first in `positions` is used.
    """

    metric: str
    sub_device: str | None
    positions: tuple[SeriesPosition, ...]

    @property
    def unit(self) -> str | None:
        """The newest unit."""
        return self.positions[0].unit


@dataclass(frozen=True, slots=True)
class SeriesValues:
    """Times (microseconds since 2000-01-01 UTC, ascending, distinct) and values of one series.

    The unit and limits are the same for all values: those of the first position of the series.
    """

    series: Series
    times: Sequence[int]
    values: Sequence[float]


Point = tuple[datetime, Series, SeriesPosition, float]
"""One raw value. A plain tuple, because one response may have half a million."""


class BucketPoint(NamedTuple):
    """Aggregates of the values of one series in one bucket; `size` is their number and `time` the bucket's start."""

    time: datetime
    series: Series
    average: float
    minimum: float
    maximum: float
    size: int


class Column(NamedTuple):
    """Aggregates of one series in consecutive buckets; None where a bucket has no value."""

    series: Series
    average: list[float | None]
    minimum: list[float | None]
    maximum: list[float | None]


Page = SeriesValues | Iterator[Point] | list[BucketPoint]
"""A part of a response, its points by time, then by metric."""


class TelemetryPoint(msgspec.Struct, frozen=True):
    """One value of a plant's metric. `metadata` has `subDevice` and `outOfRange` where they apply."""

    time: datetime
    plant_id: UUID
    metric: str
    value: float
    unit: str | None
    metadata: dict[str, Any]


class Newest(NamedTuple):
    """The newest value of a metric of a plant (`sub_device` None) or of a sub-device."""

    sub_device: str | None
    position: KeyedPosition
    time: datetime
    value: float


class LatestSignal(msgspec.Struct, frozen=True):
    """The newest value of a sub-device's metric."""

    metric: str
    time: datetime
    unit: str | None
    value: float
