"""A minimal AMQP 1.0 client at byte level: login, publishing, and RabbitMQ's management node."""

import asyncio
import itertools
import ssl
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_SASL, _AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)
_SASL_INIT, _SASL_OUTCOME = 0x41, 0x44
_SOURCE, _TARGET, _PROPERTIES, _VALUE, _DATA, _ANNOTATIONS = 0x28, 0x29, 0x73, 0x77, 0x75, 0x72
_ACCEPTED: Final = 0x24


class Symbol(str):
    """A text that is sent as a symbol."""

    __slots__ = ()


class Described(NamedTuple):
    """A composite value: the code of its descriptor, and its fields."""

    code: int
    value: Any


class Uint(int):
    """An unsigned 32-bit integer."""

    __slots__ = ()


class Octet(int):
    """An unsigned 8-bit integer."""

    __slots__ = ()


class Refused10(Exception):
    """The broker ended the login, link, session or connection."""


def encode(value: Any) -> bytes:
    """Return the encoded bytes of a value. Composites contain lists."""
    match value:
        case None:
            return b"\x40"
        case bool():
            return b"\x41" if value else b"\x42"
        case Described(code, inner):
            return b"\x00\x53" + bytes([code]) + encode(inner)
        case Octet():
            return b"\x50" + bytes([value])
        case Uint():
            return b"\x70" + struct.pack(">I", value)
        case int():
            return b"\x81" + struct.pack(">q", value)
        case Symbol():
            return b"\xb3" + struct.pack(">I", len(value)) + value.encode()
        case str():
            data = value.encode()
            return b"\xb1" + struct.pack(">I", len(data)) + data
        case bytes():
            return b"\xb0" + struct.pack(">I", len(value)) + value
        case list() | dict():
            items = value if isinstance(value, list) else [part for pair in value.items() for part in pair]
            data = b"".join(map(encode, items))
            return (b"\xd0" if isinstance(value, list) else b"\xd1") + struct.pack(">II", len(data) + 4, len(items)) + data
    raise TypeError(type(value))


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """Return the value that begins at `at`, and the position after it."""
    kind, at = data[at], at + 1
    if kind == 0x00:
        code, at = decode(data, at)
        value, at = decode(data, at)
        return Described(code, value), at
    width = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}.get(kind >> 4)
    if width is not None:
        raw = data[at : at + width]
        constants = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}
        return (constants[kind] if width == 0 else int.from_bytes(raw, "big")), at + width
    digits = 1 if kind >> 4 in (0xA, 0xC, 0xE) else 4
    size = int.from_bytes(data[at : at + digits], "big")
    at, end = at + digits, at + digits + size
    if kind & 0xF0 in (0xA0, 0xB0):
        raw = data[at:end]
        return (raw if kind & 0x0F == 0 else raw.decode()), end
    if kind & 0xF0 in (0xE0, 0xF0):
        return data[at:end], end
    count, at = int.from_bytes(data[at : at + digits], "big"), at + digits
    items = []
    for _ in range(count):
        item, at = decode(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind in (0xC1, 0xD1) else items), end


