"""One shard's window of unacknowledged messages, and what it tells about messages that still wait in the broker.

When the broker says that a queue holds nothing and that nobody else consumes it, everything in it has been sent to us, and
has reached us by the time of its next answer on the same channel. So whatever is delivered after two looks reached the
broker after the first of them, if that one saw nothing wait.
"""

from typing import Final

__all__ = ["MARGIN_MILLISECONDS", "ShardWindow"]

MARGIN_MILLISECONDS: Final = 60_000
"""How far the last known moment may be wrong: a connection that dies unnoticed holds messages back until its heartbeat
ends it."""


class ShardWindow:
    """Times are epoch milliseconds; tags are the channel's delivery tags, which only rise."""

    def __init__(self, arrived_after: int) -> None:
        """`arrived_after`: when the shard's queue was last known to be empty."""
        self._empty_at = arrived_after - MARGIN_MILLISECONDS
        self._seen_empty_at: int | None = None
        self._last_tag = 0
        self._candidate: tuple[int, int] | None = None
        self.unacknowledged = 0
        self.settled_at = arrived_after
        """A moment before which nothing arrived that is not acknowledged yet: what to write down for the next consumer."""

    def deliver(self, tag: int) -> int:
        """Counts a delivery; answers a moment before which the message cannot have reached the broker."""
        self.unacknowledged += 1
        self._last_tag = tag
        return self._empty_at

    def acknowledge(self, count: int) -> None:
        """Counts acknowledged messages."""
        self.unacknowledged -= count

    def look(self, now: int, acknowledged_tag: int, *, nothing_waits: bool) -> None:
        """Draws the conclusion. `nothing_waits`: asked at `now`, the broker knew of no message that nobody has, and of no
        consumer but us."""
        if self._seen_empty_at is not None:
            self._empty_at = self._seen_empty_at
        self._seen_empty_at = now if nothing_waits else None
        # In-flight messages came before `_empty_at`; it may be written down once they are acknowledged.
        if self._candidate is not None and acknowledged_tag >= self._candidate[1]:
            self.settled_at = self._candidate[0]
            self._candidate = None
        if self._candidate is None:
            self._candidate = (self._empty_at, self._last_tag if self.unacknowledged else 0)
