"""A call of the application whose response is read while it is made."""

import asyncio
from typing import Any, cast

import httpx
import msgspec

from gridfleet.api.http.app import create_app
from support.servers.api_service import ApiService

__all__ = ["OpenStream", "begun"]


class OpenStream:
    """One GET. `reads` is cleared while the client reads nothing, so that the application waits after its next piece."""

    def __init__(self, service: ApiService, path: str, headers: dict[str, str], query: str = "", *, reads: bool = True) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.status = 0
        self._text = b""
        self.left = asyncio.Event()
        self.reads = asyncio.Event()
        if reads:
            self.reads.set()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 8080),
        }
        self.task = asyncio.create_task(cast("Any", create_app(service.state))(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        if message["body"]:
            self.pieces.put_nowait(message["body"])
        if not message.get("more_body"):
            self.pieces.put_nowait(None)
        await self.reads.wait()

    async def named_event(self, seconds: float = 60) -> tuple[str, Any, str | None] | None:
        """Return name, data and id of the next event; None when the stream has ended. Comments are left out."""
        async with asyncio.timeout(seconds):
            while True:
                while b"\n\n" not in self._text:
                    piece = await self.pieces.get()
                    if piece is None:
                        return None
                    self._text += piece
                block, _, self._text = self._text.partition(b"\n\n")
                fields = dict(line.split(b": ", 1) for line in block.splitlines() if not line.startswith(b":"))
                if b"data" in fields:
                    event_id = fields[b"id"].decode() if b"id" in fields else None
                    return fields[b"event"].decode(), msgspec.json.decode(fields[b"data"]), event_id

    async def event(self, seconds: float = 60) -> list[tuple[str, float]] | None:
        """Return (metric, value) of the next event of a plant's values; None when the stream has ended."""
        found = await self.named_event(seconds)
        return found and [(point["metric"], point["value"]) for point in found[1]]

    async def rest(self, seconds: float = 60) -> tuple[bytes, bool]:
        """Read on, and return what is left of the response and whether it was ended properly."""
        self.reads.set()
        async with asyncio.timeout(seconds):
            await self.task
        pieces = [self.pieces.get_nowait() for _ in range(self.pieces.qsize())]
        return b"".join(piece for piece in pieces if piece is not None), None in pieces


async def begun(service: ApiService, path: str, headers: dict[str, str]) -> httpx.Response:
    """Return a response with its first piece only, for streams that do not end."""
    stream = OpenStream(service, path, headers)
    async with asyncio.timeout(60):
        piece = await stream.pieces.get()
    stream.task.cancel()
    await asyncio.gather(stream.task, return_exceptions=True)
    kind = "text/event-stream" if stream.status == 200 else "application/json"
    return httpx.Response(stream.status, content=piece or b"", headers={"content-type": kind})
