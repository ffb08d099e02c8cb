"""TLS to an address that was resolved beforehand: the certificate must be that of the name."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from gridfleet.kernel.outbound.sending import Outbound, Unreachable
from gridfleet.kernel.security.certificates import Authority
from gridfleet.local.broker.server_certificate import write_server_certificate

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


class Server:
    """A port that speaks TLS as `esm.example.com`."""

    port = 0
    names: list[str | None]


@pytest.fixture
async def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    authority, found = Authority.create(), Server()
    write_server_certificate(home, authority, ["esm.example.com"])
    monkeypatch.setenv("SSL_CERT_FILE", str(home / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.pem", home / "server.key")
    found.names = []
    context.sni_callback = lambda _socket, name, _context: found.names.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    found.port = listening.sockets[0].getsockname()[1]
    yield found
    listening.close()


async def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


async def test_the_certificate_is_checked_against_the_name(server: Server) -> None:
    outbound = Outbound(resolve=resolve, allow_private=True)
    async with outbound.open(httpx.URL(f"https://esm.example.com:{server.port}")) as wire:
        assert (await wire.send("GET", "/")).body == b"{}"
    for host in ("other.example.com", "127.0.0.1"):
        async with outbound.open(httpx.URL(f"https://{host}:{server.port}")) as wire:
            with pytest.raises(Unreachable):
                await wire.send("GET", "/")
    assert server.names[:2] == ["esm.example.com", "other.example.com"]


async def test_unknown_authorities_are_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.delenv("SSL_CERT_DIR")
    outbound = Outbound(resolve=resolve, allow_private=True)
    async with outbound.open(httpx.URL(f"https://esm.example.com:{server.port}")) as wire:
        with pytest.raises(Unreachable):
            await wire.send("GET", "/")
