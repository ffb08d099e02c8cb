"""Cache of the plants of this process with keys, readers and sources."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Final
from uuid import UUID

import msgspec

from gridfleet.domains.device_templates.catalogue import templates_by_id
from gridfleet.domains.device_templates.decoder import SignalMap
from gridfleet.domains.device_templates.models import DeviceTemplate, Signal
from gridfleet.domains.ingest.readers import NAME_LIFE, OwnNamesReader, Reader, TemplateReader
from gridfleet.domains.plants.ingest_plants import IngestPlant, load_ingest_plants
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus
from gridfleet.domains.telemetry.frames.lookup import count_own_names, load_sources, used_layouts
from gridfleet.domains.telemetry.frames.writer import LayoutIdCache
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.db.notified_cache import NotifiedCache
from gridfleet.kernel.security.keyring import Keyring

__all__ = ["MAX_PLANT_NAMES", "CachedDevice", "CachedPlant", "PlantCache"]

MAX_PLANT_NAMES: Final = 100_000
"""How many names the sources of a plant that have no template may use within `NAME_LIFE`, together (docs/decisions/0300)."""
_COUNT_SECONDS: Final = 3600
"""How often the names of a plant without room are counted again."""
PRESENCE_EVERY_MS: Final = 10_000
"""The most that `lastSeenAt` may lag: one write per device and interval instead of one per message."""
_SMOOTHING: Final = 0.2
_SILENT_INTERVALS: Final = 3
_LEAST_SILENCE_SECONDS: Final = 90
"""A source that sends nothing for three usual intervals, at least 90 s, is set to OFFLINE."""
_ONE_REPORT_MS: Final = 1000
_DELAY_SMOOTHING: Final = 0.01


@dataclass(slots=True)
class Presence:
    """When telemetry of a plant or device arrived, how often it sends, and when its presence was last written.

    All times are in epoch milliseconds.

    Attributes:
        last_at: When the last message was read, or the first of those that count as one; None if none counts.
        last_sent_at: The `sentAt` of that message.
        written_at: When the presence was last written to the database.
        interval_seconds: Usual time between messages; None before the second one.
    """

    last_at: float | None = None
    last_sent_at: int = 0
    written_at: float = -inf
    interval_seconds: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether presence is to be written: the last time was `PRESENCE_EVERY_MS` ago, or the clock was set back."""
        return not self.written_at <= now < self.written_at + PRESENCE_EVERY_MS

    def note_message(self, now: float, sent_at: int) -> None:
        """Record a message of telemetry that was sent at `sent_at`, and smooth the interval between messages."""
        if self.last_at is not None and now > self.last_at:
            gap = now - self.last_at
            # Several messages may carry one report. Counted one by one, they would make a slow source seem fast.
            if gap < _ONE_REPORT_MS:
                return
            # So would messages that waited while the service was down: they are read faster than they were sent.
            if gap >= (sent_at - self.last_sent_at) / 2:
                self._smooth(gap / 1000)
        self.last_at, self.last_sent_at = now, sent_at

    def _smooth(self, gap: float) -> None:
        usual = self.interval_seconds
        if usual is None:
            self.interval_seconds = gap
            return
        # A longer gap was an outage. Counted in full, an outage of days would keep the source ONLINE for days when it fails
        # again.
        longest = max(_LEAST_SILENCE_SECONDS, _SILENT_INTERVALS * usual)
        self.interval_seconds = usual + _SMOOTHING * (min(gap, longest) - usual)


@dataclass(slots=True)
class CachedDevice:
    """A source of a plant: one of its sub-devices, or the plant itself, which has no external id."""

    id: UUID
    external_id: str | None
    source_id: int
    reader: Reader
    layouts_read: int | None = None
    """How many shards the process had taken when the layouts of the device's own names were read; None if they were not."""
    status: SubDeviceStatus = SubDeviceStatus.UNKNOWN
    presence: Presence = field(default_factory=Presence)


@dataclass(slots=True)
class CachedPlant:
    """A plant with everything that processing its messages needs.

    `keys` has the current one first, each with the end of its time (epoch milliseconds, None: no end). It is empty if the plant
    has no secret, or if its secret is `unreadable`.
    """

    id: UUID
    organization_id: UUID
    lifecycle_status: Lifecycle
    keys: tuple[tuple[bytes, int | None], ...]
    itself: CachedDevice
    devices: dict[str, CachedDevice]
    unreadable: bool = False
    status: PlantStatus = PlantStatus.UNKNOWN
    presence: Presence = field(default_factory=Presence)
    names: int | None = None
    """The number of names that its sources without a template use; None until it is read."""
    count_names_from: float = 0.0
    """When `names` is read again if there is no room for more, in monotonic seconds."""
    delay_ms: float | None = None
    """How far the plant's clock is behind the service's, plus the shortest transmission time of its messages."""

    def sent(self, sent_at: int, now: float) -> float:
        """Estimate when a message was sent, by the service's clock. All times are in epoch milliseconds.

        Args:
            sent_at: By the plant's clock.
            now: When the message was read.
        """
        delay = now - sent_at
        usual = self.delay_ms
        if usual is None or delay < usual:
            self.delay_ms = delay
            return now
        # One message that waited in a queue has little weight; a clock that was set back affects all later messages.
        self.delay_ms = usual + _DELAY_SMOOTHING * (delay - usual)
        return sent_at + usual

    @property
    def has_room(self) -> bool:
        """Whether its sources may use further names."""
        return self.names is None or self.names < MAX_PLANT_NAMES

    def interrupt(self) -> None:
        """Do not count the time until the next message as an interval."""
        for presence in (self.presence, *(device.presence for device in self.devices.values())):
            presence.last_at = None

    def invalidate_status(self) -> None:
        """Make the next message write the statuses of the plant and its sub-devices."""
        self.status = PlantStatus.UNKNOWN
        for device in self.devices.values():
            device.status = SubDeviceStatus.UNKNOWN


