"""One shard's window of unacknowledged messages, and the arrival times that follow from it.

When the broker reports that a queue is empty and has no other consumer, every message of the queue has been sent to this
process, and has arrived by the time of the broker's next answer on the same channel. So if the first of two checks found the
queue empty, every message that is delivered after the second reached the broker after the first.
"""

from typing import Final

__all__ = ["MARGIN_MILLISECONDS", "ShardWindow"]

MARGIN_MILLISECONDS: Final = 60_000
"""The possible error of the stored time: a connection that fails unnoticed holds messages until its heartbeat ends it."""


class ShardWindow:
    """The unacknowledged messages of one shard.

    Times are epoch milliseconds. Tags are the channel's delivery tags, which only increase.
    """

    def __init__(self, arrived_after: int) -> None:
        """Create a window.

        Args:
            arrived_after: When the shard's queue was last known to be empty.
        """
        self._empty_at = arrived_after - MARGIN_MILLISECONDS
        self._seen_empty_at: int | None = None
        self._last_tag = 0
        self._candidate: tuple[int, int] | None = None
        self.unacknowledged = 0
        self.arrived_after = arrived_after
        """A time before which no message arrived that is still unacknowledged: stored for the next consumer."""

    def deliver(self, tag: int) -> int:
        """Count a delivery, and return a time before which the message cannot have reached the broker."""
        self.unacknowledged += 1
        self._last_tag = tag
        return self._empty_at

    def acknowledge(self, count: int) -> None:
        """Count acknowledged messages."""
        self.unacknowledged -= count

    def note_check(self, now: int, acknowledged_tag: int, *, nothing_waits: bool) -> None:
        """Update the times after a check of the queue.

        Args:
            now: When the broker was queried.
            acknowledged_tag: The last tag that was acknowledged.
            nothing_waits: Whether the queue was empty at `now` and had no other consumer.
        """
        # A clock that was ahead has set times later than those of the messages of the present, which would be refused.
        self._empty_at = min(self._empty_at if self._seen_empty_at is None else self._seen_empty_at, now)
        self._seen_empty_at = now if nothing_waits else None
        self.arrived_after = min(self.arrived_after, now)
        # Messages in flight may have arrived before `_empty_at`, so it may be stored only after they are acknowledged.
        if self._candidate is not None:
            self._candidate = (min(self._candidate[0], now), self._candidate[1])
            if acknowledged_tag >= self._candidate[1]:
                self.arrived_after = self._candidate[0]
                self._candidate = None
        if self._candidate is None:
            self._candidate = (self._empty_at, self._last_tag if self.unacknowledged else 0)
