"""Options and counters of a plant client."""

from dataclasses import dataclass
from typing import Final

from gridfleet.protocol.envelope import MAX_SNAPSHOTS

__all__ = ["DEFAULT_OPTIONS", "Counters", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a plant client. The defaults suit a plant that reports every few seconds over a mobile link."""

    window: int = 16
    """Maximum number of unconfirmed publishes. A narrow link allows fewer (see `publishing.Window`)."""
    batch_snapshots: int = 500
    """Maximum number of queued snapshots in one message, which has at most 16 KiB unless it is a single snapshot."""
    max_queue_bytes: int = 256 * 1024 * 1024
    max_queue_age_seconds: float = 90 * 24 * 3600
    fsync: bool = True
    """Whether a stored snapshot survives a power failure. Without it, it survives only the end of the process."""
    reconnect_min_seconds: float = 1
    reconnect_max_seconds: float = 60
    refusals_before_giving_up: int | None = None
    """Consecutive refused logins after which the client stops with `NotAuthorized`, unless `on_problem` is set. None: it never
    stops. The broker also refuses logins while the service is unavailable, and the plant must reconnect when the service is
    available again.
    """
    confirm_timeout_seconds: float = 60
    """Time without confirmation of a message or an earlier one, after which the client reconnects and sends it again."""
    stop_timeout_seconds: float = 5
    """Limit of each step at the end: running commands, the queue, the status OFFLINE."""

    def __post_init__(self) -> None:
        if not 1 <= self.batch_snapshots <= MAX_SNAPSHOTS:
            raise ValueError(f"batch_snapshots must be 1 to {MAX_SNAPSHOTS}")
        if self.window < 1:
            raise ValueError("window must be at least 1")


DEFAULT_OPTIONS: Final = Options()


@dataclass(slots=True)
class Counters:
    """Counters since the client was started."""

    connects: int = 0
    messages: int = 0
    snapshots: int = 0
    """Snapshots that the broker has confirmed."""
    commands: int = 0
    commands_refused: int = 0
    commands_repeated: int = 0
