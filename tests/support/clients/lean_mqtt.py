"""A minimal MQTT 3.1.1 client at byte level. It sends what client libraries refuse to send, and returns exact responses."""

import asyncio
import itertools
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

ACCEPTED: Final = 0
BAD_CREDENTIALS: Final = 4
NOT_AUTHORISED: Final = 5
SUBSCRIPTION_REFUSED: Final = 0x80
SUBSCRIBE: Final = 0x82

_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBACK, _PINGREQ, _PINGRESP, _DISCONNECT = (
    *(0x10, 0x20, 0x30, 0x40, 0x90, 0xC0, 0xD0, 0xE0),
)
_QOS_1: Final = 0x02
_RETAIN: Final = 0x01


class Refused(Exception):
    """The broker refused the login with a code other than 0, or closed the connection without a response (None)."""

    def __init__(self, code: int | None) -> None:
        super().__init__("closed without an answer" if code is None else f"CONNACK {code}")
        self.code = code


class Lost(ConnectionError):
    """The broker closed the connection."""


@dataclass(frozen=True, slots=True)
class Will:
    """A Last Will with QoS 1."""

    topic: str
    payload: bytes
    retain: bool = True


@dataclass(frozen=True, slots=True)
class Login:
    """The content of a CONNECT packet. None omits a field; an empty text is sent as an empty text."""

    client_id: str
    username: str | None = None
    password: str | None = None
    will: Will | None = None
    clean_session: bool = True
    keep_alive_seconds: int = 60

    def packet(self) -> bytes:
        flags = 0x02 * self.clean_session
        payload = text(self.client_id)
        if self.will is not None:
            flags |= 0x04 | 0x08 | (0x20 * self.will.retain)
            payload += text(self.will.topic) + _binary(self.will.payload)
        if self.username is not None:
            flags |= 0x80
            payload += text(self.username)
        if self.password is not None:
            flags |= 0x40
            payload += text(self.password)
        return packet(_CONNECT, text("MQTT") + bytes([4, flags]) + _short(self.keep_alive_seconds) + payload)


