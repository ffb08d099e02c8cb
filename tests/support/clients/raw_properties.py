"""AMQP message properties as raw bytes, as a faulty or hostile client sends them."""

import struct
from typing import Final

from pamqp.commands import Basic

_HEADERS: Final = 0x2000
_CORRELATION_ID: Final = 0x0400
_TIMESTAMP: Final = 0x0040


class RawProperties(Basic.Properties):
    """Properties that are sent as given."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._raw = raw

    def marshal(self) -> bytes:
        """Return the given bytes."""
        return self._raw


class NotUtf8(str):
    """A text that is sent with two bytes behind it that are not UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes that are sent."""
        return super().encode(encoding, errors) + b"\xff\xfe"


class Repeated(str):
    """A name that may be several times in one dictionary of arguments."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def table(fields: bytes) -> bytes:
    """Return the fields with their length before them."""
    return len(fields).to_bytes(4, "big") + fields


def field(name: bytes, value: bytes) -> bytes:
    """Return a header. `value` begins with the letter of its type."""
    return bytes([len(name)]) + name + value


def text(value: bytes) -> bytes:
    """Return a header's value."""
    return b"S" + table(value)


def headers(fields: bytes) -> bytes:
    """Return properties that contain only headers."""
    return _flags(_HEADERS) + table(fields)


def nested(levels: int) -> bytes:
    """Return a header with nested tables."""
    value = b"V"
    for _ in range(levels):
        value = b"F" + table(field(b"a", value))
    return field(b"a", value)


def _flags(flags: int) -> bytes:
    return flags.to_bytes(2, "big")


_COPY: Final = field(b"CC", b"A" + table(text(b"nowhere")))

STRANGE: Final = {
    "timestamp": _flags(_TIMESTAMP) + b"\xff" * 8,
    "text": _flags(_CORRELATION_ID) + b"\xff" * 256,
    "reserved flag": _flags(0x0001),
}
"""Properties that no consumer reads."""

STRANGE_HEADERS: Final = {
    "name": headers(field(b"\xff\xfe", b"V")),
    "time": headers(field(b"a", b"T" + b"\xff" * 8)),
    "copy and time": headers(_COPY + field(b"a", b"T" + b"\xff" * 8)),
    "2,000 levels": headers(nested(2_000)),
    "50,000 values": headers(field(b"a", b"A" + table(b"V" * 50_000))),
}
"""Headers that can hide the signature, or send copies to other queues."""

GROWING: Final = {"numbers": headers(field(b"a", b"A" + table(b"B\xc8" * 60_000)))}
"""Headers that grow by half when pamqp encodes them again, to more than a frame."""

UNENCODABLE: Final = {
    "binary": headers(field(b"x-correlation-id", text(b"\xff\x00"))),
    "number": headers(field(b"a", b"d" + struct.pack(">d", 1e300))),
    "inner": headers(field(b"a", b"A" + table(text(b"\xff")))),
}
"""Headers that pamqp decodes and cannot encode again."""
