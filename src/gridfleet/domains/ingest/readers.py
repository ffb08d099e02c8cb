"""Read the fields of an entry into frames of a source: by its template or, without one, by the names of the fields."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite
from time import monotonic
from typing import Final

from gridfleet.domains.device_templates.decoder import FieldValues, SignalMap, own_metric
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

    is_crowded: Final = False

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
        self._names: dict[int, tuple[str, ...]] = {}
        """The names of each layout."""
        self._placed: dict[str, tuple[int, int]] = {}
        """Layout id and position of each name, active or not."""
        self._active: dict[str, tuple[int, int]] = {}
        """The same of active names."""
        self._seen: dict[str, datetime] = {}
        """When each name was last seen. Updated when the layouts are read, and when a name gets a position."""
        self._extend_from = 0.0
        """When new names may get positions, in monotonic seconds."""
        self._read_at: int | None = None
        """How many shards the process had taken when the layouts were read; None if they were not."""
        self.used_at = 0.0
        """When the source last sent an entry, in monotonic seconds."""
        self.is_crowded = False
        """Whether names have no position because the process has no room for names of the organisation."""

    @property
    def name_count(self) -> int:
        """The number of names in memory."""
        return len(self._placed)

    def lacks(self, fields: FieldValues) -> bool:
        """Return whether `extend` must run before `read`, and note that the source sends."""
        self.used_at = monotonic()
        if self._active.keys() >= fields.keys() or not self._new(fields):
            return False
        return self.used_at >= self._extend_from

    def needs_layouts(self, shards_taken: int, fields: FieldValues) -> bool:
        """Return whether `note_used` must run before `extend`.

        It need not if the layouts were read since the process took its last shard, and all of the entry's new names get
        positions even if no active name frees its own.
        """
        return self._read_at != shards_taken or len(self._active) + len(self._new(fields)) > MAX_NAMES

    def room_needed(self, fields: FieldValues) -> int:
        """Return how many of the entry's new names the limit of the source allows."""
        return max(0, min(MAX_NAMES - len(self._active), len(self._new(fields))))

    def wait(self, until: float) -> None:
        """Assign no positions before this time, in monotonic seconds: the process has no room for names of the organisation."""
        self._extend_from = until
        self.is_crowded = True

    def forget(self) -> None:
        """Remove the names from memory. They are read again when the source sends."""
        for own in (self._names, self._placed, self._active, self._seen):
            own.clear()
        self._extend_from = 0.0
        self._read_at = None

    async def extend(self, db: Connection, layouts: LayoutIdCache, fields: FieldValues, most: int) -> int:
        """Assign positions to the entry's new names, as far as there is room. Returns their number.

        Args:
            most: The most new names for which the plant and its organisation have room.
        """
        self.is_crowded = False
        new = self._new(fields)
        accepted = new[: min(self.room_needed(fields), most)]
        self._extend_from = monotonic() + (0 if accepted == new else _WHEN_FULL_SECONDS)
        for layout in frame_layouts([own_metric(name) for name in accepted if name not in self._placed]):
            self._place(await layouts.id_of(db, layout), [metric.key for metric in layout.metrics])
        self._active |= {name: self._placed[name] for name in accepted}
        self._seen |= dict.fromkeys(accepted, utc_now())
        return len(accepted)

    def without_room(self, fields: FieldValues) -> list[str]:
        """Return the entry's names that got no position."""
        return self._new(fields)

    def read(self, fields: FieldValues) -> tuple[list[Frame], int]:
        """Return the frames of an entry, and the number of its fields that were dropped."""
        # By the entry's fields: it may have one of thousands, thousands of times in one message.
        frames: dict[int, list[float | None]] = {}
        dropped = 0
        for name, raw in fields.items():
            found, value = self._active.get(name), _number(raw)
            if found is None or value is None:
                dropped += raw is not None
                continue
            layout_id, position = found
            values = frames.get(layout_id)
            if values is None:
                values = frames[layout_id] = [None] * len(self._names[layout_id])
            values[position] = value
        return list(frames.items()), dropped

    def named(self, frames: Sequence[Frame]) -> dict[str, float]:
        """Return the values of frames that `read` returned, by metric."""
        return _named(self._names, frames)

    def note_used(self, used: Sequence[SourceLayout], shards_taken: int) -> None:
        """Place the names of the layouts that the source has used, and activate those that were seen within `NAME_LIFE`.

        Args:
            used: What `used_layouts` returns now.
            shards_taken: How many shards the process had taken before.
        """
        self._read_at = shards_taken
        for layout in reversed(used):
            # Layouts of a device that had a template may share names. The newest layout keeps the name, so it is
            # written once.
            if layout.id not in self._names and self._placed.keys().isdisjoint(layout.metrics):
                self._place(layout.id, layout.metrics)
            if layout.id in self._names:
                for name, moment in zip(layout.metrics, layout.seen, strict=True):
                    self._seen[name] = max(moment, self._seen.get(name, moment))
        oldest = utc_now() - NAME_LIFE
        self._active = {name: self._placed[name] for name, moment in self._seen.items() if moment > oldest}

    def _place(self, layout_id: int, names: Sequence[str]) -> None:
        self._names[layout_id] = tuple(names)
        self._placed |= {name: (layout_id, position) for position, name in enumerate(names)}

    def _new(self, fields: FieldValues) -> list[str]:
        """Return the names of values that are not active, sorted."""
        return sorted(
            name for name, value in fields.items() if value is not None and name not in self._active and _KEY.fullmatch(name)
        )


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
