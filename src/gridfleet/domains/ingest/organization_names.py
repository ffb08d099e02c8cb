"""The names that a process keeps in memory for the sources of an organisation that have no template."""

from collections.abc import Mapping
from math import inf
from time import monotonic
from typing import Final
from weakref import WeakSet

from gridfleet.domains.device_templates.decoder import FieldValues
from gridfleet.domains.ingest.readers import OwnNamesReader
from gridfleet.domains.telemetry.frames.lookup import count_used_names, used_layouts
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache
from gridfleet.kernel.db import Connection

__all__ = ["MAX_ORGANIZATION_NAMES", "UNUSED_SECONDS", "OrganizationNames"]

MAX_ORGANIZATION_NAMES: Final = 2_500_000
"""How many names of an organisation a process keeps in memory, and reads within `UNUSED_SECONDS` (docs/decisions/0448)."""
UNUSED_SECONDS: Final = 3600
"""If there is no room, the names of sources that have sent nothing for as long are forgotten, at most once in this time."""


class OrganizationNames:
    """The room for names of one organisation.

    The count only grows between two sweeps, also when a plant is deleted or read again. So it also bounds what the organisation
    makes the process read.
    """

    def __init__(self) -> None:
        self._full_until = -inf
        """Until when nothing more is read after there was no room, in monotonic seconds."""
        self._count = 0
        self._swept_at = -inf
        self._readers = WeakSet[OwnNamesReader]()

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read now: looking for sources whose names still fit would take time as well."""
        return monotonic() < self._full_until

    def refuse(self, reader: OwnNamesReader) -> None:
        """Drop further names of a source for as long as there is no room."""
        reader.wait(self._full_until)

    async def read(self, db: Connection, readers: Mapping[int, OwnNamesReader], shards_taken: int) -> set[int]:
        """Read the names of sources, as far as there is room. Returns the other sources.

        Args:
            readers: Their readers, by source.
            shards_taken: As in `OwnNamesReader.note_used`.
        """
        counts = await count_used_names(db, list(readers))
        more = {source_id: max(0, counts.get(source_id, 0) - reader.name_count) for source_id, reader in readers.items()}
        self._room_for(sum(more.values()))  # a sweep does not count what is not read yet
        refused = set[int]()
        for source_id, reader in readers.items():
            if self._room < more[source_id]:
                # In full or not at all: otherwise a name that has a position would get another one.
                self.refuse(reader)
                refused.add(source_id)
            else:
                self._add(reader, more[source_id])
        used = await used_layouts(db, [source_id for source_id in readers if source_id not in refused])
        for source_id, layouts in used.items():
            readers[source_id].note_used(layouts, shards_taken)
        return refused

    async def extend(
        self, db: Connection, layouts: LayoutIdCache, reader: OwnNamesReader, fields: FieldValues, plant_room: int
    ) -> int:
        """Assign positions to an entry's new names, as far as there is room. Returns their number."""
        wanted = min(reader.room_needed(fields), max(0, plant_room))
        room = self._room_for(wanted)
        added = await reader.extend(db, layouts, fields, room)
        self._add(reader, added)
        if room < wanted:
            self.refuse(reader)
        return added

    def _room_for(self, count: int) -> int:
        """Return for how many of so many further names there is room."""
        if self._room < count and monotonic() >= self._swept_at + UNUSED_SECONDS:
            self._sweep()
        if self._room < count:
            self._full_until = self._swept_at + UNUSED_SECONDS
        return min(count, self._room)

    def _add(self, reader: OwnNamesReader, count: int) -> None:
        """Count further names of a source."""
        self._count += count
        self._readers.add(reader)

    @property
    def _room(self) -> int:
        return max(0, MAX_ORGANIZATION_NAMES - self._count)

    def _sweep(self) -> None:
        """Forget the names of sources that send nothing, and count those of the others."""
        self._swept_at = monotonic()
        self._count = 0
        for reader in tuple(self._readers):
            if reader.used_at < self._swept_at - UNUSED_SECONDS:
                reader.forget()
                self._readers.discard(reader)
            self._count += reader.name_count
