"""One shard's window of unacknowledged messages, and what it tells about messages that still wait in the broker.

The broker fills the window as long as it has messages. So if the window was never full between two looks, nothing waited
then, and whatever is delivered later reached the broker after the first of them.
"""

from typing import Final

__all__ = ["MARGIN_MILLISECONDS", "ShardWindow"]

MARGIN_MILLISECONDS: Final = 60_000
"""How far the last known moment may be wrong: a connection that dies unnoticed holds messages back until its heartbeat
ends it."""


class ShardWindow:
    """Times are epoch milliseconds; tags are the channel's delivery tags, which only rise."""

    def __init__(self, size: int, arrived_after: int) -> None:
        """`size`: the consumer's prefetch. `arrived_after`: when the shard's queue was last known to be empty."""
        self._size = size
        self._empty_at = arrived_after - MARGIN_MILLISECONDS
        self._peak = size  # full until proven otherwise: what waited before we came is still on its way
        self._looked_at = arrived_after
        self._last_tag = 0
        self._candidate: tuple[int, int] | None = None
        self.unacknowledged = 0
        self.settled_at = arrived_after
        """A moment before which nothing arrived that is not acknowledged yet: what to write down for the next consumer."""

    def deliver(self, tag: int) -> int:
        """Counts a delivery; answers a moment before which the message cannot have reached the broker."""
        self.unacknowledged += 1
        self._peak = max(self._peak, self.unacknowledged)
        self._last_tag = tag
        return self._empty_at

    def acknowledge(self, count: int) -> None:
        """Counts acknowledged messages."""
        self.unacknowledged -= count

    def look(self, now: int, acknowledged_tag: int) -> None:
        """Draws the conclusion from the time since the last look."""
        if self._peak < self._size:
            self._empty_at = self._looked_at
        self._looked_at = now
        self._peak = self.unacknowledged
        # In-flight messages came before `_empty_at`; it may be written down once they are acknowledged.
        if self._candidate is not None and acknowledged_tag >= self._candidate[1]:
            self.settled_at = self._candidate[0]
            self._candidate = None
        if self._candidate is None:
            self._candidate = (self._empty_at, self._last_tag if self.unacknowledged else 0)
