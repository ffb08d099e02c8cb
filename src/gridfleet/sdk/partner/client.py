"""A partner's connection to the broker, with automatic reconnection."""

import asyncio
import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from uuid import UUID, uuid4

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage

from gridfleet.protocol import signature
from gridfleet.protocol.amqp import Connection
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.partner_routes import (
    EXCHANGE,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    CommandKind,
    EventKind,
    event_queue,
)
from gridfleet.sdk.partner.addresses import LOST, Addresses, LoginRefused

__all__ = ["CommandRefused", "Event", "LoginRefused", "Partner"]

_PERSISTENT: Final = 2
_PREFETCH: Final = 100
_CONFIRM_SECONDS: Final = 5.0
"""How much longer than the client's patience a publish may take: an attempt that began within it can still succeed."""
_NOT_FOUND: Final = aiormq.exceptions.ChannelNotFoundEntity
"""A queue or exchange is missing, as after a restore of the broker until the service has declared it again."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_MOST_COMMANDS: Final = 10_000
_MOST_EVENTS: Final = 100_000
"""Number of most recent event ids kept to detect duplicates."""

T = TypeVar("T")


class CommandRefused(Exception):
    """The broker did not accept a command.

    The key lacks the scope, trading is off and no queue receives commands, or the queue stayed full or missing.
    """


@dataclass(frozen=True, slots=True)
class Event:
    """An event from the service. A repeated event has the same `id`."""

    id: UUID
    kind: EventKind
    content: dict[str, Any]


class Partner:
    """A connection with one API key. Use it as an asynchronous context manager.

    It reconnects when the connection is lost, to the next address if there are several. Commands that the broker has not
    confirmed are then sent again with the same `messageId` and body, so none is executed twice. Events that were not
    acknowledged are delivered again.

    Args:
        address: `amqps://{slug}:{key}@{host}:{port}/{vhost}`, the key percent-encoded; or several that differ in host and port
            only, in the order in which to try them.
        signing_key: 64 hex digits, for keys that may send commands which need a signature.
        authority: PEM of the authority that signed the broker's certificate. Default: the system's authorities.
        patience_seconds: How long a call retries: while the broker is unreachable, before it raises `ConnectionError`; while it
            rejects a command or its exchange is missing, before it raises `CommandRefused`. `send` raises `ConnectionError`
            some seconds later if the broker confirms nothing, as while it blocks publishers. The first connection is tried
            once at each address.

    Raises:
        LoginRefused: A `ConnectionError`; the broker refused the key.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        *,
        signing_key: str | None = None,
        authority: str | None = None,
        patience_seconds: float = 300,
    ) -> None:
        self._addresses = Addresses([address] if isinstance(address, str) else address, authority)
        self.slug = self._addresses.slug
        self._key = None if signing_key is None else signature.key_from_hex(signing_key)
        self._patience = patience_seconds
        self._opening, self._ordering = asyncio.Lock(), asyncio.Lock()
        self._connection: Connection | None = None
        self._commands_channel: AbstractChannel | None = None
        self._listening: asyncio.Task[None] | None = None
        self._acks: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._changed = asyncio.Condition()
        self._yielded: OrderedDict[UUID, None] = OrderedDict()
        self._ended = False

    async def __aenter__(self) -> Self:
        await self._connected()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        if self._connection is not None:
            await self._connection.close()

    async def send(
        self,
        kind: CommandKind,
        site_id: str,
        *,
        device: str | None = None,
        message_id: str | None = None,
        expires_at: datetime | None = None,
        **members: Any,
    ) -> str:
        """Send a command, signed if the client has a signing key, and wait until the broker has confirmed it.

        To repeat a command safely, pass its `message_id` and the same members, including `issuedAt`.

        Args:
            kind: The kind of command.
            site_id: The site's id.
            device: External id of a sub-device, appended to the routing key.
            message_id: Default: a new UUID.
            expires_at: An aware datetime.
            members: Further members of the JSON body.

        Returns:
            The messageId.

        Raises:
            ValueError: `expires_at` has no time zone.
            CommandRefused: The broker did not accept the command.
            ConnectionError: The broker stayed unreachable, or did not confirm the command, for `patience_seconds`. The
                service may still execute the command if the broker has it.
        """
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError("expires_at must have a time zone")
        message_id = message_id or str(uuid4())
        content = {"messageId": message_id, "siteId": site_id, "issuedAt": format_time(datetime.now(UTC)), **members}
        if expires_at is not None:
            content["expiresAt"] = format_time(expires_at)
        routing_key = f"{self.slug}.{kind}" + (f".{device}" if device else "")
        await self.publish(routing_key, json.dumps(content).encode(), message_id)
        return message_id

    async def publish(self, routing_key: str, body: bytes, message_id: str) -> None:
        """Publish a body unchanged, signed if the client has a signing key.

        Raises:
            CommandRefused: The broker did not accept the message.
            ConnectionError: The broker stayed unreachable, or did not confirm the message, for `patience_seconds`.
        """
        most = self._patience + _CONFIRM_SECONDS
        try:
            async with asyncio.timeout(most):
                await self._publish_until_done(routing_key, body, message_id)
        except TimeoutError as error:
            raise ConnectionError(f"the broker has not confirmed the message within {most:g} s") from error

    async def _publish_until_done(self, routing_key: str, body: bytes, message_id: str) -> None:
        try:
            try:
                await self._until_done(lambda: self._publish(routing_key, body, message_id))
            except (aiormq.exceptions.ChannelAccessRefused, aiormq.exceptions.DeliveryError) as error:
                if isinstance(error, aiormq.exceptions.PublishError):
                    raise  # no queue receives it
                # The broker closes the channel with each refusal. All other messages in flight on that channel then fail too.
                # And a channel that published while a queue had no leader may be stuck: RabbitMQ then rejects all that is
                # published on it, until the node of the former leader is back.
                await self._until_done(
                    lambda: self._publish_alone(routing_key, body, message_id), aiormq.exceptions.DeliveryError
                )
        except (aiormq.exceptions.ChannelAccessRefused, _NOT_FOUND, aiormq.exceptions.DeliveryError) as error:
            raise CommandRefused(str(error)) from error

    async def _publish(self, routing_key: str, body: bytes, message_id: str) -> None:
        async with self._ordering:
            if self._commands_channel is None or self._commands_channel.is_closed:
                self._commands_channel = await (await self._connected()).channel()
            channel = self._commands_channel
        await self._publish_on(channel, routing_key, body, message_id)

    async def _publish_alone(self, routing_key: str, body: bytes, message_id: str) -> None:
        channel = await (await self._connected()).channel()
        try:
            await self._publish_on(channel, routing_key, body, message_id)
        finally:
            with contextlib.suppress(*LOST):
                await channel.close()

    async def _publish_on(self, channel: AbstractChannel, routing_key: str, body: bytes, message_id: str) -> None:
        await channel.basic_publish(
            body,
            exchange=EXCHANGE,
            routing_key=routing_key,
            mandatory=True,
            properties=aiormq.spec.Basic.Properties(
                content_type="application/json",
                delivery_mode=_PERSISTENT,
                message_id=message_id,
                headers=self._headers(routing_key, body, message_id),
            ),
        )

    def _headers(self, routing_key: str, body: bytes, message_id: str) -> dict[str, Any]:
        if self._key is None:
            return {}
        sent_at = int(time.time() * 1000)
        return {
            TIMESTAMP_HEADER: str(sent_at),
            SIGNATURE_HEADER: signature.sign(self._key, routing_key, message_id, sent_at, body),
        }

    async def events(self, kind: EventKind) -> AsyncGenerator[Event, None]:
        """Yield events of a kind as they arrive.

        An event is acknowledged when the caller requests the next one. Acknowledged events are not delivered to this `Partner`
        again; others are. A queue that is missing is awaited for `patience_seconds`.
        """
        while not self._ended:
            channel, arrived = await self._until_done(lambda: self._consume(kind))
            try:
                while (message := await arrived.get()) is not None:
                    event = Event(UUID(message.header.properties.message_id), kind, json.loads(message.body))
                    if event.id not in self._yielded:
                        yield event
                        _keep(self._yielded, event.id, None, _MOST_EVENTS)
                    await channel.basic_ack(message.delivery_tag or 0)
            except LOST:
                continue  # unacknowledged events are delivered again
            finally:
                with contextlib.suppress(*LOST):
                    await channel.close()

    async def _consume(self, kind: EventKind) -> tuple[AbstractChannel, asyncio.Queue[DeliveredMessage | None]]:
        """Return a channel and a queue of the messages that arrive on it. None in the queue marks the end."""
        arrived: asyncio.Queue[DeliveredMessage | None] = asyncio.Queue()
        channel = await (await self._connected()).channel()
        await channel.basic_qos(prefetch_count=_PREFETCH)
        await channel.basic_consume(event_queue(self.slug, kind), arrived.put)
        channel.closing.add_done_callback(lambda _: arrived.put_nowait(None))
        channel.on_consumer_cancel_callbacks.add(lambda _: arrived.put_nowait(None))
        return channel, arrived

    async def wait_for(self, message_id: str, *acks: str, seconds: float = 30) -> dict[str, Any]:
        """Return the first acknowledgement of a command whose status is in `acks`, or its first one if `acks` is empty.

        Consumes the command-ack queue: do not use `events` for that queue at the same time.

        Raises:
            TimeoutError: No such acknowledgement arrived within `seconds`.
        """
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(), name="acks")
        listening = self._listening
        async with asyncio.timeout(seconds), self._changed:
            while True:
                for ack in self.acks(message_id):
                    if not acks or ack["ackStatus"] in acks:
                        return ack
                if listening.done():
                    await listening
                await self._changed.wait()

    def acks(self, message_id: str) -> list[dict[str, Any]]:
        """Return the acknowledgements of a command that `wait_for` has received so far. Kept for the newest 10,000 commands."""
        return list(self._acks.get(message_id, ()))

    async def _listen(self) -> None:
        try:
            async for event in self.events(EventKind.COMMAND_ACK):
                message_id = str(event.content["messageId"])
                async with self._changed:
                    _keep(self._acks, message_id, [*self.acks(message_id), event.content], _MOST_COMMANDS)
                    self._changed.notify_all()
        finally:
            async with self._changed:
                self._changed.notify_all()

    async def _connected(self) -> Connection:
        """Return the connection; open a new one if it is lost."""
        async with self._opening:
            if self._connection is None or self._connection.is_closed:
                self._connection = await self._addresses.connect()
            return self._connection

    async def _until_done(self, work: Callable[[], Awaitable[T]], *further: type[Exception]) -> T:
        """Run `work`. Retry after temporary errors, and those of `further` types, until `patience_seconds` have passed."""
        ends, pause = time.monotonic() + self._patience, _FIRST_PAUSE_SECONDS
        temporary: tuple[type[Exception], ...] = (*LOST, _NOT_FOUND, aiormq.exceptions.ChannelAccessRefused, *further)
        while True:
            try:
                return await work()
            except temporary as error:
                if self._ended or time.monotonic() + pause > ends or not _may_pass(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _may_pass(error: Exception) -> bool:
    """Return whether a retry can succeed. A refusal is final unless the broker could not complete its authorisation request."""
    return not isinstance(error, aiormq.exceptions.ChannelAccessRefused) or "returned an error" in str(error)


def _keep(kept: OrderedDict[Any, T], name: object, value: T, most: int) -> None:
    """Store a value as the newest entry and remove the oldest one if there are more than `most`."""
    kept[name] = value
    kept.move_to_end(name)
    if len(kept) > most:
        kept.popitem(last=False)
