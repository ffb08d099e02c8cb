"""Deliveries taken out of a connection's read buffer.

aiormq reads a frame in three pieces, passes it through two queues and starts a task for each delivery. That takes ten times
the CPU of this module, which reads the frames of deliveries itself and leaves all others to aiormq: its connection accepts any
transport, and this one's reader removes the deliveries from the stream.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, cast

from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

from gridfleet.kernel.broker.connection import open_channel

__all__ = ["Deliveries", "Delivery", "DeliveryReader", "open_deliveries"]

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_KINDS: Final = frozenset((_METHOD, _HEADER, _BODY, _HEARTBEAT))
_FRAME: Final = struct.Struct(">BHI")
"""Start of a frame: kind, number of the channel, bytes of the payload. One byte ends it."""
_DELIVER: Final = bytes((0, 60, 0, 60))
"""Class and method of `basic.deliver`."""
_BEAT: Final = _FRAME.pack(_HEARTBEAT, 0, 0) + b"\xce"
_READ_BYTES: Final = 262_144


class Delivery(NamedTuple):
    """A message with its delivery tag."""

    tag: int
    routing_key: str
    body: bytes


Take = Callable[[Delivery], None]


class DeliveryReader:
    """The stream of frames without the deliveries to known consumers, with the methods of a `StreamReader` that aiormq uses."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._data = b""
        self._at = 0
        self._frame_end = 0
        """End of the frame that is being read, in `_data`."""
        self._message: _Message | None = None
        self.consumers: dict[bytes, Take] = {}
        """What takes the messages of each consumer, by its tag. A connection has one channel."""

    def at_eof(self) -> bool:
        return self._at >= len(self._data) and self._stream.at_eof()

    async def read(self, count: int = -1) -> bytes:
        rest, self._data, self._at, self._frame_end = self._data[self._at :], b"", 0, 0
        return rest + await self._stream.read(count)

    async def readexactly(self, count: int) -> bytes:
        if self._at >= self._frame_end:
            await self._find_frame()
        start = self._at
        while len(self._data) < start + count:
            await self._receive()
            start = self._at
        self._at = start + count
        return self._data[start : self._at]

    async def _find_frame(self) -> None:
        """Go to the next frame that is not part of a delivery, and take the deliveries before it."""
        taken = False
        while True:
            if len(self._data) - self._at >= _FRAME.size:
                kind, _, size = _FRAME.unpack_from(self._data, self._at)
                start = self._at + _FRAME.size
                end = start + size + 1
                if kind not in _KINDS:  # not a stream of frames: aiormq will say so
                    self._frame_end = len(self._data)
                    return
                if end <= len(self._data):
                    if self._takes(kind, start, end - 1):
                        taken = True
                        self._at = end
                        continue
                    self._frame_end = end
                    return
            if taken:
                # aiormq closes a connection without frames, and the broker sends no heartbeats while it sends messages.
                self._data, self._at, self._frame_end = _BEAT + self._data[self._at :], 0, len(_BEAT)
                return
            await self._receive()

    async def _receive(self) -> None:
        received = await self._stream.read(_READ_BYTES)
        if not received:
            raise asyncio.IncompleteReadError(self._data[self._at :], None)
        self._frame_end -= self._at
        self._data, self._at = self._data[self._at :] + received, 0

    def _takes(self, kind: int, start: int, end: int) -> bool:
        """Return whether the frame belongs to a delivery to a known consumer."""
        message, data = self._message, self._data
        if kind == _BODY and message is not None:
            message.parts.append(data[start:end])
            message.missing -= end - start
        elif kind == _HEADER and message is not None:
            message.missing = int.from_bytes(data[start + 4 : start + 12], "big")
        elif kind == _METHOD and data.startswith(_DELIVER, start):
            # Tag of the consumer, tag of the delivery, one byte of flags, exchange, routing key. A text begins with its length.
            consumer_end = start + 5 + data[start + 4]
            take = self.consumers.get(data[start + 5 : consumer_end])
            if take is None:
                return False
            tag = int.from_bytes(data[consumer_end : consumer_end + 8], "big")
            key = consumer_end + 10 + data[consumer_end + 9]
            routing_key = data[key + 1 : key + 1 + data[key]].decode(errors="replace")
            self._message = _Message(take, tag, routing_key)
            return True
        else:
            return False
        if message.missing <= 0:
            self._message = None
            body = message.parts[0] if len(message.parts) == 1 else b"".join(message.parts)
            message.take(Delivery(message.tag, message.routing_key, body))
        return True


class _Message:
    """A message whose frames have begun to arrive."""

    __slots__ = ("missing", "parts", "routing_key", "tag", "take")

    def __init__(self, take: Take, tag: int, routing_key: str) -> None:
        self.take = take
        self.tag = tag
        self.routing_key = routing_key
        self.parts: list[bytes] = []
        self.missing = 0


class _Transport(TransportFactory):
    """A transport whose reader takes deliveries out of the stream."""

    reader: DeliveryReader

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        usual = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        stream, writer = await usual.create(url, **kwargs)
        self.reader = DeliveryReader(stream)
        return cast("asyncio.StreamReader", self.reader), writer


class Deliveries:
    """The consumers of one channel on its own connection."""

    def __init__(self, channel: AbstractChannel, reader: DeliveryReader) -> None:
        self._channel = channel
        self._reader = reader

    async def consume(self, queue: str, tag: str, take: Take) -> None:
        """Consume a queue.

        Args:
            queue: Its name.
            tag: The consumer's tag, different from that of the channel's other consumers.
            take: Receives each message. It must not raise, because the connection is read by what calls it.
        """
        self._reader.consumers[tag.encode()] = take
        await self._channel.basic_consume(queue, _never, consumer_tag=tag)

    async def cancel(self, tag: str) -> None:
        """End a consumer. No message arrives for it afterwards."""
        await self._channel.basic_cancel(tag)
        del self._reader.consumers[tag.encode()]


async def _never(_: DeliveredMessage) -> None:
    raise RuntimeError("a delivery passed its reader")


@asynccontextmanager
async def open_deliveries(broker_url: str, vhost: str) -> AsyncIterator[tuple[AbstractChannel, Deliveries]]:
    """Open a channel as `open_channel` does, and its deliveries."""
    transport = _Transport()
    async with open_channel(broker_url, vhost, transport) as channel:
        yield channel, Deliveries(channel, transport.reader)
