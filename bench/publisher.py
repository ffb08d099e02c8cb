"""Publishers of prepared messages: over MQTT as real plants do, and over one AMQP connection for more plants than can connect.

`Publishers` is a minimal MQTT 3.1.1 client: QoS 1, one connection per plant. A full client would use more CPU time than the
broker. This one writes packets and counts confirmations.
"""

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Final, Protocol, cast

from pamqp.commands import Basic

from bench.fleet import BenchPlant
from bench.load import Sent
from bench.stack import BenchFailed
from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.frames import FrameTransport
from gridfleet.kernel.broker.publisher import OutgoingMessage, Publisher

__all__ = ["AmqpPublisher", "Publishers", "Publishing"]

_CONNACK: Final = b"\x20\x02\x00\x00"
_PUBACK: Final = 0x40
_PUBACK_BYTES: Final = 4
_LOGINS_AT_ONCE: Final = 16
_KEEP_ALIVE_SECONDS: Final = 0xFFFF
_MQTT_EXCHANGE: Final = "amq.topic"
_PERSISTENT: Final = Basic.Properties(delivery_mode=2)
_MESSAGES_AT_ONCE: Final = 500
_CONFIRM_SECONDS: Final = 60.0


class Publishing(Protocol):
    """Publishes the messages of a load."""

    async def publish(self, messages: Iterable[Sent]) -> None:
        """Publish all messages and wait until the broker has confirmed them."""

    def send(self, message: Sent) -> None:
        """Publish without waiting."""


class _Connection(asyncio.Protocol):
    """The connection of one plant."""

    def __init__(self, plant: BenchPlant, window: int) -> None:
        self._plant = plant
        self._window = window
        self._waiting: deque[bytes] = deque()
        self._in_flight = 0
        self._received = b""
        self._packet_id = 0
        self._lost: Exception | None = None
        loop = asyncio.get_running_loop()
        self.accepted: asyncio.Future[None] = loop.create_future()
        self._idle: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked at run time: uvloop's transports are no subclass.
        self._transport = cast("asyncio.Transport", transport)
        head = _text("MQTT") + b"\x04\xc2" + struct.pack(">H", _KEEP_ALIVE_SECONDS)
        body = head + _text(self._plant.id) + _text(self._plant.id) + _text(self._plant.mqtt_token)
        self._transport.write(b"\x10" + _length(len(body)) + body)

    def data_received(self, data: bytes) -> None:
        received = self._received + data
        if not self.accepted.done():
            if len(received) < len(_CONNACK):
                self._received = received
                return
            if received[: len(_CONNACK)] != _CONNACK:
                self.accepted.set_exception(BenchFailed(f"the broker refused a plant's login: {received.hex()}"))
                return
            self.accepted.set_result(None)
            received = received[len(_CONNACK) :]
        whole = len(received) // _PUBACK_BYTES
        if any(received[at] != _PUBACK for at in range(0, whole * _PUBACK_BYTES, _PUBACK_BYTES)):
            self._fail(BenchFailed("the broker sent something else than confirmations"))
            return
        self._received = received[whole * _PUBACK_BYTES :]
        self._in_flight -= whole
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(BenchFailed(f"the broker closed a plant's connection: {exc}"))

    def publish(self, topic: str, body: bytes) -> None:
        """Send when the window of unconfirmed messages has room."""
        self._packet_id = self._packet_id % 0xFFFF + 1
        name = _text(topic)
        packet = b"\x32" + _length(len(name) + 2 + len(body)) + name + struct.pack(">H", self._packet_id) + body
        self._waiting.append(packet)
        self._send()

    async def confirmed(self) -> None:
        """Wait until everything is confirmed."""
        if self._lost is not None:
            raise self._lost
        if self._waiting or self._in_flight:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def close(self) -> None:
        self._transport.abort()

    def _send(self) -> None:
        while self._waiting and self._in_flight < self._window:
            self._transport.write(self._waiting.popleft())
            self._in_flight += 1
        if self._idle is not None and not self._idle.done() and not self._waiting and not self._in_flight:
            self._idle.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._lost = error
        for future in (self.accepted, self._idle):
            if future is not None and not future.done():
                future.set_exception(error)


class Publishers:
    """Connections of the fleet's plants."""

    def __init__(self, connections: list[_Connection]) -> None:
        self._connections = connections

    @classmethod
    async def connect(cls, plants: Iterable[BenchPlant], port: int, window: int = 4) -> "Publishers":
        """Log every plant in with its token. `window` is the maximum number of unconfirmed messages per plant."""
        loop = asyncio.get_running_loop()
        turns = asyncio.Semaphore(_LOGINS_AT_ONCE)

        async def log_in(plant: BenchPlant) -> _Connection:
            async with turns:
                _, connection = await loop.create_connection(lambda: _Connection(plant, window), "127.0.0.1", port)
                await asyncio.wait_for(connection.accepted, 30)
                return connection

        return cls(list(await asyncio.gather(*map(log_in, plants))))

    async def publish(self, messages: Iterable[Sent]) -> None:
        """Publish all messages and wait until the broker has confirmed them."""
        for message in messages:
            self._connections[message.plant].publish(message.topic, message.body)
        await asyncio.gather(*(connection.confirmed() for connection in self._connections))

    def send(self, message: Sent) -> None:
        """Publish without waiting."""
        self._connections[message.plant].publish(message.topic, message.body)

    def close(self) -> None:
        """Close the connections without waiting."""
        for connection in self._connections:
            connection.close()


class AmqpPublisher:
    """Publishes to the exchange to which the broker passes what arrives over MQTT, with the same durability."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._unsent: list[OutgoingMessage] = []
        self._calls: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(cls, broker_url: str) -> AsyncIterator["AmqpPublisher"]:
        """Open a connection until the block ends."""
        transport = FrameTransport()
        async with open_channel(broker_url, PLANTS_VHOST, transport) as channel:
            publisher = Publisher(channel, transport)
            try:
                yield cls(publisher)
            finally:
                publisher.close()

    async def publish(self, messages: Iterable[Sent]) -> None:
        """Publish all messages and wait until the broker has confirmed them."""
        while self._calls:
            await asyncio.gather(*self._calls)
        waiting = list(map(_message, messages))
        for first in range(0, len(waiting), _MESSAGES_AT_ONCE):
            await self._confirmed(waiting[first : first + _MESSAGES_AT_ONCE])

    def send(self, message: Sent) -> None:
        """Publish without waiting, together with the other messages that are sent before the event loop continues."""
        if not self._unsent:
            call = asyncio.ensure_future(self._flush())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        self._unsent.append(_message(message))

    async def _flush(self) -> None:
        messages, self._unsent = self._unsent, []
        await self._confirmed(messages)

    async def _confirmed(self, messages: list[OutgoingMessage]) -> None:
        if not all(await self._publisher.publish(messages, _CONFIRM_SECONDS)):
            raise BenchFailed("the broker did not confirm a message")


def _message(sent: Sent) -> OutgoingMessage:
    return OutgoingMessage(_MQTT_EXCHANGE, sent.topic.replace("/", "."), sent.body, _PERSISTENT)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _length(value: int) -> bytes:
    encoded = bytearray()
    while True:
        value, rest = divmod(value, 128)
        encoded.append(rest | 0x80 if value else rest)
        if not value:
            return bytes(encoded)