@dataclass
class Connection:
    """An accepted connection. `received` holds (topic, payload) of received messages."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    received: "asyncio.Queue[tuple[str, bytes]]" = field(default_factory=asyncio.Queue)
    _answers: "dict[int, asyncio.Future[bytes]]" = field(default_factory=dict)
    _ids: "itertools.cycle[int]" = field(default_factory=lambda: itertools.cycle(range(1, 65_536)))
    _ping: "asyncio.Future[bytes] | None" = None
    _reading: "asyncio.Task[None] | None" = None

    async def __aenter__(self) -> "Connection":
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def lost(self) -> bool:
        """Whether the broker has closed the connection."""
        return self._reading is not None and self._reading.done()

    async def wait_lost(self, seconds: float = 5) -> None:
        """Return once the broker has closed the connection."""
        assert self._reading is not None
        async with asyncio.timeout(seconds):
            await asyncio.wait({self._reading})

    async def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False, seconds: float = 10) -> None:
        """Publish and wait for the confirmation (QoS 1). Raises Lost if the broker closes the connection instead."""
        await self.confirmed(await self.start_publish(topic, payload, qos=qos, retain=retain), seconds)

    async def start_publish(
        self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False
    ) -> "asyncio.Future[bytes] | None":
        """Send a message without waiting. Returns the future for `confirmed`, or None for QoS 0."""
        if self.lost:
            raise Lost
        kind = _PUBLISH | (_QOS_1 * (qos == 1)) | (_RETAIN * retain)
        if qos == 0:
            self.writer.write(packet(kind, text(topic) + payload))
            await self._drain()
            return None
        number, answer = self._expect()
        self.writer.write(packet(kind, text(topic) + _short(number) + payload))
        await self._drain()
        return answer

    async def confirmed(self, answer: "asyncio.Future[bytes] | None", seconds: float = 10) -> None:
        """Wait for the PUBACK of `start_publish`."""
        if answer is not None:
            async with asyncio.timeout(seconds):
                await answer

    async def subscribe(self, *topics: str, qos: int = 1, seconds: float = 5) -> Sequence[int]:
        """Return the granted QoS of each filter, or 0x80 if refused. Raises Lost if the broker closes the connection."""
        number, answer = self._expect()
        self.writer.write(packet(SUBSCRIBE, _short(number) + b"".join(text(topic) + bytes([qos]) for topic in topics)))
        await self._drain()
        async with asyncio.timeout(seconds):
            return list(await answer)

    async def ping(self, seconds: float = 5) -> None:
        """Return when the broker has responded, and has therefore handled everything sent before."""
        if self.lost:
            raise Lost
        self._ping = asyncio.get_running_loop().create_future()
        self.writer.write(packet(_PINGREQ, b""))
        await self._drain()
        async with asyncio.timeout(seconds):
            await self._ping

    async def disconnect(self) -> None:
        """Disconnect cleanly, so that no Last Will is sent."""
        self.writer.write(packet(_DISCONNECT, b""))
        await self._drain()
        await self.close()

    def reset(self) -> None:
        """End the connection by a TCP reset. Its port is free at once."""
        at_once = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.writer.transport.abort()

    async def close(self) -> None:
        """Drop the connection like a network failure, so that the Last Will is sent."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        self.writer.transport.abort()

    def _expect(self) -> "tuple[int, asyncio.Future[bytes]]":
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        return number, answer

    async def _drain(self) -> None:
        try:
            await self.writer.drain()
        except OSError as error:
            raise Lost from error

    async def _read(self) -> None:
        try:
            while True:
                kind, body = await read_packet(self.reader)
                if kind & 0xF0 == _PUBLISH:
                    await self._take(kind, body)
                elif kind == _PINGRESP and self._ping is not None and not self._ping.done():
                    self._ping.set_result(b"")
                elif kind in (_PUBACK, _SUBACK):
                    answer = self._answers.pop(int.from_bytes(body[:2], "big"), None)
                    if answer is not None and not answer.done():
                        answer.set_result(body[2:])
        except (asyncio.IncompleteReadError, OSError):
            return
        finally:
            for answer in [*self._answers.values(), *([self._ping] if self._ping else [])]:
                if not answer.done():
                    answer.set_exception(Lost())
                    answer.exception()  # marks the exception as retrieved, also if no task awaits this future
            self._answers.clear()

    async def _take(self, kind: int, body: bytes) -> None:
        end = 2 + int.from_bytes(body[:2], "big")
        topic, payload = body[2:end].decode(), body[end:]
        if kind & 0x06:
            self.writer.write(packet(_PUBACK, payload[:2]))
            payload = payload[2:]
        await self.received.put((topic, payload))


async def connect(
    port: int, login: Login, tls: ssl.SSLContext | None = None, seconds: float = 10, own_port: int | None = None
) -> Connection:
    """Return a connection that the broker has accepted. Use it as an asynchronous context manager.

    Args:
        port: The broker's port.
        login: What to send.
        tls: None for a plain connection.
        seconds: Time until the broker must have answered.
        own_port: The port that the connection comes from. None: any.

    Raises:
        Refused: With the broker's code, or None if the broker closes the connection without a response.
        ssl.SSLError: If the broker ends the TLS handshake.
    """
    async with asyncio.timeout(seconds):
        own_address = None if own_port is None else ("127.0.0.1", own_port)
        reader, writer = await asyncio.open_connection("localhost", port, ssl=tls, local_addr=own_address)
        try:
            writer.write(login.packet())
            await writer.drain()
            kind, body = await read_packet(reader)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            writer.transport.abort()
            raise Refused(None) from error
        except BaseException:
            writer.transport.abort()
            raise
        if kind != _CONNACK or body[1] != ACCEPTED:
            writer.transport.abort()
            raise Refused(body[1] if kind == _CONNACK else None)
        return Connection(reader, writer)


async def read_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the first byte and the body of the next packet."""
    kind = (await reader.readexactly(1))[0]
    length = shift = 0
    while True:
        digit = (await reader.readexactly(1))[0]
        length |= (digit & 0x7F) << shift
        shift += 7
        if not digit & 0x80:
            return kind, await reader.readexactly(length)


def packet(kind: int, body: bytes) -> bytes:
    """Return a packet with this first byte."""
    head = bytearray([kind])
    length = len(body)
    while True:
        length, digit = divmod(length, 128)
        head.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(head) + body


def _short(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _binary(content: bytes) -> bytes:
    return _short(len(content)) + content


def text(content: str) -> bytes:
    """Return a text as MQTT encodes it."""
    return _binary(content.encode())
