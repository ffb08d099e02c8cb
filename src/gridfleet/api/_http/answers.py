"""Answers on their way out: plain bytes in one piece, files, and streams."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from litestar.types import Receive, Scope, Send

__all__ = ["Answer", "Asset", "FileDownload", "Header", "Stream", "StreamedAnswer"]

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class FileDownload:
    """A JSON answer that a browser saves as `name`; `content` is the record, or the file's own bytes."""

    name: str
    content: Any
    content_type: str = "application/json"

    @property
    def disposition(self) -> str:
        """The Content-Disposition header (RFC 6266), safe for every name."""
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_. ") else "_" for c in self.name)
        return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(self.name, safe='')}"


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer sent piece by piece. The iterator holds its own connection; an error before its first piece still
    becomes an envelope, a later one cuts the answer short."""

    content_type: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Asset:
    """An answer that is its own bytes, such as a page or a script."""

    content_type: str
    content: bytes


class Answer:
    """A whole answer: one ASGI application that sends header and body together."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Sequence[Header], body: bytes = b"") -> None:
        self.status = status
        self.headers = headers
        self.body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class StreamedAnswer:
    """A streamed answer whose first piece is already there."""

    __slots__ = ("chunks", "first", "headers", "status")

    def __init__(self, status: int, headers: Sequence[Header], first: bytes, chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self.first = first
        self.chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the pieces as they come, until the client goes, and closes their source whatever happens."""
        client_left = asyncio.create_task(_disconnected(receive), name="client left")
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            await send({"type": "http.response.body", "body": self.first, "more_body": True})
            async for chunk in self.chunks:
                if client_left.done():  # sending to nobody raises nothing
                    return
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            client_left.cancel()
            close = getattr(self.chunks, "aclose", None)
            if close is not None:
                await close()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
