"""A partner's connection to the broker. It does not reconnect by itself: when it is lost, open a new one and go on."""

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from yarl import URL

from gridfleet.protocol import signature
from gridfleet.protocol.envelope import format_time
from gridfleet.protocol.partner_keys import (
    EXCHANGE,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    EventKind,
    Order,
    event_queue,
)

__all__ = ["Event", "OrderRefused", "Partner"]

_PERSISTENT: Final = 2
_PREFETCH: Final = 100


class OrderRefused(Exception):
    """The broker did not take an order: the key lacks its scope, or nothing reads orders since trading is off."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something the service told. `id` is the same when the same thing is told again."""

    id: UUID
    kind: EventKind
    content: dict[str, Any]


class Partner:
    """A connection with one API key, as an asynchronous context manager.

    `address`: `amqps://{slug}:{key}@{host}:{port}/{vhost}`, the key percent-encoded. `signing_key`: 64 hex digits, for keys
    that may give orders which must be signed. `authority`: the PEM of whoever signed the broker's certificate; without it the
    system's authorities count.
    """

    def __init__(self, address: str, *, signing_key: str | None = None, authority: str | None = None) -> None:
        self._url = URL(address)
        self.slug = urlsplit(address).username or ""
        self._key = None if signing_key is None else signature.key_from_hex(signing_key)
        self._context = ssl.create_default_context(cadata=authority) if self._url.scheme == "amqps" else None
        self._acks: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._changed = asyncio.Condition()
        self._told: set[UUID] = set()

    async def __aenter__(self) -> Self:
        self._connection = aiormq.Connection(self._url, context=self._context)
        await self._connection.connect()
        self._channel = await self._connection.channel()
        await self._channel.basic_qos(prefetch_count=_PREFETCH)
        self._orders = await self._connection.channel()
        self._listening = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def order(
        self,
        order: Order,
        site_id: str,
        *,
        device: str | None = None,
        message_id: str | None = None,
        expires_at: datetime | None = None,
        **members: Any,
    ) -> str:
        """Gives an order, signed if the client has a signing key; its messageId once the broker has it.

        `device` goes to the end of the routing key. Repeating an order with its `message_id` and the same members is safe
        as long as `issuedAt` is given too. Raises `OrderRefused`.
        """
        message_id = message_id or str(uuid4())
        content = {"messageId": message_id, "siteId": site_id, "issuedAt": format_time(datetime.now(UTC)), **members}
        if expires_at is not None:
            content["expiresAt"] = format_time(expires_at)
        routing_key = f"{self.slug}.{order}" + (f".{device}" if device else "")
        await self.publish(routing_key, json.dumps(content).encode(), message_id)
        return message_id

    async def publish(self, routing_key: str, body: bytes, message_id: str) -> None:
        """Publishes a body as it is, signed if the client has a signing key. Raises `OrderRefused`."""
        if self._orders.is_closed:  # the broker closes a channel with each refusal
            self._orders = await self._connection.channel()
        try:
            await self._orders.basic_publish(
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
        except (aiormq.exceptions.ChannelAccessRefused, aiormq.exceptions.PublishError) as error:
            raise OrderRefused(str(error)) from error

    def _headers(self, routing_key: str, body: bytes, message_id: str) -> dict[str, Any]:
        if self._key is None:
            return {}
        sent_at = int(time.time() * 1000)
        return {
            TIMESTAMP_HEADER: str(sent_at),
            SIGNATURE_HEADER: signature.sign(self._key, routing_key, message_id, sent_at, body),
        }

    async def events(self, kind: EventKind) -> AsyncIterator[Event]:
        """Events of a kind as they come, each once on this connection. One is acknowledged when the next is asked for, so one
        that was not worked off comes again."""
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        channel: AbstractChannel = await self._connection.channel()
        await channel.basic_qos(prefetch_count=_PREFETCH)
        await channel.basic_consume(event_queue(self.slug, kind), arrived.put)
        while True:
            message = await arrived.get()
            event = Event(UUID(message.header.properties.message_id), kind, json.loads(message.body))
            if event.id not in self._told:
                self._told.add(event.id)
                yield event
            await channel.basic_ack(message.delivery_tag or 0)

    async def wait_for(self, message_id: str, *acks: str, seconds: float = 30) -> dict[str, Any]:
        """The first of these acks (`APPLIED`, …) on an order, or its first ack of all; `TimeoutError` without it.

        Reads the command-ack queue: do not read it with `events` as well.
        """
        if not self._listening:
            self._listening = True
            await self._channel.basic_consume(event_queue(self.slug, EventKind.COMMAND_ACK), self._hear)
        async with asyncio.timeout(seconds), self._changed:
            while True:
                for ack in self._acks[message_id]:
                    if not acks or ack["ackStatus"] in acks:
                        return ack
                await self._changed.wait()

    def acks(self, message_id: str) -> list[dict[str, Any]]:
        """The acks on an order that have come so far."""
        return list(self._acks[message_id])

    async def _hear(self, message: DeliveredMessage) -> None:
        content = json.loads(message.body)
        event_id = UUID(message.header.properties.message_id)
        async with self._changed:
            if event_id not in self._told:
                self._told.add(event_id)
                self._acks[str(content["messageId"])].append(content)
            self._changed.notify_all()
        await self._channel.basic_ack(message.delivery_tag or 0)
