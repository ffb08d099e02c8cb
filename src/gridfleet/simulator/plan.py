"""Parameters of a simulation."""

from dataclasses import dataclass
from typing import Final

from gridfleet.simulator.faults import Fault

__all__ = ["DAY_MS", "Plan"]

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Plan:
    """Parameters of a simulation. Intervals are in simulated time."""

    interval_ms: int = 5_000
    duration_seconds: float | None = None
    """How long to send in real time. None: until stopped."""
    speed: float = 1
    """Speed of simulated time relative to the clock, until it has caught up with the clock."""
    history_days: float = 0
    history_interval_ms: int = 60_000
    faults: frozenset[Fault] = frozenset()

    def live_start_ms(self, now_ms: int) -> int:
        """Return the start of simulated time in epoch milliseconds, such that it reaches the clock when the duration ends.

        Without a duration a simulation with `speed` above 1 begins at the last midnight (UTC).
        """
        if self.speed <= 1:
            return now_ms
        if self.duration_seconds is None:
            return now_ms - now_ms % DAY_MS
        return now_ms - int(self.duration_seconds * 1000 * (self.speed - 1))
