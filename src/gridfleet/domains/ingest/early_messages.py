"""Messages that a plant sent after it went OFFLINE, and that were read before the notification of OFFLINE arrived here.

When such a message is read, the plant is still ONLINE in this process's cache, so its presence is not written
(docs/decisions/0170). The presence of the plant and its sub-devices is written when the notification has arrived.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from math import inf
from typing import Final, NamedTuple
from uuid import UUID

from gridfleet.domains.ingest.cached_plants import CachedPlant
from gridfleet.domains.plants.models import PlantStatus
from gridfleet.domains.plants.presence.records import DeviceSeen, PlantSeen, lock_seen_before, record_presence
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection

__all__ = ["EarlyMessage", "EarlyMessages", "write_early_messages"]

AT_ONCE: Final = 500
_MOST_AGE_MS: Final = 30_000
"""Maximum age of a message that is noted. No notification takes longer. The last message of a plant that the sweep has marked
as silent is at least 80 s old: it may be newer than the stored time, but must not set the plant to ONLINE.
"""


class EarlyMessage(NamedTuple):
    """A plant, and when its last message was sent, in epoch milliseconds."""

    plant: CachedPlant
    seen_at: float


class EarlyMessages:
    """The last messages of plants that went OFFLINE while this process had them as ONLINE in its cache.

    Most of them are older than OFFLINE. `write_early_messages` compares the times in the database.
    """

    def __init__(self) -> None:
        self.on_note: Callable[[], None] = lambda: None
        """Called when there are messages to take."""
        self._noted: dict[UUID, EarlyMessage] = {}

    def note(self, plant: CachedPlant) -> None:
        """Note the plant's last message, unless it is known to be written, was noted before, or is too old."""
        seen_at = plant.presence.seen_at
        is_read_since = plant.status is PlantStatus.ONLINE and plant.presence.written_at > -inf
        if is_read_since and utc_now().timestamp() * 1000 - seen_at < _MOST_AGE_MS:
            self._noted[plant.id] = EarlyMessage(plant, seen_at)
            self.on_note()

    def take(self) -> list[EarlyMessage]:
        """Remove and return some messages. Write them before messages that are read from now on."""
        taken = [self._noted.pop(plant_id) for plant_id in list(islice(self._noted, AT_ONCE))]
        if self._noted:
            self.on_note()
        return taken


async def write_early_messages(db: Connection, messages: Sequence[EarlyMessage]) -> None:
    """Write the presence of plants whose message is newer than OFFLINE, and of the sub-devices that they sent since."""
    last_seen = await lock_seen_before(db, {plant.id: _time(seen_at) for plant, seen_at in messages})
    plants: list[PlantSeen] = []
    devices: list[DeviceSeen] = []
    for plant, seen_at in messages:
        if plant.id in last_seen:
            at = _time(seen_at)
            plants.append(PlantSeen(plant.id, at, PlantStatus.ONLINE, plant.presence.interval_seconds, sent_at=at))
            devices.extend(_devices(plant, last_seen[plant.id].timestamp() * 1000, seen_at))
    if plants:
        await record_presence(db, plants, devices)


def _devices(plant: CachedPlant, after: float, until: float) -> Iterator[DeviceSeen]:
    """Yield the sub-devices whose last message was sent in this time. Later messages write them themselves."""
    for device in plant.noted.values():
        presence = device.presence
        if after < presence.seen_at <= until:
            yield DeviceSeen(device.id, _time(presence.seen_at), device.status, presence.interval_seconds)


def _time(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