class PlantCache(NotifiedCache[str, CachedPlant]):
    """Plants by the id in their topics."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        super().__init__()
        self._database = database
        self._keyring = keyring
        self._signal_maps: dict[tuple[UUID, int], SignalMap] = {}
        self._shards_taken = 0
        self.layouts = LayoutIdCache()

    async def plants(self, plant_ids: Iterable[str]) -> dict[str, CachedPlant]:
        """Return those of the plants that exist, by id. Plants that are not cached are read from the database."""
        return await self.look_up(set(plant_ids), self._read)

    async def _read(self, plant_ids: Iterable[str]) -> dict[str, CachedPlant]:
        canonical = [UUID(plant_id) for plant_id in plant_ids if _is_canonical(plant_id)]
        if not canonical:
            return {}
        async with self._database.transaction() as db:
            connected = await load_ingest_plants(db, self._keyring, canonical)
            sources = await load_sources(db, [plant.id for plant in connected])
            templates = await templates_by_id(
                db,
                {plant.template_id for plant in connected if plant.template_id}
                | {device.template_id for plant in connected for device in plant.devices if device.template_id},
            )
            return {
                str(plant.id): await self._cached_plant(
                    db, plant, {source.external_id: source.id for source in sources[plant.id]}, templates
                )
                for plant in connected
                if plant.id in sources  # otherwise it was deleted in the meantime
            }

    async def make_room(
        self, plant: CachedPlant, new: Collection[tuple[CachedDevice, dict[str, int | float | bool | None]]]
    ) -> None:
        """Assign positions to new field names of the plant's devices without a template.

        This uses a transaction of its own, because positions stay valid if the batch fails.
        """
        read = [
            device for device, fields in new if device.layouts_read != self._shards_taken or not device.reader.has_room(fields)
        ]
        async with self._database.transaction() as db:
            used = await used_layouts(db, [device.source_id for device in read]) if read else {}
            names = await self._count_names(db, plant)
            for device, fields in new:
                room = MAX_PLANT_NAMES - names
                names += await device.reader.extend(db, self.layouts, used.get(device.source_id), fields, room)
            plant.names = names
        for device in read:
            device.layouts_read = self._shards_taken

    async def _count_names(self, db: Connection, plant: CachedPlant) -> int:
        now = time.monotonic()
        if plant.names is None or (not plant.has_room and now >= plant.count_names_from):
            plant.count_names_from = now + _COUNT_SECONDS
            return await count_own_names(db, plant.id, utc_now() - NAME_LIFE)
        return plant.names

    def note_shard_taken(self) -> None:
        """Read the layouts of each device again at its next new name.

        Another process may have held the plant's shard and assigned positions. A name with two positions would be stored twice
        for the same time.
        """
        self._shards_taken += 1

    def invalidate_status(self, plant_id: str) -> None:
        """Clear the cached statuses of a plant that has gone OFFLINE, and of its sub-devices."""
        if plant := self.find(plant_id):
            plant.invalidate_status()

    def invalidate_all(self) -> None:
        """Remove everything, including layouts: a layout that was created in a failed transaction does not exist."""
        super().invalidate_all()
        self._signal_maps.clear()
        self.layouts = LayoutIdCache()

    async def _cached_plant(
        self,
        db: Connection,
        plant: IngestPlant,
        source_ids: dict[str | None, int],
        templates: dict[UUID, DeviceTemplate],
    ) -> CachedPlant:
        keys: list[tuple[bytes, int | None]] = []
        if plant.keys is not None:
            keys.append((plant.keys.current, None))
            if plant.keys.previous is not None and plant.keys.previous_valid_until is not None:
                keys.append((plant.keys.previous, int(plant.keys.previous_valid_until.timestamp() * 1000)))

        async def device(device_id: UUID, external_id: str | None, template_id: UUID | None) -> CachedDevice:
            source_id = source_ids[external_id]
            template = templates.get(template_id) if template_id else None
            reader: Reader = (
                OwnNamesReader() if template is None else await TemplateReader.of(db, self.layouts, self._signal_map(template))
            )
            return CachedDevice(device_id, external_id, source_id, reader)

        return CachedPlant(
            plant.id,
            plant.organization_id,
            plant.lifecycle_status,
            tuple(keys),
            await device(plant.id, None, plant.template_id),
            {
                d.external_id: await device(d.id, d.external_id, d.template_id)
                for d in plant.devices
                if d.external_id in source_ids  # otherwise it was deleted in the meantime
            },
            plant.unreadable,
        )

    def _signal_map(self, template: DeviceTemplate) -> SignalMap:
        key = (template.id, template.version)
        if key not in self._signal_maps:
            self._signal_maps[key] = SignalMap(msgspec.convert(template.signals, list[Signal]))
        return self._signal_maps[key]


def _is_canonical(plant_id: str) -> bool:
    try:
        return str(UUID(plant_id)) == plant_id
    except ValueError:
        return False
