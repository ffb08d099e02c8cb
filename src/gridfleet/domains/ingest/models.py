"""What comes in, what is refused, and what one transaction writes."""

from dataclasses import dataclass, field
from uuid import UUID

from gridfleet.domains.alerts.matches import Findings
from gridfleet.domains.alerts.models import Severity
from gridfleet.domains.plants.commands.models import Acknowledgement, Transition
from gridfleet.domains.plants.installation.models import RefusedMessage
from gridfleet.domains.plants.presence import DeviceSeen, PlantSeen
from gridfleet.domains.telemetry.frames.models import FrameBatch
from gridfleet.domains.vcp.events.models import NewEvent
from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import RefusalReason

__all__ = ["Batch", "Delivery", "Refusal"]


@dataclass(slots=True)
class Delivery:
    """One message as the broker hands it over.

    `arrived_after` (epoch milliseconds) is a moment before which it cannot have reached the broker.
    """

    routing_key: str
    body: bytes
    arrived_after: int
    _request_id: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def request_id(self) -> str:
        """The message's own request id, the same whenever the message is read again.

        It is made at its first use: most messages cause nothing that carries it.
        """
        if self._request_id is None:
            self._request_id = str(new_id())
        return self._request_id


class Refusal(Exception):
    """A message, or one snapshot of it, is refused with a reason that an installer can read."""

    def __init__(self, reason: RefusalReason, detail: str, message_id: str | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.message_id = message_id


@dataclass(slots=True)
class Batch:
    """Everything one transaction writes, and what is counted once it has committed."""

    frames: FrameBatch = field(default_factory=FrameBatch)
    ends: list[tuple[int, Delivery]] = field(default_factory=list)
    """How many frames there were once a snapshot was added, and its message."""
    repeated: dict[tuple[int, int], Delivery] = field(default_factory=dict)
    """The messages of snapshots that changed frames of earlier ones, by source and time."""
    findings: Findings = field(default_factory=Findings)
    """What alert rules make of the frames."""
    alerts: list[Severity] = field(default_factory=list)
    """Of the alerts that were raised; known once the batch was written."""
    refused: list[tuple[UUID, RefusedMessage]] = field(default_factory=list)
    sightings: dict[tuple[UUID, str], int] = field(default_factory=dict)
    plants_seen: dict[UUID, PlantSeen] = field(default_factory=dict)
    devices_seen: dict[UUID, DeviceSeen] = field(default_factory=dict)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    command_steps: list[Transition] = field(default_factory=list)
    """What the acknowledgements led to; known once the batch was written."""
    listeners: dict[UUID, UUID] = field(default_factory=dict)
    """The organisations of the plants whose measurements partners are told."""
    events: list[NewEvent] = field(default_factory=list)
    connected: set[UUID] = field(default_factory=set)
    """Plants that said they have just connected."""
    bad_signatures: dict[UUID, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    undeclared_fields: int = 0
    oldest_sent_at: int | None = None

    def request_id_of(self, source_id: int, time: int) -> str | None:
        """Return the request id of the message that reported a source's values of a time; None if none of the batch did."""
        if (delivery := self.repeated.get((source_id, time))) is not None:
            return delivery.request_id
        # Searched when an alert is raised, which is rare: an index would cost time with each frame.
        places = [place for place, key in enumerate(self.frames.frames) if key[:2] == (source_id, time)]
        return next((one.request_id for end, one in self.ends if places and places[-1] < end), None)

    def count(self, result: str) -> None:
        """Counts one message by what became of it."""
        self.results[result] = self.results.get(result, 0) + 1
