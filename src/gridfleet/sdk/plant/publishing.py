"""Publishing on one connection: how much may be unconfirmed, and how long the broker may confirm nothing."""

import asyncio
import math
import time
from itertools import dropwhile, islice
from typing import Final

import aiomqtt

__all__ = ["BATCH_BYTES", "Publisher", "Window"]

BATCH_BYTES: Final = 16 * 1024
"""Size up to which stored snapshots are sent in one message: four seconds at 35 kbit/s, in which nothing overtakes it."""
_MOST_BYTES: Final = 8 * BATCH_BYTES
_QUICK_SECONDS: Final = 2.0

QOS: Final = 1


class Publisher:
    """Publishes on one connection, with a time-out that the confirmation of an earlier message restarts.

    A message waits behind those that were published before it, and on a narrow link each of them is confirmed late. The
    confirmation of a later one extends nothing: the message has reached the broker by then, and the broker has lost it or
    rejected it, which MQTT 3.1.1 cannot express.
    """

    def __init__(self, client: aiomqtt.Client, confirm_timeout_seconds: float) -> None:
        self._client = client
        self._seconds = confirm_timeout_seconds
        self._limits: dict[asyncio.Timeout, None] = {}  # in the order of publishing

    async def publish(self, topic: str, message: bytes, *, retain: bool = False) -> float:
        """Publish a message and wait until the broker has confirmed it.

        Returns:
            The seconds that this took.

        Raises:
            aiomqtt.MqttError: The connection broke, or the broker has confirmed neither this message nor an earlier one within
                the time-out.
        """
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._seconds) as limit:
                self._limits[limit] = None
                await self._client.publish(topic, message, qos=QOS, retain=retain, timeout=math.inf)
            self._extend_after(limit)
        except TimeoutError:
            raise aiomqtt.MqttError(f"the broker has confirmed nothing for {self._seconds:g} s") from None
        finally:
            self._limits.pop(limit, None)
        return time.monotonic() - started

    def _extend_after(self, confirmed: asyncio.Timeout) -> None:
        """Restart the time-outs of the messages that were published after a confirmed one."""
        ends = asyncio.get_running_loop().time() + self._seconds
        later = dropwhile(lambda limit: limit is not confirmed, self._limits)
        for limit in islice(later, 1, None):
            if not limit.expired():
                limit.reschedule(ends)


class Window:
    """Limits the unconfirmed messages of one channel, and their bytes to what the link confirms within some two seconds.

    Acknowledgements of commands wait behind these bytes. The limit grows from one batch while messages are confirmed quickly,
    and shrinks to one while they are not.
    """

    def __init__(self, most_messages: int) -> None:
        self._most_messages = most_messages
        self._most_bytes = BATCH_BYTES
        self._messages = self._bytes = 0
        self._changed = asyncio.Event()

    async def enter(self, size: int) -> None:
        """Wait until a message of `size` bytes may be published. A single message is allowed regardless of its size."""
        while self._messages and (self._messages >= self._most_messages or self._bytes + size > self._most_bytes):
            self._changed.clear()
            await self._changed.wait()
        self._messages += 1
        self._bytes += size

    def leave(self, size: int, seconds: float) -> None:
        """Count a message as confirmed after these seconds."""
        self._messages -= 1
        self._bytes -= size
        change = size if seconds < _QUICK_SECONDS else -size
        self._most_bytes = min(max(self._most_bytes + change, BATCH_BYTES), _MOST_BYTES)
        self._changed.set()
