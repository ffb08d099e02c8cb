"""A TCP line to a broker that a test can break in the ways in which real lines break."""

import asyncio
import contextlib
import math
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_RESET = struct.pack("ii", 1, 0)


@dataclass
class BrokerLine:
    """Forwards connections to a node. Each way to break it applies to the connections that are open at that time."""

    target: int
    port: int = 0
    delay_seconds: float = 0
    """How long data of the clients is on the way."""
    bytes_per_second: float = math.inf
    """How fast data of the clients is forwarded, for all connections together."""
    serving: set["asyncio.Task[None]"] = field(default_factory=set)
    _open: set["_Pair"] = field(default_factory=set)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def url(self, broker_url: str) -> str:
        """Return the node's URL by way of this line."""
        return broker_url.replace(f":{self.target}", f":{self.port}")

    def hang(self) -> None:
        """Forward nothing more, as when a node hangs or a network drops packets."""
        for pair in self._open:
            pair.hangs = True

    def send(self, data: bytes) -> None:
        """Send something to the clients, as if the node had sent it."""
        for pair in self._open:
            pair.client.write(data)

    def reset(self) -> None:
        """Reset the connections, as when a node is killed with unread data."""
        for pair in self._open:
            pair.reset()

    def reset_at_next_data(self) -> None:
        """Reset each connection when its client sends something."""
        for pair in self._open:
            pair.resets = True

    def end(self) -> None:
        """Send what the node sent since `hang` and end the streams, as when it is killed right after it sent something."""
        for pair in self._open:
            pair.client.write(bytes(pair.held))
            pair.client.close()
            pair.ended.set()

    async def carry(self, data: bytes) -> None:
        """Wait as long as the line needs for data of a client."""
        await asyncio.sleep(self.delay_seconds)
        async with self._turn:
            await asyncio.sleep(len(data) / self.bytes_per_second)

    async def serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Forward one connection until it ends."""
        if task := asyncio.current_task():
            self.serving.add(task)
        far, node = await asyncio.open_connection("127.0.0.1", self.target)
        pair = _Pair(self, client, node)
        self._open.add(pair)
        try:
            await asyncio.gather(pair.forward(reader, node), pair.forward(far, client))
        finally:
            self._open.discard(pair)
            pair.client.close()
            pair.node.close()


@dataclass(eq=False)
class _Pair:
    line: BrokerLine
    client: asyncio.StreamWriter
    node: asyncio.StreamWriter
    hangs: bool = False
    resets: bool = False
    held: bytearray = field(default_factory=bytearray)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536 if self.line.bytes_per_second == math.inf else 1_024):
                if sink is self.node:
                    await self.line.carry(data)
                if self.resets and sink is self.node:
                    self.reset()
                elif not self.hangs:
                    sink.write(data)
                elif sink is self.client:
                    self.held += data
        if self.hangs:
            await self.ended.wait()  # a hanging line ends no stream
        if sink is self.node:
            sink.close()

    def reset(self) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self.client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.client.transport.abort()
        self.node.transport.abort()


@asynccontextmanager
async def broker_line(
    broker_url: str, host: str = "127.0.0.1", port: int = 0, bytes_per_second: float = math.inf
) -> AsyncIterator[BrokerLine]:
    """Open a line to the node until the block ends. `port` 0 selects a free one. A narrow line buffers a few KiB."""
    line = BrokerLine(urlsplit(broker_url).port or 0, bytes_per_second=bytes_per_second)
    is_narrow = bytes_per_second < math.inf
    server = await asyncio.start_server(line.serve, host, port, limit=1_024 if is_narrow else 65_536, start_serving=False)
    if is_narrow:
        server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await server.start_serving()
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        line.reset()
        server.close()
        await asyncio.gather(*line.serving)
