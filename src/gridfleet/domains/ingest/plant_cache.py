"""Cache of the plants of this process with keys, readers and sources."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.decoder import SignalMap
from gridfleet.domains.device_templates.models import DeviceTemplate, Signal
from gridfleet.domains.ingest.cached_plants import MAX_PLANT_NAMES, CachedDevice, CachedPlant, Presence
from gridfleet.domains.ingest.early_messages import EarlyMessages
from gridfleet.domains.ingest.organization_names import OrganizationNames
from gridfleet.domains.ingest.readers import NAME_LIFE, OwnNamesReader, Reader, TemplateReader
from gridfleet.domains.plants.ingest_plants import IngestDevice, IngestPlant, load_ingest_devices, load_ingest_plants
from gridfleet.domains.telemetry.frames.lookup import count_own_names, load_device_sources, load_sources
from gridfleet.domains.telemetry.frames.models import Source
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.notified_cache import NotifiedCache
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["PlantCache"]

_COUNT_SECONDS: Final = 3600
"""How often the names of a plant without room are counted again."""
_MOST_OUTDATED: Final = 1_000
"""How many changed sub-devices of a plant are noted. Beyond that, all of the plant are read at its next message."""


@dataclass(slots=True, eq=False)
class _Sources:
    """The sources of a plant. They stay cached while the plant itself is read again."""

    plant_source_id: int | None = None
    """None until the sources are read for the first time."""
    devices: dict[str, CachedDevice] = field(default_factory=dict)
    noted: dict[UUID, CachedDevice] = field(default_factory=dict)
    """As in `CachedPlant`."""
    outdated: set[str] = field(default_factory=set)
    """External ids of the sub-devices that have changed since they were read."""


class PlantCache(NotifiedCache[str, CachedPlant]):
    """Plants by the id in their topics.

    A plant may have tens of thousands of sub-devices, and other plants wait while they are read. So a change of the plant reads
    none of them again, and a change of a sub-device only that one.
    """

    def __init__(self, database: Database, keyring: Keyring) -> None:
        super().__init__()
        self._database = database
        self._keyring = keyring
        self._sources: dict[str, _Sources] = {}
        self._outdated: set[str] = set()
        """Plants with outdated sub-devices."""
        self._refreshing = asyncio.Lock()
        self._template_readers: dict[tuple[UUID, int], TemplateReader] = {}
        self._shards_taken = 0
        self._organization_names: dict[UUID, OrganizationNames] = {}
        self.layouts = LayoutIdCache()
        self.early_messages = EarlyMessages()

    async def plants(self, plant_ids: Iterable[str]) -> dict[str, CachedPlant]:
        """Return those of the plants that exist, by id. Those that are outdated or not cached are read from the database."""
        found = await self.look_up(set(plant_ids), self._read)
        if not self._outdated.isdisjoint(found):
            await self._refresh(self._outdated & found.keys())
        return found

    async def _read(self, plant_ids: Iterable[str]) -> dict[str, CachedPlant]:
        wanted = {plant_id: UUID(plant_id) for plant_id in plant_ids if _is_canonical(plant_id)}
        if not wanted:
            return {}
        sources = {plant_id: self._sources.setdefault(plant_id, _Sources()) for plant_id in wanted}
        async with self._database.transaction() as db:
            connected = await load_ingest_plants(db, self._keyring, list(wanted.values()))
            unread = [plant.id for plant in connected if sources[str(plant.id)].plant_source_id is None]
            await self._read_sources(db, unread, sources)
            own = await templates_by_id(db, {plant.template_id for plant in connected if plant.template_id})
            found = {
                str(plant.id): await self._cached_plant(db, plant, sources[str(plant.id)], own)
                for plant in connected
                if sources[str(plant.id)].plant_source_id is not None  # otherwise it was deleted in the meantime
            }
        for plant_id in wanted.keys() - found.keys():
            self._sources.pop(plant_id, None)
        return found

    async def _read_sources(self, db: Connection, plant_ids: Collection[UUID], sources: Mapping[str, _Sources]) -> None:
        """Read plants' sources for the first time."""
        if not plant_ids:
            return
        devices = await load_ingest_devices(db, plant_ids, {})
        rows = await load_sources(db, list(plant_ids))
        read = await self._cached_devices(db, devices, rows)
        for plant_id, own in rows.items():
            into = sources[str(plant_id)]
            # Another read of the plant may have been faster, and its sub-devices may have been refreshed since.
            if into.plant_source_id is None:
                into.plant_source_id = next((source.id for source in own if source.external_id is None), None)
                into.devices |= read.get(plant_id, {})

    async def _refresh(self, plant_ids: Collection[str]) -> None:
        """Read the outdated sub-devices of plants."""
        async with self._refreshing:  # otherwise a slower read could replace what a later one has found
            sources = {UUID(plant_id): own for plant_id in plant_ids if (own := self._sources.get(plant_id)) is not None}
            named = {
                plant_id: own.outdated for plant_id, own in sources.items() if own.outdated and own.plant_source_id is not None
            }
            if not named:
                return
            for plant_id in named:
                sources[plant_id].outdated = set()
            self._outdated.difference_update(map(str, named))
            try:
                async with self._database.transaction() as db:
                    devices = await load_ingest_devices(db, (), named)
                    found = await self._cached_devices(db, devices, await load_device_sources(db, named))
            except BaseException:
                for plant_id, names in named.items():
                    sources[plant_id].outdated |= names
                    self._outdated.add(str(plant_id))
                raise
            for plant_id, names in named.items():
                for name in names:
                    if former := sources[plant_id].devices.pop(name, None):
                        sources[plant_id].noted.pop(former.id, None)
                sources[plant_id].devices |= found.get(plant_id, {})
                if plant := self.find(str(plant_id)):
                    plant.names = None

    def invalidate(self, tag: str) -> None:
        """Read a plant and all its sub-devices again at its next message."""
        self._sources.pop(tag, None)
        self._outdated.discard(tag)
        super().invalidate(tag)

    def note_change(self, plant_id: str) -> None:
        """Read a plant, but not its sub-devices, again at its next message, which writes all statuses."""
        self.invalidate_status(plant_id)
        super().invalidate(plant_id)

    def note_device(self, plant_id: str, external_id: str) -> None:
        """Read a sub-device again at the next message of its plant."""
        if sources := self._sources.get(plant_id):
            sources.outdated.add(external_id)
            self._outdated.add(plant_id)
            if len(sources.outdated) > _MOST_OUTDATED:
                self.invalidate(plant_id)

    async def make_room(
        self, plant: CachedPlant, new: Collection[tuple[CachedDevice, dict[str, int | float | bool | None]]]
    ) -> None:
        """Assign positions to new field names of the plant's devices without a template.

        This uses a transaction of its own, because positions stay valid if the batch fails.

        Args:
            plant: The plant, whose number of names is updated.
            new: Devices, each with the fields of an entry that need positions.
        """
        own = [(device.source_id, device.reader, fields) for device, fields in new if isinstance(device.reader, OwnNamesReader)]
        known = self._organization_names.setdefault(plant.organization_id, OrganizationNames())
        if known.is_full:
            for _, reader, _ in own:
                known.refuse(reader)
            return
        taken = self._shards_taken
        unread = {source_id: reader for source_id, reader, fields in own if reader.needs_layouts(taken, fields)}
        async with self._database.transaction() as db:
            refused = await known.read(db, unread, taken) if unread else set()
            names = await self._count_names(db, plant)
            for source_id, reader, fields in own:
                if source_id not in refused:
                    names += await known.extend(db, self.layouts, reader, fields, MAX_PLANT_NAMES - names)
            plant.names = names

    async def _count_names(self, db: Connection, plant: CachedPlant) -> int:
        now = time.monotonic()
        if plant.names is None or (not plant.has_room and now >= plant.count_names_from):
            plant.count_names_from = now + _COUNT_SECONDS
            return await count_own_names(db, plant.id, utc_now() - NAME_LIFE)
        return plant.names

    def note_shard_taken(self) -> None:
        """Mark the cached layouts as outdated: those of a device are read again when it sends a new field name.

        Another process may have held the plant's shard and assigned positions. A name with two positions would be stored twice
        for the same time.
        """
        self._shards_taken += 1

    def invalidate_status(self, plant_id: str) -> None:
        """Write the statuses of a plant that has gone OFFLINE, and of its sub-devices, at its next message.

        The last message that was read before may be newer than OFFLINE; it is noted in `early_messages`.
        """
        if plant := self.find(plant_id):
            self.early_messages.note(plant)
            plant.invalidate_status()

    def invalidate_all(self) -> None:
        """Remove everything, including layouts: a layout that was created in a failed transaction does not exist."""
        super().invalidate_all()
        self._sources.clear()
        self._outdated.clear()
        self._template_readers.clear()
        self._organization_names.clear()
        self.layouts = LayoutIdCache()

    async def _cached_plant(
        self, db: Connection, plant: IngestPlant, sources: _Sources, templates: Mapping[UUID, DeviceTemplate]
    ) -> CachedPlant:
        keys: list[tuple[bytes, int | None]] = []
        if plant.keys is not None:
            keys.append((plant.keys.current, None))
            if plant.keys.previous is not None and plant.keys.previous_valid_until is not None:
                keys.append((plant.keys.previous, int(plant.keys.previous_valid_until.timestamp() * 1000)))
        assert sources.plant_source_id is not None
        reader = await self._reader(db, plant.template_id, templates)
        return CachedPlant(
            plant.id,
            plant.organization_id,
            plant.lifecycle_status,
            tuple(keys),
            CachedDevice(plant.id, None, sources.plant_source_id, reader),
            sources.devices,
            sources.noted,
            plant.unreadable,
            presence=Presence(interval_seconds=plant.interval_seconds),
        )

    async def _cached_devices(
        self, db: Connection, devices: Mapping[UUID, list[IngestDevice]], sources: Mapping[UUID, list[Source]]
    ) -> dict[UUID, dict[str, CachedDevice]]:
        """Return sub-devices by plant and external id, except those that were deleted before their source was read."""
        templates = await templates_by_id(db, {one.template_id for own in devices.values() for one in own if one.template_id})
        found: dict[UUID, dict[str, CachedDevice]] = {}
        for plant_id, own in devices.items():
            ids = {source.external_id: source.id for source in sources.get(plant_id, ())}
            found[plant_id] = {
                one.external_id: CachedDevice(
                    one.id,
                    one.external_id,
                    ids[one.external_id],
                    await self._reader(db, one.template_id, templates),
                    presence=Presence(interval_seconds=one.interval_seconds),
                )
                for one in own
                if one.external_id in ids
            }
        return found

    async def _reader(self, db: Connection, template_id: UUID | None, templates: Mapping[UUID, DeviceTemplate]) -> Reader:
        template = templates.get(template_id) if template_id else None
        if template is None:
            return OwnNamesReader()
        key = (template.id, template.version)
        if key not in self._template_readers:
            signals = SignalMap(msgspec.convert(template.signals, list[Signal]))
            self._template_readers[key] = await TemplateReader.of(db, self.layouts, signals)
        return self._template_readers[key]


def _is_canonical(plant_id: str) -> bool:
    try:
        return str(UUID(plant_id)) == plant_id
    except ValueError:
        return False
