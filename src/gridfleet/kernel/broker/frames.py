"""Frames that are taken out of a connection's read buffer.

aiormq reads a frame in three pieces, passes it through two queues, and starts a task for each delivery. That takes ten times
the CPU of this module, which reads the frames of deliveries and confirmations itself and leaves all others to aiormq: its
connection accepts any transport, and this one's reader removes those frames from the stream.
"""

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL

__all__ = ["Confirmation", "FrameReader", "FrameTransport", "TaggedMessage", "Take", "TakeConfirmation"]

_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_KINDS: Final = frozenset((_METHOD, _HEADER, _BODY, _HEARTBEAT))
_FRAME: Final = struct.Struct(">BHI")
"""Start of a frame: kind, number of the channel, bytes of the payload. One byte ends it."""
_DELIVER: Final = bytes((0, 60, 0, 60))
"""Class and method of `basic.deliver`."""
_ACK: Final = bytes((0, 60, 0, 80))
"""Class and method of `basic.ack`."""
_NACK: Final = bytes((0, 60, 0, 120))
"""Class and method of `basic.nack`."""
_BEAT: Final = _FRAME.pack(_HEARTBEAT, 0, 0) + b"\xce"
_BEAT_SECONDS: Final = 5.0
"""The broker itself sends a heartbeat after half of `HEARTBEAT_SECONDS` without other frames."""
_READ_BYTES: Final = 262_144


class TaggedMessage(NamedTuple):
    """A message with its delivery tag."""

    tag: int
    routing_key: str
    body: bytes


class Confirmation(NamedTuple):
    """The broker's confirmation or rejection of published messages.

    `tag` is the number of the message on its channel, `multiple` means that it applies to all earlier ones too, and `confirmed`
    whether the broker is responsible for them now.
    """

    tag: int
    multiple: bool
    confirmed: bool


Take = Callable[[TaggedMessage], None]
TakeConfirmation = Callable[[Confirmation], None]


class FrameReader:
    """The stream without the frames that are taken, with the methods of a `StreamReader` that aiormq uses."""

    def __init__(self, stream: asyncio.StreamReader, beat_seconds: float = _BEAT_SECONDS) -> None:
        """Read from `stream`. aiormq receives a heartbeat when frames are taken, at most once in `beat_seconds`."""
        self._stream = stream
        self._beat_seconds = beat_seconds
        self._beat_at = -beat_seconds
        self._data = b""
        self._at = 0
        self._frame_end = 0
        """End of the frame that is being read, in `_data`."""
        self._message: _Message | None = None
        self.consumers: dict[bytes, Take] = {}
        """What takes the messages of each consumer, by its tag. All are on one channel of the connection."""
        self.publishers: dict[int, TakeConfirmation] = {}
        """What takes the confirmations of each channel, by its number."""

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
        """Go to the next frame that is left to aiormq, and take those before it."""
        taken = False
        while True:
            if len(self._data) - self._at >= _FRAME.size:
                kind, channel, size = _FRAME.unpack_from(self._data, self._at)
                start = self._at + _FRAME.size
                end = start + size + 1
                if kind not in _KINDS:  # not a stream of frames: aiormq raises an error
                    self._frame_end = len(self._data)
                    return
                if end <= len(self._data):
                    if self._takes(kind, channel, start, end - 1):
                        taken = True
                        self._at = end
                        continue
                    self._frame_end = end
                    return
            if taken and (now := time.monotonic()) - self._beat_at >= self._beat_seconds:
                # aiormq closes a connection without frames, and the broker sends no heartbeats while it sends messages.
                self._beat_at = now
                self._data, self._at, self._frame_end = _BEAT + self._data[self._at :], 0, len(_BEAT)
                return
            await self._receive()

    async def _receive(self) -> None:
        received = await self._stream.read(_READ_BYTES)
        if not received:
            raise asyncio.IncompleteReadError(self._data[self._at :], None)
        self._frame_end -= self._at
        self._data, self._at = self._data[self._at :] + received, 0

    def _takes(self, kind: int, channel: int, start: int, end: int) -> bool:
        """Take the frame if it belongs to a known consumer or publisher. Returns whether it does."""
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
        elif kind == _METHOD and channel in self.publishers and data.startswith((_ACK, _NACK), start):
            # Number of the message, and one byte of flags.
            tag = int.from_bytes(data[start + 4 : start + 12], "big")
            multiple, confirmed = bool(data[start + 12] & 1), data.startswith(_ACK, start)
            self.publishers[channel](Confirmation(tag, multiple, confirmed))
            return True
        else:
            return False
        if message.missing <= 0:
            self._message = None
            body = message.parts[0] if len(message.parts) == 1 else b"".join(message.parts)
            message.take(TaggedMessage(message.tag, message.routing_key, body))
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


class FrameTransport(TransportFactory):
    """The transport of a connection, whose reader takes frames out of the stream."""

    reader: FrameReader
    writer: asyncio.StreamWriter

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        usual = TLSTransportFactory() if url.scheme == "amqps" else TCPTransportFactory()
        stream, self.writer = await usual.create(url, **kwargs)
        self.reader = FrameReader(stream)
        return cast("asyncio.StreamReader", self.reader), self.writer
