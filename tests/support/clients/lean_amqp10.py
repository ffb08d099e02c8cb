"""A login with AMQP 1.0 at byte level."""

import asyncio
import ssl
import struct
from typing import Final

_SASL, _AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"
_OPEN: Final = 0x10
_BEGIN: Final = 0x11
_SASL_INIT: Final = 0x41
_ACCEPTED: Final = b"\x50\x00"
"""The octet 0, the outcome of a login that the broker accepts."""
_BEGUN: Final = b"\x00\x53\x11"


class Refused10(Exception):
    """The broker ended the connection."""


async def connect10(port: int, user: str, password: str, vhost: str, tls: ssl.SSLContext) -> None:
    """Log in over TLS, open a connection with a session, and close it. Raises Refused10."""
    reader, writer = await asyncio.open_connection("localhost", port, ssl=tls)

    async def frame() -> bytes:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return (await reader.readexactly(size - 4))[4:]

    try:
        async with asyncio.timeout(60):
            writer.write(_SASL)
            if (answer := await reader.readexactly(8)) != _SASL:
                raise Refused10(f"the broker speaks {answer!r}")
            await frame()  # the mechanisms
            plain = b"\0" + user.encode() + b"\0" + password.encode()
            writer.write(_frame(_SASL_INIT, _text(0xB3, b"PLAIN") + _text(0xB0, plain), 2, kind=1))
            if _ACCEPTED not in (outcome := await frame()):
                raise Refused10(f"login: {outcome!r}")
            writer.write(_AMQP)
            await reader.readexactly(8)
            writer.write(_frame(_OPEN, _text(0xB1, b"client") + _text(0xB1, f"vhost:{vhost}".encode()), 2))
            await frame()
            # No remote channel, then the next id and two windows.
            writer.write(_frame(_BEGIN, b"\x40" + b"".join(b"\x70" + struct.pack(">I", n) for n in (0, 1000, 1000)), 4))
            if not (begun := await frame()).startswith(_BEGUN):
                raise Refused10(f"session: {begun!r}")
    except asyncio.IncompleteReadError as error:
        raise Refused10("closed") from error
    finally:
        writer.close()


def _text(code: int, data: bytes) -> bytes:
    return bytes([code]) + struct.pack(">I", len(data)) + data


def _frame(performative: int, fields: bytes, count: int, *, kind: int = 0) -> bytes:
    body = b"\x00\x53" + bytes([performative]) + b"\xd0" + struct.pack(">II", len(fields) + 4, count) + fields
    return struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body
