"""Connections that read little at a time, so that no server can occupy the event loop.

The HTTP library parses all that it has read without a pause. The 64 KiB that it reads by default can be 11,000 chunks of one
byte, or 3,600 interim responses. Their parsing takes up to a second, in which the process does nothing else.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore
import httpx

__all__ = ["PacedTransport"]

_READ_BYTES: Final = 4 * 1024
_MOST_HEAD_BYTES: Final = 64 * 1024
"""Bytes until the head of the response is complete. Any number of interim responses may precede it."""


class PacedTransport(httpx.AsyncHTTPTransport):
    """An HTTP/1.1 transport of a client that sends one request at a time."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False, http2=False)
        self._network = _Network()
        # The parent class has no parameter for the network. The pool that it has made holds no connection yet.
        self._pool = httpcore.AsyncConnectionPool(ssl_context=tls, network_backend=self._network)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. Raises `httpx.ReadError` if the head of the response is too large."""
        self._network.head_bytes = 0
        response = await super().handle_async_request(request)
        self._network.head_bytes = None
        return response


class _Network(httpcore.AnyIOBackend):
    """Opens connections that read little at a time."""

    head_bytes: int | None = None
    """Bytes that were read of the head of a response, None if it is complete."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect as the parent class does."""
        return _Stream(await super().connect_tcp(host, port, timeout, local_address, socket_options), self)

    def count(self, size: int) -> None:
        """Count bytes that were read. Raises `httpcore.ReadError` if the head is too large."""
        if self.head_bytes is not None:
            self.head_bytes += size
            if self.head_bytes > _MOST_HEAD_BYTES:
                raise httpcore.ReadError(f"the head of the response has more than {_MOST_HEAD_BYTES} bytes")


class _Stream(httpcore.AsyncNetworkStream):
    """A connection."""

    def __init__(self, inner: httpcore.AsyncNetworkStream, network: _Network) -> None:
        self._inner = inner
        self._network = network

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await asyncio.sleep(0)  # with TLS, what is already decrypted would be read without a pause
        data = await self._inner.read(min(max_bytes, _READ_BYTES), timeout)
        self._network.count(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout), self._network)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
