"""Messages, refusals, and the batch that one transaction writes."""

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from uuid import UUID

from gridfleet.domains.alerts.matches import Findings
from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.partner_events.models import NewEvent
from gridfleet.domains.plants.commands.models import Acknowledgement
from gridfleet.domains.plants.presence.records import DeviceSeen, PlantSeen
from gridfleet.domains.plants.refused_messages.models import RefusedMessage, UnregisteredSeen
from gridfleet.domains.plants.refused_messages.records import MAX_PER_PLANT
from gridfleet.domains.telemetry.frames.models import FrameBatch
from gridfleet.kernel.db import storable
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import RefusalReason

__all__ = ["Batch", "Delivery", "Refusal"]


@dataclass(slots=True)
class Delivery:
    """One message from the broker.

    `arrived_after` (epoch milliseconds) is a time before which it cannot have reached the broker.
    """

    routing_key: str
    body: bytes
    arrived_after: int
    _request_id: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def request_id(self) -> str:
        """The message's own request id, the same each time the message is read again.

        It is created at its first use, because most messages cause nothing that carries it.
        """
        if self._request_id is None:
            self._request_id = str(new_id())
        return self._request_id

    def arrived(self, sent_at: int, now: float) -> float:
        """Return the earliest time at which a message that was sent at `sent_at` can have reached the broker, at most `now`.

        All times are in epoch milliseconds.
        """
        return min(now, max(sent_at, self.arrived_after))


class Refusal(Exception):
    """The refusal of a message, or of one of its snapshots, with a reason for the installer."""

    def __init__(self, reason: RefusalReason, detail: str, message_id: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.message_id = message_id


@dataclass(slots=True)
class Batch:
    """Everything that one transaction writes, and what is counted after its commit."""

    now: datetime
    """When its messages are read: one time for all of them."""
    now_ms: float = field(init=False)
    """The same in epoch milliseconds."""
    message_count: int = 0
    """How many of the messages that were to be read are in the batch: always the first ones."""
    frames: FrameBatch = field(default_factory=FrameBatch)
    frame_count: int = 0
    """The number of frames in its messages, before frames are merged."""
    reported: dict[UUID, set[UUID]] = field(default_factory=dict)
    """The plants of the frames, by organisation."""
    ends: list[tuple[int, Delivery]] = field(default_factory=list)
    """For each snapshot: the number of frames after it was added, and its message."""
    repeated: dict[tuple[int, int], Delivery] = field(default_factory=dict)
    """The messages of snapshots that changed frames of earlier ones, by source and time."""
    findings: Findings = field(default_factory=Findings)
    """The findings of alert rules in the frames."""
    alerts: list[Severity] = field(default_factory=list)
    """Severities of the alerts that were raised; set when the batch is written."""
    refusals: Counter[UUID] = field(default_factory=Counter)
    """The number of refused messages and snapshots of each plant."""
    refusal_count: int = 0
    """Their sum, which is read before each message."""
    refused: list[tuple[UUID, RefusedMessage]] = field(default_factory=list)
    """The first refusals of each plant, as many as are stored."""
    unregistered: dict[UUID, dict[str, UnregisteredSeen]] = field(default_factory=dict)
    """The unregistered devices of each plant, by external id: the first ones, as many as are stored."""
    plants_seen: dict[UUID, PlantSeen] = field(default_factory=dict)
    devices_seen: dict[UUID, DeviceSeen] = field(default_factory=dict)
    plants_held: set[UUID] = field(default_factory=set)
    """Plants whose sub-devices or commands the transaction locks."""
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    subscribed: dict[UUID, UUID] = field(default_factory=dict)
    """The organisations of the plants to whose telemetry partners subscribe, by plant."""
    events: list[NewEvent] = field(default_factory=list)
    changed: dict[UUID, set[UUID]] = field(default_factory=dict)
    """Plants with new values, by organisation."""
    connected: set[UUID] = field(default_factory=set)
    """Plants whose status message says that they have just connected."""
    bad_signatures: dict[UUID, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    undeclared_fields: int = 0
    oldest_sent_at: int | None = None
    _places: dict[tuple[int, int], int] | None = None
    """The number of the last frame of each source and time; None until it is needed, when all frames are in the batch."""

    def __post_init__(self) -> None:
        self.now_ms = self.now.timestamp() * 1000

    def request_id_of(self, source_id: int, time: int) -> str | None:
        """Return the request id of the message that reported a source's values of a time; None if it is not in the batch.

        Args:
            time: Microseconds since 2000-01-01 UTC, as in frames.
        """
        if (delivery := self.repeated.get((source_id, time))) is not None:
            return delivery.request_id
        if self._places is None:
            # Only if an alert is raised: it would cost time for each frame. A batch may raise thousands.
            self._places = {key[:2]: number for number, key in enumerate(self.frames.frames)}
        place = self._places.get((source_id, time))
        if place is None:
            return None
        end = bisect_right(self.ends, place, key=itemgetter(0))
        return self.ends[end][1].request_id if end < len(self.ends) else None

    def count(self, result: str) -> None:
        """Count one message by its result."""
        self.results[result] = self.results.get(result, 0) + 1

    def refuse(self, plant_id: UUID, delivery: Delivery, refusal: Refusal) -> None:
        """Count the refusal of a message or snapshot, and store it if the plant has few others in the batch."""
        self.count(refusal.reason.lower())
        self.refusal_count += 1
        self.refusals[plant_id] += 1
        if self.refusals[plant_id] > MAX_PER_PLANT:
            return
        message = RefusedMessage(
            new_id(),
            self.now,
            delivery.routing_key.replace(".", "/"),
            refusal.reason,
            storable(refusal.detail)[:500],
            refusal.message_id and storable(refusal.message_id),
            len(delivery.body),
        )
        self.refused.append((plant_id, message))
