"""A call of the application whose response is read while it is made."""

import asyncio
from typing import Any, cast

import msgspec

from gridfleet.api.http.app import create_app
from support.servers.api_service import ApiService

__all__ = ["OpenStream"]


class OpenStream:
    """One GET. `reads` is cleared while the client reads nothing, so that the application waits after its next piece."""

    def __init__(self, service: ApiService, path: str, headers: dict[str, str], query: str = "", *, reads: bool = True) -> None:
        self.pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.status = 0
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
        self.pieces.put_nowait(message["body"] if message.get("more_body") else None)
        await self.reads.wait()

    async def event(self, seconds: float = 60) -> list[tuple[str, float]] | None:
        """Return (metric, value) of the next event; None when the stream has ended."""
        async with asyncio.timeout(seconds):
            while (piece := await self.pieces.get()) is not None:
                if piece.startswith(b"event: values\ndata: "):
                    points = msgspec.json.decode(piece.removeprefix(b"event: values\ndata: "))
                    return [(point["metric"], point["value"]) for point in points]
        return None

    async def rest(self, seconds: float = 60) -> tuple[bytes, bool]:
        """Read on, and return what is left of the response and whether it was ended properly."""
        self.reads.set()
        async with asyncio.timeout(seconds):
            await self.task
        pieces = [self.pieces.get_nowait() for _ in range(self.pieces.qsize())]
        return b"".join(piece for piece in pieces if piece is not None), None in pieces
