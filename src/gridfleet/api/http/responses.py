"""Responses: complete bodies, files and streams."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec
import structlog

from gridfleet.kernel.errors import CodedError

__all__ = [
    "ASGIApp",
    "Asset",
    "Encoder",
    "Header",
    "Message",
    "Receive",
    "Response",
    "Scope",
    "Send",
    "Stream",
    "StreamedResponse",
    "entity_tag",
]

log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

Header = tuple[bytes, bytes]

_PIECE_BYTES: Final = 16 * 1024
"""Bytes of a body that are sent at a time.

The server's HTTP layer copies what it is given, and holds up to a dozen pieces for a client that reads nothing.
"""
_IN_HTTP_LAYER: Final = 256 * 1024
"""Bytes that the HTTP layer holds of a large response whose client reads nothing."""
_OF_STREAM: Final = 2 * 1024 * 1024
"""Bytes of a page of values and of its text."""


class Message(msgspec.Struct, frozen=True):
    """The usual response of a deletion or an action."""

    message: str


@dataclass(frozen=True, slots=True)
class Stream:
    """A response sent in chunks.

    The iterator holds its own database connection. An error before the first chunk becomes an error envelope; a later error
    ends the response early, and the client finds that its last chunk is missing.

    Attributes:
        content_type: The content type.
        chunks: The chunks.
        stalled_seconds: The response ends early if the client takes nothing of a chunk for this time; never if None.
    """

    content_type: str
    chunks: AsyncIterator[bytes]
    stalled_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Asset:
    """A response with its own content type and bytes.

    Clients may cache one with an `etag` and send the `etag` at each use. While it is unchanged, the response has no body.
    """

    content_type: str
    content: bytes
    etag: str | None = None

    @classmethod
    def tagged(cls, content_type: str, content: bytes) -> "Asset":
        """Return a response with an entity tag of its bytes."""
        return cls(content_type, content, entity_tag(content))


def entity_tag(content: bytes) -> str:
    """Return the entity tag (RFC 9110) of a text. It is weak, because compressed responses have other bytes."""
    return f'W/"{hashlib.sha256(content).hexdigest()}"'


@dataclass(slots=True)
class Response:
    """A complete response: an ASGI application that sends header and body, or only the header if the request is a HEAD."""

    status: int
    headers: Sequence[Header]
    body: bytes = b""
    is_file: bool = False
    """Whether the body is the same for all callers and kept in memory. It is then kept compressed too."""

    @property
    def held_bytes(self) -> int:
        """Memory in bytes that the response takes until the client has read it; 0 if it is small."""
        if len(self.body) <= _PIECE_BYTES:
            return 0
        return _IN_HTTP_LAYER + (0 if self.is_file else len(self.body))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, a large body in pieces: each waits until the client has read most of the earlier ones."""
        headers, body = self.headers, self.body
        is_large = len(body) > _PIECE_BYTES
        if is_large or (scope["method"] == "HEAD" and body):
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        if scope["method"] == "HEAD":
            body = b""
        elif is_large:
            for piece in _pieces(body):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            body = b""
        await send({"type": "http.response.body", "body": body, "more_body": False})


class Encoder(Protocol):
    """Encodes the chunks of a stream."""

    async def encode(self, chunk: bytes) -> bytes:
        """Return a chunk in the encoding."""

    def end(self) -> bytes:
        """Return what follows the last chunk."""


@dataclass(slots=True)
class StreamedResponse:
    """A streamed response whose first chunk has already been read. The response to a HEAD ends after the header."""

    status: int
    headers: Sequence[Header]
    first: bytes
    chunks: AsyncIterator[bytes]
    encoder: Encoder | None = None
    stalled_seconds: float | None = None

    @property
    def held_bytes(self) -> int:
        """Memory in bytes that the response takes while it is sent; 0 for event streams, whose number is limited instead."""
        return _OF_STREAM if self.stalled_seconds is None else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send chunks as they become available until the client disconnects, and always close their source."""
        client_left = asyncio.create_task(_disconnected(receive), name="client left")
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            if scope["method"] == "HEAD":
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            await self._send_first(send)
            async for chunk in self.chunks:
                if client_left.done():  # sending to a closed connection does not raise
                    return
                await self._send_chunk(send, chunk)
            last = b"" if self.encoder is None else self.encoder.end()
            await send({"type": "http.response.body", "body": last, "more_body": False})
        except CodedError as error:
            log.info("response ended early", code=error.code)
        except _ClientStalled:
            log.info("response ended early, the client does not read it")
        finally:
            client_left.cancel()
            await self.close()

    async def close(self) -> None:
        """Close the source of the chunks."""
        close = getattr(self.chunks, "aclose", None)
        if close is not None:
            await close()

    async def _send_first(self, send: Send) -> None:
        first, self.first = self.first, b""  # a stream may last for hours after it
        await self._send_chunk(send, first)

    async def _send_chunk(self, send: Send, chunk: bytes) -> None:
        encoded = chunk if self.encoder is None else await self.encoder.encode(chunk)
        try:
            for piece in _pieces(encoded):
                async with asyncio.timeout(self.stalled_seconds):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError as error:
            raise _ClientStalled from error


def _pieces(body: bytes) -> Iterator[bytes]:
    return (body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES))


class _ClientStalled(Exception):
    """The client has taken nothing of a chunk for too long."""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
