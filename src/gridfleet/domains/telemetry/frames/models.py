"""Layouts and frames."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates.decoder import Metric

__all__ = [
    "MAX_LAYOUT_METRICS",
    "FrameBatch",
    "FrameLayout",
    "LayoutColumns",
    "NewestOfBatch",
    "Source",
    "SourceLayout",
    "SourceOwner",
    "Values",
    "frame_layouts",
    "microseconds",
    "pack_latest_row",
    "pack_row",
    "to_datetime",
]

MAX_LAYOUT_METRICS: Final = 200
"""Keeps a row under 2 kB, below which PostgreSQL stores it inline. Devices with more metrics have several layouts."""

Values = Sequence[float | None]

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 2000-01-01 UTC, PostgreSQL's own representation of a timestamp."""
    return (moment - _EPOCH) // _MICROSECOND


def to_datetime(value: int) -> datetime:
    """Convert microseconds since 2000-01-01 UTC to a time."""
    return _EPOCH + value * _MICROSECOND


class Source(NamedTuple):
    """A source of frames. `external_id` is None for the plant itself."""

    id: int
    external_id: str | None


class SourceLayout(NamedTuple):
    """A layout of a source.

    Attributes:
        seen: For each metric, the time of its newest value or, if later, the time at which its position was assigned.
    """

    id: int
    metrics: list[str]
    seen: list[datetime]


class FrameLayout(msgspec.Struct, frozen=True):
    """The metric at each position of a frame."""

    metrics: tuple[Metric, ...]

    @property
    def digest(self) -> bytes:
        """Hash of the content. Devices with equal metrics share a layout."""
        scalings = self.scalings
        return self.plain_digest if scalings is None else sha256(self.plain_digest + msgspec.json.encode(scalings)).digest()

    @property
    def plain_digest(self) -> bytes:
        """Hash of the content without the scalings, which earlier releases did not store."""
        content = [(m.key, m.unit, m.counter, m.minimum, m.maximum) for m in self.metrics]
        return sha256(msgspec.json.encode(content)).digest()

    @property
    def scalings(self) -> list[str | None] | None:
        """The scaling of each metric; None if no metric has one."""
        scalings = [metric.scaling for metric in self.metrics]
        return scalings if any(scalings) else None


def frame_layouts(metrics: Sequence[Metric]) -> list[FrameLayout]:
    """Split the metrics of a device into layouts."""
    return [
        FrameLayout(tuple(metrics[start : start + MAX_LAYOUT_METRICS])) for start in range(0, len(metrics), MAX_LAYOUT_METRICS)
    ]


@dataclass(slots=True)
class NewestOfBatch:
    """The newest values of one source and layout within a batch. Times are microseconds since 2000-01-01 UTC.

    `times` has the time of each value; it is None while all of them have the time `time`.
    """

    time: int
    vals: Values
    times: list[int] | None


class FrameBatch:
    """Frames of one transaction, one per (source, time, layout): a statement of PostgreSQL cannot update the same row twice.

    A later frame with the same key overwrites each value that it has; a missing value never removes one.
    """

    def __init__(self) -> None:
        self.frames: dict[tuple[int, int, int], Values] = {}
        self.latest: dict[tuple[int, int], NewestOfBatch] = {}
        self.outdated: set[tuple[int, int, int]] = set()
        """Keys of the frames that are not stored, because retention would delete them within the hour."""

    def add(self, source_id: int, layout_id: int, time: int, vals: Values) -> None:
        """Add one frame. `time` is in `microseconds`."""
        key = (source_id, time, layout_id)
        earlier = self.frames.get(key)
        self.frames[key] = (
            vals if earlier is None else [old if new is None else new for new, old in zip(vals, earlier, strict=True)]
        )
        owner = (source_id, layout_id)
        row = self.latest.get(owner)
        if row is None or (row.times is None and time >= row.time and None not in vals):
            self.latest[owner] = NewestOfBatch(time, vals, None)
        else:
            _advance(row, time, vals)


def _advance(row: NewestOfBatch, time: int, vals: Values) -> None:
    times = row.times or [row.time] * len(row.vals)
    merged = list(row.vals)
    for position in [position for position, value in enumerate(vals) if value is not None]:
        if merged[position] is None or time >= times[position]:
            merged[position] = vals[position]
            times[position] = time
    row.vals = merged
    row.time = max(row.time, time)
    row.times = None if all(t == row.time for t in times) else times


class _RowFormat:
    """Binary COPY rows of (source_id, layout_id, time, vals) for a fixed number of values, without NULLs."""

    def __init__(self, count: int) -> None:
        array_bytes = 20 + 12 * count
        self._struct = struct.Struct(">hiiiiiqiiiiii" + "id" * count)
        self._row: list[int | float] = [4, 4, 0, 4, 0, 8, 0, array_bytes, 1, 0, _FLOAT8_OID, count, 1, *([8, 0.0] * count)]

    def pack(self, source_id: int, layout_id: int, time: int, vals: Values) -> bytes:
        row = self._row
        row[2] = source_id
        row[4] = layout_id
        row[6] = time
        row[14::2] = vals  # type: ignore[assignment]
        return self._struct.pack(*row)


_FLOAT8_OID: Final = 701
_formats: dict[int, _RowFormat] = {}


def pack_row(source_id: int, layout_id: int, time: int, vals: Values) -> bytes:
    """Return one row for binary COPY of (source_id, layout_id, time, vals). `time` is in `microseconds`."""
    count = len(vals)
    row_format = _formats.get(count)
    if row_format is None:
        row_format = _formats[count] = _RowFormat(count)
    try:
        return row_format.pack(source_id, layout_id, time, vals)
    except struct.error:
        return _pack_sparse(source_id, layout_id, time, vals)


def _pack_sparse(source_id: int, layout_id: int, time: int, vals: Values) -> bytes:
    elements = b"".join(_NULL if value is None else _element(8, value) for value in vals)
    return (
        struct.pack(
            ">hiiiiiqiiiiii",
            *(4, 4, source_id, 4, layout_id, 8, time, 20 + len(elements), 1, 1, _FLOAT8_OID, len(vals), 1),
        )
        + elements
    )


def pack_latest_row(source_id: int, layout_id: int, row: NewestOfBatch) -> bytes:
    """Return one row for binary COPY of (source_id, layout_id, time, vals, absent, times)."""
    absent = ",".join(str(position) for position, value in enumerate(row.vals) if value is None).encode()
    if row.times is None:
        times = _NULL
    else:
        count = len(row.times)
        elements = b"".join(_timestamp(8, time) for time in row.times)
        times = struct.pack(">iiiiii", 20 + 12 * count, 1, 0, _TIMESTAMPTZ_OID, count, 1) + elements
    frame = pack_row(source_id, layout_id, row.time, row.vals)
    return b"\0\6" + frame[2:] + struct.pack(">i", len(absent)) + absent + times


_TIMESTAMPTZ_OID: Final = 1184
_timestamp: Final = struct.Struct(">iq").pack
_NULL: Final = struct.pack(">i", -1)
_element: Final = struct.Struct(">id").pack


class SourceOwner(NamedTuple):
    """The organisation and plant of a source. `external_id` is None for the plant itself."""

    id: int
    organization_id: UUID
    plant_id: UUID
    external_id: str | None


@dataclass(frozen=True)
class LayoutColumns:
    """Keys and units of a layout's metrics, in the order of their positions."""

    layout_id: int
    keys: list[str]
    units: list[str]

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each key, from 0."""
        return {key: position for position, key in enumerate(self.keys)}
