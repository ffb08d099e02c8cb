"""AMQP 0-9-1 as bytes, for what a client library would not send, or not as fast."""

import asyncio
import ssl
import struct

from support.clients.partner_organization import Organization


def short(text: str) -> bytes:
    """Return a text with its length before it."""
    return bytes([len(text)]) + text.encode()


def declare(name: str, *, passive: bool = False) -> bytes:
    """Return the method that declares a queue."""
    return struct.pack(">HHH", 50, 10, 0) + short(name) + bytes([passive]) + bytes(4)


def frame(channel: int, payload: bytes, kind: int = 1) -> bytes:
    """Return a frame, of a method unless `kind` is another."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


async def raw_connection(
    org: Organization, user: str, password: str, vhost: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection with channel 1, over TLS and without heartbeats. Its reader buffers almost nothing."""
    reader, writer = await raw_streams(org)
    await log_in(reader, writer, user, password, vhost)
    return reader, writer


async def raw_streams(org: Organization) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open streams to the broker over TLS. The reader buffers almost nothing."""
    tls = ssl.create_default_context(cafile=str(org.stack.home / "ca" / "ca.pem"))
    return await asyncio.open_connection("localhost", org.stack.ports["amqps_port"], ssl=tls, limit=1_000)


async def log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: str, password: str, vhost: str) -> None:
    """Open a connection without heartbeats, and its channel 1, on streams to a broker."""
    await authenticate(reader, writer, user, password)
    await enter(reader, writer, vhost)
    writer.write(frame(1, struct.pack(">HH", 20, 10) + short("")))
    await answer(reader)


async def authenticate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: str, password: str) -> None:
    """Begin a login, up to the broker's answer to the password."""

    def long(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    writer.write(b"AMQP\0\0\x09\x01")
    await answer(reader)
    plain = b"\0" + user.encode() + b"\0" + password.encode()
    writer.write(frame(0, struct.pack(">HH", 10, 11) + long(b"") + short("PLAIN") + long(plain) + short("en_US")))
    await answer(reader)


async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, vhost: str) -> None:
    """Complete a login that `authenticate` has begun."""
    writer.write(frame(0, struct.pack(">HHHIH", 10, 31, 128, 131_072, 0)))
    writer.write(frame(0, struct.pack(">HH", 10, 40) + short(vhost) + short("") + b"\0"))
    await answer(reader)


async def answer(reader: asyncio.StreamReader) -> bytes:
    """Return the content of the next frame."""
    _, _, size = struct.unpack(">BHI", await reader.readexactly(7))
    return (await reader.readexactly(size + 1))[:-1]