class Amqp10:
    """A connection with one session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._handles = itertools.count()
        self._deliveries = itertools.count()
        self._incoming = 0

    @classmethod
    async def connect(cls, port: int, user: str, password: str, vhost: str, tls: ssl.SSLContext | None = None) -> "Amqp10":
        """Log in and begin a session. Raises Refused10."""
        reader, writer = await asyncio.open_connection("localhost" if tls else "127.0.0.1", port, ssl=tls)
        self = cls(reader, writer)
        try:
            writer.write(_SASL)
            if (answer := await reader.readexactly(8)) != _SASL:
                raise Refused10(f"the broker speaks {answer!r}")
            await self._next()  # the mechanisms
            self._send(_SASL_INIT, [Symbol("PLAIN"), b"\0" + user.encode() + b"\0" + password.encode()], kind=1)
            outcome = await self._next()
            if outcome.value[0] != 0:
                raise Refused10(f"login: {outcome.value}")
            writer.write(_AMQP)
            await reader.readexactly(8)
            self._send(_OPEN, ["hostile", f"vhost:{vhost}", Uint(131_072)])
            await self._expect(_OPEN)
            self._send(_BEGIN, [None, Uint(0), Uint(1000), Uint(1000), Uint(255)])
            self._incoming = (await self._expect(_BEGIN)).value[1]
        except asyncio.IncompleteReadError as error:
            writer.close()
            raise Refused10("closed") from error
        except BaseException:
            writer.close()
            raise
        return self

    def close(self) -> None:
        """Close the connection without an AMQP close."""
        self._writer.close()

    async def attach(self, source: str | None, target: str | None, *, receives: bool, name: str | None = None) -> int:
        """Attach a link and return its handle. Raises Refused10."""
        handle = next(self._handles)
        ends = [Described(_SOURCE, [source]), Described(_TARGET, [target])]
        paired = {Symbol("paired"): True} if "/management" in (source, target) else None
        start = [name or f"link-{handle}", Uint(handle), receives, Octet(1 if paired else 2), Octet(0), *ends]
        self._send(_ATTACH, [*start, None, None, None if receives else Uint(0), None, None, None, paired])
        answer = await self._expect(_ATTACH)
        if answer.value[6 if not receives else 5] is None:
            raise Refused10("the broker detaches the link")
        if receives:
            self._send(_FLOW, [Uint(self._incoming), Uint(1000), Uint(0), Uint(1000), Uint(handle), Uint(0), Uint(100)])
        return handle

    async def publish(
        self, handle: int, body: bytes, to: str | None = None, annotations: Mapping[str, Any] | None = None
    ) -> int:
        """Send a message and return the code of its outcome: 0x24 accepted, 0x25 rejected, 0x26 released."""
        marks = (
            encode(Described(_ANNOTATIONS, {Symbol(name): value for name, value in annotations.items()}))
            if annotations
            else b""
        )
        self._transfer(handle, marks + encode(Described(_PROPERTIES, [None, None, to])) + encode(Described(_DATA, body)))
        answer = await self._expect(_DISPOSITION)
        return int(answer.value[4].code)

    async def manage(self) -> "tuple[int, int]":
        """Attach the pair of links to the management node. Returns their handles."""
        sending = await self.attach("/management", "/management", receives=False, name="pair")
        return sending, await self.attach("/management", "/management", receives=True, name="pair")

    async def request(self, sending: int, method: str, path: str, body: Any = None) -> tuple[str, Any]:
        """Send a request over the pair of links. Returns status and body."""
        number = next(self._deliveries)
        self._transfer(
            sending,
            encode(Described(_PROPERTIES, [str(number), None, path, method, "$me"])) + encode(Described(_VALUE, body)),
            settled=True,
        )
        answer = await self._expect(_TRANSFER)
        self._incoming += 1
        at, sections = 0, {}
        payload: bytes = answer.payload  # type: ignore[attr-defined]
        while at < len(payload):
            section, at = decode(payload, at)
            sections[section.code] = section.value
        return sections[_PROPERTIES][3], sections.get(_VALUE)

    def _transfer(self, handle: int, payload: bytes, *, settled: bool = False) -> None:
        number = next(self._deliveries)
        self._send(_TRANSFER, [Uint(handle), Uint(number), b"%d" % number, Uint(0), settled], payload=payload)

    def _send(self, code: int, fields: list[Any], *, kind: int = 0, payload: bytes = b"") -> None:
        body = encode(Described(code, fields)) + payload
        self._writer.write(struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body)

    async def _expect(self, code: int) -> "_Performative":
        while True:
            found = await self._next()
            if found.code == code:
                return found
            if found.code in (_DETACH, _END, _CLOSE):
                raise Refused10(str(found.value))

    async def _next(self) -> "_Performative":
        async with asyncio.timeout(10):
            try:
                while (size := int.from_bytes(await self._reader.readexactly(4), "big")) == 8:
                    await self._reader.readexactly(4)  # a heartbeat
                frame = await self._reader.readexactly(size - 4)
            except asyncio.IncompleteReadError as error:
                raise Refused10("closed") from error
        found, end = decode(frame, 4)
        return _Performative(found.code, found.value, frame[end:])


class _Performative(NamedTuple):
    code: int
    value: list[Any]
    payload: bytes
