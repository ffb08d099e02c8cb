"""A minimal HTTP client, and a percentile function."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from bench.stack import BenchFailed, Stack

__all__ = ["Client", "percentile"]


class Client:
    """One kept connection. A full HTTP client would take longer than the responses."""

    def __init__(self, stack: Stack, token: str, organization_id: str) -> None:
        self._port = stack.settings.http_port
        self._headers = f"Host: 127.0.0.1:{self._port}\r\nAuthorization: Bearer {token}\r\nX-Org-Id: {organization_id}\r\n\r\n"

    async def __aenter__(self) -> "Client":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def get(self, path: str) -> bytes:
        """Return the body of the response to a GET. Raises unless it is a success."""
        return await self.call("GET", path)

    async def call(self, method: str, path: str) -> bytes:
        """Return the body of the response to `method`, like `get`."""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._headers}".encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b" 204 " in head.split(b"\r\n")[0] + b" ":
            return b""
        if b"content-length:" in head:
            body = await self._reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        else:
            body = b"".join([part async for part in self._chunks()])
        if b" 200 " not in head.split(b"\r\n")[0] + b" ":
            raise BenchFailed(f"{method} {path}: {head.splitlines()[0].decode()} {body[:300].decode(errors='replace')}")
        return body

    async def time(self, path: str) -> float:
        """Return the seconds from the request to the last byte of the response."""
        began = time.perf_counter()
        await self.get(path)
        return time.perf_counter() - began

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)


def percentile(times: Sequence[float], share: float = 0.99) -> float:
    """Return the duration that `share` of the durations do not exceed."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]
