"""Requests to one service: its name resolved once, its addresses checked, and nothing else ever connected to."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import httpx

from gridfleet.kernel.cause import outgoing_headers
from gridfleet.kernel.outbound.addresses import AddressRefused, Resolve, is_local_name, is_public, public_addresses, resolve

__all__ = ["Answer", "AnswerTooLarge", "Outbound", "TimedOut", "Unreachable", "Wire"]

_MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
_SECONDS: Final = 10.0


class Unreachable(Exception):
    """No connection, or one that broke before the answer was complete."""


class TimedOut(Exception):
    """The answer was not complete in time. What the request asked for may have been done."""


class AnswerTooLarge(Exception):
    """The answer has more bytes than we read, or is packed."""


class Answer(NamedTuple):
    """What came back, whatever its status; redirects are answers like any other."""

    status: int
    content_type: str
    body: bytes


class Outbound:
    """Opens wires to services that customers named."""

    def __init__(
        self,
        *,
        seconds: float = _SECONDS,
        resolve: Resolve = resolve,
        is_public: Callable[[str], bool] = is_public,
        allow_private: bool = False,
    ) -> None:
        """`seconds` is the time for one request, resolving and connecting included. With `allow_private` every address is
        gone to. Certificates are checked against the usual authorities, or those that `SSL_CERT_FILE` names."""
        self._seconds = seconds
        self._resolve = resolve
        self._is_public = is_public
        self._allow_private = allow_private
        self._tls = httpx.create_ssl_context()

    async def check(self, url: httpx.URL) -> None:
        """Raises AddressRefused when the host is local by its name or its addresses, NameUnknown when it has no address."""
        await self._addresses(url, private=False)

    @asynccontextmanager
    async def open(self, base: httpx.URL, *, private: bool = False) -> AsyncIterator["Wire"]:
        """A wire to the service at `base`; `private` for one of our own, which may be anywhere.

        Raises AddressRefused, NameUnknown, TimedOut.
        """
        addresses = await self._addresses(base, private=private)
        # No connection outlives the wire, so none is ever shared by two services behind one address.
        async with httpx.AsyncClient(
            transport=_Pinned(addresses, self._tls),
            timeout=httpx.Timeout(self._seconds),
            trust_env=False,
            follow_redirects=False,
            headers={"accept": "application/json", "accept-encoding": "identity", "user-agent": "gridfleet"},
        ) as http:
            yield Wire(http, base, self._seconds)

    async def _addresses(self, url: httpx.URL, *, private: bool) -> Sequence[str]:
        anywhere = private or self._allow_private
        if not anywhere and is_local_name(url.host):
            raise AddressRefused("must lead to public addresses alone; this name can only be local")
        try:
            async with asyncio.timeout(self._seconds):
                return await public_addresses(url, self._resolve, is_allowed=(lambda _: True) if anywhere else self._is_public)
        except TimeoutError:
            raise TimedOut from None


class Wire:
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
    ) -> Answer:
        """One request, tried once; `path` is encoded already and begins with a slash.

        Raises Unreachable, TimedOut, AnswerTooLarge.
        """
        told = {**(headers or {}), **outgoing_headers()}
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.stream(method, self._base + path, params=query or None, content=content, headers=told) as answer,
            ):
                return Answer(answer.status_code, answer.headers.get("content-type", ""), await _read(answer))
        except TimeoutError:
            raise TimedOut from None
        except (httpx.TransportError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise Unreachable(type(error).__name__) from error


async def _read(answer: httpx.Response) -> bytes:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise AnswerTooLarge("it is packed, though we asked for plain bytes")
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.aiter_raw():
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise AnswerTooLarge(f"it has more than {_MAX_ANSWER_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)


class _Pinned(httpx.AsyncBaseTransport):
    """Connects to the given addresses, in their order until one answers, whatever the URL's host would resolve to; host
    header and certificate are those of the name."""

    def __init__(self, addresses: Sequence[str], tls: ssl.SSLContext) -> None:
        self._addresses = list(addresses)
        self._inner = httpx.AsyncHTTPTransport(verify=tls, trust_env=False, http2=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request. The next address is tried only while nothing of it was sent."""
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
        """Closes the connections."""
        await self._inner.aclose()
