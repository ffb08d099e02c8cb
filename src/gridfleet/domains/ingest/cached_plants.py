"""Cached plants and their sources, with the presence and the delay that are measured from their messages."""

from dataclasses import dataclass, field
from math import inf
from typing import Final
from uuid import UUID

from gridfleet.domains.ingest.readers import Reader
from gridfleet.domains.plants.models import Lifecycle, PlantStatus
from gridfleet.domains.plants.sub_devices.models import SubDeviceStatus

__all__ = ["MAX_PLANT_NAMES", "CachedDevice", "CachedPlant", "Presence"]

MAX_PLANT_NAMES: Final = 100_000
"""How many names the sources of a plant that have no template may use within `NAME_LIFE`, together (docs/decisions/0300)."""
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
        last_measured_at: When its values were measured.
        seen_at: When the last message was sent, by the service's clock.
        written_at: When the presence was last written to the database; `-inf` if the next message is to write it.
        interval_seconds: Usual time between messages; None before the second one. A process begins with what is stored.
    """

    last_at: float | None = None
    last_sent_at: int = 0
    last_measured_at: float = 0.0
    seen_at: float = 0.0
    written_at: float = -inf
    interval_seconds: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether presence is to be written: the last time was `PRESENCE_EVERY_MS` ago, or the clock was set back."""
        return not self.written_at <= now < self.written_at + PRESENCE_EVERY_MS

    def note_message(self, now: float, sent_at: int, measured_at: float) -> None:
        """Record a message of telemetry that was sent and measured at these times, and smooth the interval between messages."""
        if self.last_at is not None and now > self.last_at:
            gap = now - self.last_at
            # Several messages may carry one report. Counted one by one, they would make a slow source seem fast.
            if gap < _ONE_REPORT_MS:
                return
            # So would messages that waited while the service was down, and a backlog: they are read faster than they were sent
            # or measured.
            if gap >= max(sent_at - self.last_sent_at, measured_at - self.last_measured_at) / 2:
                self._smooth(gap / 1000)
        self.last_at, self.last_sent_at, self.last_measured_at = now, sent_at, measured_at

    @property
    def silence_seconds(self) -> float:
        """The time without messages after which the source is silent."""
        return max(_LEAST_SILENCE_SECONDS, _SILENT_INTERVALS * (self.interval_seconds or 0.0))

    def _smooth(self, gap: float) -> None:
        usual = self.interval_seconds
        if usual is None:
            self.interval_seconds = gap
            return
        # A longer gap was an outage. Counted in full, an outage of days would keep the source ONLINE for days when it fails
        # again.
        self.interval_seconds = usual + _SMOOTHING * (min(gap, self.silence_seconds) - usual)


@dataclass(slots=True)
class CachedDevice:
    """A source of a plant: one of its sub-devices, or the plant itself, which has no external id."""

    id: UUID
    external_id: str | None
    source_id: int
    reader: Reader
    status: SubDeviceStatus = SubDeviceStatus.UNKNOWN
    presence: Presence = field(default_factory=Presence)
    _newest_us: int = 0
    """When the entry that gave the status was measured, in microseconds."""
    _newest_read_at: float = -inf
    """When it was read, in epoch milliseconds."""

    def status_after(self, status: SubDeviceStatus, measured_us: int, now: float) -> SubDeviceStatus:
        """Return the status after an entry.

        A backlog has former statuses, and may come between newer entries. But a gateway may repeat the last measurement of a
        device that it does not reach any more, and the clock of a device may be set back: without newer entries for as long as
        makes a source silent, older ones count.

        Args:
            status: That of the entry.
            measured_us: When the entry was measured, in microseconds.
            now: When it was read, in epoch milliseconds.
        """
        held_until = self._newest_read_at + 1000 * self.presence.silence_seconds
        if measured_us < self._newest_us and self._newest_read_at <= now < held_until:
            return self.status
        self._newest_us, self._newest_read_at = measured_us, now
        return status


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
    noted: dict[UUID, CachedDevice]
    """The sub-devices that have a presence or a status since the plant's session ended. A status message costs no more than
    the messages before it, however many sub-devices the plant has.
    """
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

    def end_session(self) -> None:
        """Make the next message write all statuses, and do not count the time until then as an interval."""
        self.invalidate_status()
        for presence in (self.presence, *(device.presence for device in self.noted.values())):
            presence.last_at = None
        self.noted.clear()

    def invalidate_status(self) -> None:
        """Make the next message write the statuses of the plant and its sub-devices."""
        self.presence.written_at = -inf
        for device in self.noted.values():
            device.presence.written_at = -inf
