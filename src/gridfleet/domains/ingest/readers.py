"""Read the fields of an entry into frames of a source: by its template or, without one, by the names of the fields."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import Final

from gridfleet.domains.device_templates.decoder import FieldValues, Metric, SignalMap
from gridfleet.domains.telemetry.frames.models import MAX_LAYOUT_METRICS, SourceLayout, frame_layouts
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["MAX_NAMES", "OwnNamesReader", "Reader", "TemplateReader"]

MAX_NAMES: Final = 4_000
"""How many names a source without a template may use within `NAME_LIFE`."""
NAME_LIFE: Final = timedelta(days=30)
_WHEN_FULL_SECONDS: Final = 3600
"""How often a source without room is checked for unused names."""

_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

Frame = tuple[int, Sequence[float | None]]
"""Layout id and values."""


class TemplateReader:
    """Reads fields by the signals of a template version."""

    def __init__(self, signals: SignalMap, layout_ids: Sequence[int]) -> None:
        self._signals = signals
        self._layout_ids = tuple(layout_ids)
        self._names = {
            layout_id: tuple(metric.key for metric in layout.metrics)
            for layout_id, layout in zip(layout_ids, frame_layouts(signals.metrics), strict=True)
        }
        self._declared_count = signals.declared_count

    @classmethod
    async def of(cls, db: Connection, layouts: LayoutIdCache, signals: SignalMap) -> "TemplateReader":
        """Create the reader, and its layouts if they do not exist."""
        return cls(signals, [await layouts.id_of(db, layout) for layout in frame_layouts(signals.metrics)])

    def lacks(self, fields: FieldValues) -> bool:
        """Return False: a template declares all its fields, so nothing has to be prepared."""
        return False

    async def extend(self, db: Connection, layouts: LayoutIdCache, used: Sequence[SourceLayout], fields: FieldValues) -> None:
        """Do nothing."""

    def without_room(self, fields: FieldValues) -> list[str]:
        """Return an empty list: every signal has a position."""
        return []

    def named(self, frames: Sequence[Frame]) -> dict[str, float]:
        """Return the values of frames that `read` returned, by metric."""
        return _named(self._names, frames)

    def read(self, fields: FieldValues) -> tuple[list[Frame], int]:
        """Return the frames of an entry, and the number of its fields that were dropped."""
        values = self._signals.decode(fields)
        if values is None:
            return [], len(fields)
        dropped = 0
        if len(fields) != self._declared_count or None in values:
            dropped = self._signals.undeclared(fields)
        if len(self._layout_ids) == 1:
            return [(self._layout_ids[0], values)], dropped
        parts = [values[start : start + MAX_LAYOUT_METRICS] for start in range(0, len(values), MAX_LAYOUT_METRICS)]
        return [
            (layout_id, part) for layout_id, part in zip(self._layout_ids, parts, strict=True) if part.count(None) < len(part)
        ], dropped


class OwnNamesReader:
    """Reads numeric fields under their own names. New names get a further layout; known names keep theirs.

    A source has at most `MAX_NAMES` active names. A name that was not seen for `NAME_LIFE` frees its room. When it occurs again
    it needs room again, and gets its old position.
    """

    def __init__(self) -> None:
        self._placed: dict[int, tuple[str, ...]] = {}
        self._known: frozenset[str] = frozenset()
        self._seen: dict[str, datetime] = {}
        self._active: frozenset[str] = frozenset()
        self._positions: dict[str, tuple[int, int]] = {}
        """Layout id and position of each active name."""
        self._extend_from: float | None = None
        """In monotonic seconds, because the clock may be set back."""

    def lacks(self, fields: FieldValues) -> bool:
        """Return whether `extend` must run before `read`."""
        if self._extend_from is None:
            return True
        if self._active.issuperset(fields) or self._active.issuperset(self._wanted(fields)):
            return False
        return time.monotonic() >= self._extend_from

    async def extend(self, db: Connection, layouts: LayoutIdCache, used: Sequence[SourceLayout], fields: FieldValues) -> None:
        """Assign positions to the entry's new names, as far as there is room. `used`: what `used_layouts` returns now."""
        now = utc_now()
        for layout in reversed(used):
            self._add(layout.id, layout.metrics, layout.seen)
        active = {name for name, seen in self._seen.items() if now - seen < NAME_LIFE}
        missing = sorted(set(self._wanted(fields)) - active)
        accepted = missing[: max(0, MAX_NAMES - len(active))]
        self._extend_from = time.monotonic() + (0 if accepted == missing else _WHEN_FULL_SECONDS)
        for new in frame_layouts([Metric(name, "") for name in accepted if name not in self._known]):
            names = [metric.key for metric in new.metrics]
            self._add(await layouts.id_of(db, new), names, [now] * len(names))
        self._seen |= dict.fromkeys(accepted, now)
        self._active = frozenset(active.union(accepted))
        self._positions = {
            name: (layout_id, position)
            for layout_id, names in self._placed.items()
            for position, name in enumerate(names)
            if name in self._active
        }

    def without_room(self, fields: FieldValues) -> list[str]:
        """Return the entry's names that got no position."""
        return [] if self._active.issuperset(fields) else sorted(set(self._wanted(fields)) - self._active)

    def read(self, fields: FieldValues) -> tuple[list[Frame], int]:
        """Return the frames of an entry, and the number of its fields that were dropped."""
        # By the entry's fields: it may have one of thousands, thousands of times in one message.
        frames: dict[int, list[float | None]] = {}
        dropped = 0
        for name, raw in fields.items():
            found, value = self._positions.get(name), _number(raw)
            if found is None or value is None:
                dropped += raw is not None
                continue
            layout_id, position = found
            values = frames.get(layout_id)
            if values is None:
                values = frames[layout_id] = [None] * len(self._placed[layout_id])
            values[position] = value
        return list(frames.items()), dropped

    def named(self, frames: Sequence[Frame]) -> dict[str, float]:
        """Return the values of frames that `read` returned, by metric."""
        return _named(self._placed, frames)

    def _add(self, layout_id: int, names: Sequence[str], seen: Sequence[datetime]) -> None:
        if layout_id not in self._placed:
            # Layouts of a device that had a template may share names. The newest layout keeps the name, so it is
            # written once.
            if not self._known.isdisjoint(names):
                return
            self._placed[layout_id] = tuple(names)
            self._known = self._known.union(names)
        for name, moment in zip(names, seen, strict=True):
            self._seen[name] = max(moment, self._seen.get(name, moment))

    @staticmethod
    def _wanted(fields: FieldValues) -> list[str]:
        return [name for name, value in fields.items() if value is not None and _KEY.fullmatch(name)]


def _named(names: Mapping[int, Sequence[str]], frames: Sequence[Frame]) -> dict[str, float]:
    return {
        name: float(value)  # a measured integer or boolean is only packed as a double
        for layout_id, values in frames
        for name, value in zip(names[layout_id], values, strict=True)
        if value is not None
    }


def _number(value: int | float | bool | None) -> float | None:
    try:
        number = None if value is None else float(value)
    except OverflowError:
        return None
    return number if number is not None and isfinite(number) else None


Reader = TemplateReader | OwnNamesReader
