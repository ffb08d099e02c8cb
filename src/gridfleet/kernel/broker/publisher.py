"""Publish many messages at a time, and wait for the broker's confirmations."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from aiormq.abc import AbstractChannel
from pamqp import commands, frame
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from gridfleet.kernel.broker.frames import Confirmation, FrameTransport

__all__ = ["OutgoingMessage", "Publisher"]

_FRAME_BYTES: Final = 8
"""What a frame has beside its payload."""
_UNLIMITED_FRAME_BYTES: Final = 131_072
"""Size of the frames for a broker that does not limit them: its `frame_max` is 0."""


class OutgoingMessage(NamedTuple):
    """A message to publish."""

    exchange: str
    routing_key: str
    body: bytes
    properties: commands.Basic.Properties


class Publisher:
    """Publishes on a channel with confirmations, on which nothing else is published.

    aiormq starts a time limit, two futures and a lock for each message. Here the messages of a call share one future.
    """

    def __init__(self, channel: AbstractChannel, transport: FrameTransport) -> None:
        self._number = channel.number
        self._connection = channel.connection
        self._writer = transport.writer
        self._body_bytes = (channel.connection.connection_tune.frame_max or _UNLIMITED_FRAME_BYTES) - _FRAME_BYTES
        self._last_tag = 0
        self._closed = False
        self._blocked = 0
        """The number of calls that wait until the broker takes messages."""
        self._blocked_until = 0.0
        """When all of these calls end, by the time of the event loop."""
        self._waiting: dict[int, _Call] = {}
        """The call that published each message without an answer, by the number of the message."""
        transport.reader.publishers[channel.number] = self._take_confirmation

    async def publish(self, messages: Sequence[OutgoingMessage], seconds: float) -> list[bool]:
        """Publish messages and wait for their confirmations.

        Args:
            messages: In the order in which they are published.
            seconds: How long to wait.

        Returns:
            Whether the broker has confirmed each message.

        Raises:
            ConnectionError: The connection or the channel was lost. Any message may have arrived.
            Exception: A message is not valid. None was published.
        """
        data = b"".join(map(self._marshal, messages))
        call = _Call(asyncio.get_running_loop().create_future())
        tags = range(0)
        try:
            async with asyncio.timeout(seconds):
                await self._ready(seconds)
                tags = self._write(data, len(messages), call)
                if tags:
                    await call.done
        except TimeoutError:
            pass
        finally:
            for tag in call.unanswered:
                del self._waiting[tag]
        return [tag in call.confirmed for tag in tags] if tags else [False] * len(messages)

    async def _ready(self, seconds: float) -> None:
        """Wait while the broker blocks publishers because it lacks memory or disk space.

        Messages that are written meanwhile are not lost, so the broker would later publish them and each of their retries. All
        calls that wait end together: otherwise a later one would overtake the retry of an earlier one.

        Raises:
            TimeoutError: The broker has blocked publishers for `seconds` since the first of these calls.
        """
        if not self._blocked:
            self._blocked_until = asyncio.get_running_loop().time() + seconds
        self._blocked += 1
        try:
            async with asyncio.timeout_at(self._blocked_until):
                await self._connection.ready()
        finally:
            self._blocked -= 1

    def _write(self, data: bytes, count: int, call: "_Call") -> range:
        """Write the frames of a call's messages. Returns the numbers of the messages."""
        # aiormq closes the socket before it closes the channel. A write in between would raise a RuntimeError.
        if self._closed or self._writer.is_closing():
            raise ConnectionError("the channel is closed")
        tags = range(self._last_tag + 1, self._last_tag + 1 + count)
        self._last_tag += count
        call.unanswered.update(tags)
        self._waiting |= dict.fromkeys(tags, call)
        # Without `drain`: the call waits for the confirmations anyway.
        self._writer.write(data)
        return tags

    def close(self) -> None:
        """Raise in each call that waits for a confirmation. Must be called when the connection is lost."""
        self._closed = True
        for call in set(self._waiting.values()):
            if not call.done.done():
                call.done.set_exception(ConnectionError("the channel was closed before the broker confirmed"))

    def _marshal(self, message: OutgoingMessage) -> bytes:
        body, size = message.body, self._body_bytes
        contents: list[ContentHeader | ContentBody] = [
            ContentHeader(body_size=len(body), properties=message.properties),
            *(ContentBody(body[start : start + size]) for start in range(0, len(body), size)),
        ]
        method = _method_frame(message.exchange, message.routing_key, self._number)
        return method + b"".join(frame.marshal(one, self._number) for one in contents)

    def _take_confirmation(self, answer: Confirmation) -> None:
        tags = [tag for tag in self._waiting if tag <= answer.tag] if answer.multiple else [answer.tag]
        for tag in tags:
            call = self._waiting.pop(tag, None)  # None: its call has ended
            if call is not None:
                call.complete(tag, confirmed=answer.confirmed)


@lru_cache(maxsize=1_024)
def _method_frame(exchange: str, routing_key: str, channel_number: int) -> bytes:
    # Most messages of a channel have one of a few routing keys, and this frame takes 40% of the time of all three.
    return frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=routing_key), channel_number)


class _Call:
    """The messages of one call, by number."""

    __slots__ = ("confirmed", "done", "unanswered")

    def __init__(self, done: asyncio.Future[None]) -> None:
        self.unanswered: set[int] = set()
        self.confirmed: set[int] = set()
        self.done = done

    def complete(self, tag: int, *, confirmed: bool) -> None:
        self.unanswered.discard(tag)
        if confirmed:
            self.confirmed.add(tag)
        if not self.unanswered and not self.done.done():
            self.done.set_result(None)
