"""The logins of plants at the broker, counted by each process in its memory.

With `mqtt.durable_queue_type = quorum`, each new session is a quorum queue. RabbitMQ 4.0 keeps 13 KB of each until it restarts,
and a plant that alternates persistent and clean sessions makes a new one with every second login (docs/decisions/0432).
"""

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

__all__ = ["MOST_AN_HOUR", "PlantLogins"]

MOST_AN_HOUR: Final = 1_000
"""Maximum number of logins of a plant at once, and in the long run per hour, in each process."""

_HOUR: Final = 3_600_000_000_000
"""In nanoseconds."""


class PlantLogins:
    """The logins of the last hour, as the time at which none of them counts any more."""

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._ends: dict[UUID, int] = {}
        self._sweep_at = clock() + _HOUR

    def admit(self, plant_id: UUID) -> bool:
        """Return whether the plant may log in once more, and count the login if it may."""
        now = self._clock()
        if now >= self._sweep_at:
            self._ends = {known: end for known, end in self._ends.items() if end > now}
            self._sweep_at = now + _HOUR
        end = max(self._ends.get(plant_id, now), now) + _HOUR // MOST_AN_HOUR
        if end > now + _HOUR:
            return False
        self._ends[plant_id] = end
        return True
