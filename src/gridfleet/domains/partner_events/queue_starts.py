"""Where reads of the queue begin."""

import time
from collections.abc import Hashable, Mapping
from typing import Final, Generic, TypeVar

__all__ = ["QueueStarts"]

Key = TypeVar("Key", bound=Hashable)

SETTLED_SECONDS: Final = 10.0
"""How long after an id was the first one it becomes a start. A transaction that has taken a lower id may still commit."""


class QueueStarts(Generic[Key]):
    """Ids below which no event waits, by key, except one whose transaction commits late.

    PostgreSQL keeps deleted rows and their index entries while an older snapshot may read them. The snapshot of `pg_dump` lives
    for hours: a read from the beginning would pass all events that were published since then.
    """

    def __init__(self, settled_seconds: float | None = None) -> None:
        """Initialize them.

        Args:
            settled_seconds: How long after an id was the first one it becomes a start; None is `SETTLED_SECONDS`.
        """
        self._settled_seconds = SETTLED_SECONDS if settled_seconds is None else settled_seconds
        self._starts: dict[Key, int] = {}
        self._firsts: dict[Key, tuple[int, float]] = {}

    def start(self, key: Key) -> int:
        """Return the id at which to begin; 0 for a key that is not known."""
        return self._starts.get(key, 0)

    def note(self, firsts: Mapping[Key, int]) -> None:
        """Take the first id that waits for each key, as a read has just found it. Keys that are left out keep their start."""
        now = time.monotonic()
        for key, first in firsts.items():
            earlier, noted_at = self._firsts.setdefault(key, (first, now))
            if first < self._starts.get(key, 0):  # its transaction took longer to commit
                self._starts[key] = first
            if now - noted_at >= self._settled_seconds:
                self._starts[key] = min(earlier, first)
                self._firsts[key] = (first, now)
