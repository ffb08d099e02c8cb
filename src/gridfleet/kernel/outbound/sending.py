"""Requests to one service: its name is resolved once, its addresses are checked, and no other address is connected to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import httpx

from gridfleet.kernel.cause import outgoing_headers
from gridfleet.kernel.outbound.addresses import AddressRefused, Resolve, is_local_name, is_public, public_addresses, resolve
from gridfleet.kernel.outbound.reading import PacedTransport

__all__ = ["Outbound", "Response", "ResponseTooLarge", "ServiceClient", "TimedOut", "Unreachable"]

_MAX_RESPONSE_BYTES: Final = 8 * 1024 * 1024
_MOST_PIECES: Final = 20_000
"""Chunks of a response, and parts that arrive by themselves. Each takes 30 µs, and a response of 8 MiB may have millions."""
_PIECES_A_TURN: Final = 16
"""Pieces after which other tasks get their turn."""
_SECONDS: Final = 10.0


class Unreachable(Exception):
    """No connection, or it broke before the response was complete."""


class TimedOut(Exception):
    """The response was not complete in time. The request may have taken effect."""


class ResponseTooLarge(Exception):
    """The response is larger than the limit, has too many chunks, or is compressed."""


class Response(NamedTuple):
    """A response with any status, including redirects."""

    status: int
    content_type: str
    body: bytes


class Outbound:
    """Opens clients of servers that organisations or SREs name."""

    def __init__(
        self,
        *,
        seconds: float = _SECONDS,
        resolve: Resolve = resolve,
        is_public: Callable[[str], bool] = is_public,
        allow_private: bool = False,
    ) -> None:
        """Prepare requests.

        Certificates are verified against the usual authorities, or those that `SSL_CERT_FILE` names.

        Args:
            seconds: Time for one request, including resolving and connecting.
            resolve: Returns the addresses of a host.
            is_public: Returns whether an address is public.
            allow_private: Allow every address.
        """
        self._seconds = seconds
        self._resolve = resolve
        self._is_public = is_public
        self._allow_private = allow_private
        self._tls = httpx.create_ssl_context()

    async def check(self, url: httpx.URL) -> None:
        """Check the host of a URL.

        Raises:
            AddressRefused: The host is local by its name or its addresses.
            NameUnknown: It has no address.
            TimedOut: The name was not resolved in time.
        """
        await self._addresses(url, private=False)

    @asynccontextmanager
    async def open(self, base: httpx.URL, *, private: bool = False) -> AsyncIterator["ServiceClient"]:
        """Open a client of the service at `base`.

        Args:
            private: Whether every address is allowed, for a URL that an SRE has set or that is the deployment's own.

        Raises:
            AddressRefused: The host has an address that is not allowed.
            NameUnknown: The host has no address.
            TimedOut: The name was not resolved in time.
        """
        addresses = await self._addresses(base, private=private)
        # Connections are closed with the client, so two services at the same address never share one.
        async with httpx.AsyncClient(
            transport=_Pinned(addresses, self._tls),
            timeout=httpx.Timeout(self._seconds),
            trust_env=False,
            follow_redirects=False,
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "gridfleet"},
        ) as http:
            yield ServiceClient(http, base, self._seconds)

    async def _addresses(self, url: httpx.URL, *, private: bool) -> Sequence[str]:
        anywhere = private or self._allow_private
        if not anywhere and is_local_name(url.host):
            raise AddressRefused("must resolve to public addresses only; this is a local name")
        try:
            async with asyncio.timeout(self._seconds):
                return await public_addresses(url, self._resolve, is_allowed=(lambda _: True) if anywhere else self._is_public)
        except TimeoutError:
            raise TimedOut from None


class ServiceClient:
    """Requests to one service."""

    def __init__(self, http: httpx.AsyncClient, base: httpx.URL, seconds: float) -> None:
        self._http = http
        self._base = str(base)
        self._seconds = seconds

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request, without retries. `path` is already encoded and begins with a slash.

        Raises:
            Unreachable: No connection, or it broke before the response was complete.
            TimedOut: The response was not complete in time.
            ResponseTooLarge: The response is larger than the limit, has too many chunks, or is compressed.
        """
        sent = {**(headers or {}), **outgoing_headers()}
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(method, self._base + path, params=query or None, content=content, headers=sent) as response,
            ):
                return Response(response.status_code, response.headers.get("content-type", ""), await _read(response))
        except TimeoutError:
            raise TimedOut from None
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise Unreachable(type(error).__name__) from error


async def _read(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ResponseTooLarge("it is compressed, although compression was not requested")
    pieces: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > _MAX_RESPONSE_BYTES:
            raise ResponseTooLarge(f"it has more than {_MAX_RESPONSE_BYTES} bytes")
        pieces.append(piece)
        if len(pieces) > _MOST_PIECES:
            raise ResponseTooLarge(f"it has more than {_MOST_PIECES} chunks")
        if len(pieces) % _PIECES_A_TURN == 0:
            await asyncio.sleep(0)
    return b"".join(pieces)


class _Pinned(httpx.AsyncBaseTransport):
    """Transport that connects to the given addresses, in order until one responds. The URL's host is not resolved.

    Host header and certificate check use the name.
    """

    def __init__(self, addresses: Sequence[str], tls: ssl.SSLContext) -> None:
        self._addresses = list(addresses)
        self._inner = PacedTransport(tls)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request. The next address is tried only while no part of the request has been sent."""
        for address in self._addresses[:-1]:
            try:
                return await self._send_to(address, request)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                self._addresses.remove(address)
        return await self._send_to(self._addresses[-1], request)

    async def _send_to(self, address: str, request: httpx.Request) -> httpx.Response:
        return await self._inner.handle_async_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
