"""One partner's vhost: receives commands and publishes events over one connection."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import aiormq
import structlog
from aiormq.abc import AbstractChannel, DeliveredMessage

from gridfleet.amqp.dropped_events import DroppedEvents
from gridfleet.domains.consumers import Consumer
from gridfleet.domains.partner_events.models import QueuedEvent
from gridfleet.domains.partners.signing import load_sending_key
from gridfleet.domains.partners.vhosts import queue_update_unless_waiting
from gridfleet.domains.vcp.events.recipients import ServedVhost
from gridfleet.domains.vcp.intake import refuse_unstorable, take_command
from gridfleet.domains.vcp.models import PartnerMessage
from gridfleet.kernel import metrics
from gridfleet.kernel.broker.connection import fail_when_closed, open_channel
from gridfleet.kernel.broker.frames import FrameTransport
from gridfleet.kernel.broker.publisher import OutgoingMessage, Publisher
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.db import Connection, Database, limit_statements
from gridfleet.kernel.isolation import may_be_poison, note_set_aside, reason_of, took_too_long
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from gridfleet.kernel.tasks import end_if_cancelled
from gridfleet.kernel.turns import Turns
from gridfleet.protocol.partner_messages import PartnerAck
from gridfleet.protocol.partner_routes import DROPPED_HEADER, EventKind, event_routing_key

__all__ = ["PartnerLink", "PartnerWork", "cause_of"]

log = structlog.get_logger(__name__)

_PREFETCH: Final = 2
"""Number of commands that a link holds: the next one is there when one is done. Each may have 1 MiB, and links are many."""
_PERSISTENT: Final = 2
_POLL_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 30.0
_CONFIRM_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
_TRIES: Final = 2
"""Number of tries of a message that fails by itself, before it is refused."""
_REFUSAL_SECONDS: Final = 2.0
"""Time of a statement of the refusal. If it takes longer, the database is slow, and the message is tried again."""
_AT_A_TIME: Final = 4
"""Maximum number of commands that one process handles at the same time: each holds a connection of the pool."""
_OF_ORGANIZATION: Final = 2
"""The same for one organisation. Otherwise the commands of its up to 100 keys would wait before each one of another."""


class PartnerWork:
    """The settings and resources that all links of a process share."""

    def __init__(self, settings: Settings, database: Database, keyring: Keyring) -> None:
        self.broker_url = settings.secret("broker_url").get_secret_value()
        self.window_seconds = settings.signature_window_seconds
        self.database = database
        self.keyring = keyring
        self.turns = asyncio.Semaphore(_AT_A_TIME)
        self.shares = Turns(_OF_ORGANIZATION)
        self.connecting = asyncio.Semaphore(_AT_A_TIME)


class PartnerLink:
    """A connection to one vhost. `run` raises when it is lost; its supervisor starts it again."""

    def __init__(self, work: PartnerWork, served: ServedVhost) -> None:
        self._work = work
        self.served = served
        self._publisher: Publisher | None = None
        self._dropped = DroppedEvents(served.key, work.database)

    @property
    def connected(self) -> bool:
        """Whether events can be published."""
        return self._publisher is not None

    async def run(self) -> None:
        """Process commands one by one until the connection, a channel or the queue is lost, which raises."""
        work = self._work
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        transport = FrameTransport()
        async with contextlib.AsyncExitStack() as stack:
            async with work.connecting, asyncio.timeout(_CONNECT_SECONDS):
                channel = await stack.enter_async_context(open_channel(work.broker_url, self.served.key.vhost, transport))
                await channel.basic_qos(prefetch_count=_PREFETCH)
                try:
                    # Exclusive: a previous consumer that stops slowly may hold the oldest commands, and newer ones would be
                    # processed before them.
                    await channel.basic_consume(self.served.inbound_queue, arrived.put, exclusive=True)
                except aiormq.exceptions.ChannelAccessRefused:
                    raise ConnectionError("the previous consumer still reads this queue") from None
                except aiormq.exceptions.ChannelNotFoundEntity:
                    # The broker lost the queue, or it was deleted. No other process checks for this.
                    async with work.database.transaction() as db:
                        await queue_update_unless_waiting(db, self.served.key)
                    raise ConnectionError("the inbound queue does not exist") from None
                publishing = await channel.connection.channel()
            self._publisher = publisher = Publisher(publishing, transport)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(fail_when_closed(channel))
                    tasks.create_task(fail_when_closed(publishing))
                    tasks.create_task(self._dropped.count(channel.connection))
                    tasks.create_task(_end_without_queue(publishing, self.served.inbound_queue))
                    while True:
                        await self._take(channel, await arrived.get())
                        end_if_cancelled()
            finally:
                self._publisher = None
                publisher.close()

    async def publish(self, events: Sequence[QueuedEvent]) -> list[bool]:
        """Publish events and wait for the broker's confirmations. Returns whether there is one, for each event.

        Raises:
            ConnectionError: The vhost is not connected, or the connection was lost. Any event may have arrived.
            Exception: An event cannot be published. None was published.
        """
        if self._publisher is None:
            raise ConnectionError("the vhost is not connected")
        return await self._publisher.publish([self._message(event) for event in events], _CONFIRM_SECONDS)

    def _message(self, event: QueuedEvent) -> OutgoingMessage:
        kind = EventKind(event.kind)
        properties = aiormq.spec.Basic.Properties(
            content_type="application/json",
            delivery_mode=_PERSISTENT,
            message_id=str(event.event_id),
            message_type=event.kind,
            headers={DROPPED_HEADER: self._dropped.total(kind)},
        )
        return OutgoingMessage(
            self.served.events_exchange, event_routing_key(self.served.key.slug, kind), event.body, properties
        )

    async def _take(self, channel: AbstractChannel, delivered: DeliveredMessage) -> None:
        properties = delivered.header.properties
        message = PartnerMessage(
            delivered.routing_key or "", delivered.body, dict(properties.headers or {}), bool(delivered.redelivered)
        )
        if not message.routing_key.startswith(f"{self.served.key.slug}."):
            # In the shared vhost, another organisation's message with this one in its header CC or BCC: RabbitMQ before 4.0
            # without the service's plugin delivers it, with the routing key that the broker has checked.
            metrics.PARTNER_COMMANDS.labels("IGNORED").inc()
            await channel.basic_ack(delivered.delivery_tag or 0)
            return
        with at_work("partner command", cause_of(properties), key_id=str(self.served.key.id)):
            ack = await self._take_until_done(message)
            if ack is None:
                # The key has ended, and its vhost is removed too.
                raise ConnectionError("the key is no longer valid")
            log.info("partner command processed", family=message.routing_key.partition(".")[2][:100], ack=ack)
        metrics.PARTNER_COMMANDS.labels(ack).inc()
        await channel.basic_ack(delivered.delivery_tag or 0)

    async def _take_until_done(self, message: PartnerMessage) -> PartnerAck | None:
        """Process the message until a result is stored.

        Returns:
            The acknowledgement of the message, or None if the key has ended.
        """
        failures = 0
        refused_for: Exception | None = None
        for pause in itertools.chain(_RETRY_SECONDS, itertools.repeat(_RETRY_SECONDS[-1])):
            try:
                # The share first: who waits for it must not hold a turn, nor wait for one.
                async with self._work.shares.of(self.served.key.organization_id), self._work.turns:
                    with limit_statements(_REFUSAL_SECONDS if refused_for else None):
                        async with self._work.database.transaction() as db:
                            ack = await self._take_once(db, message, unstorable=refused_for is not None)
            except Exception as error:
                end_if_cancelled()
                message = message._replace(redelivered=True)  # its result may be stored all the same
                if refused_for is not None and took_too_long(error):
                    # The refusal took too long too: the database is slow, not the message.
                    failures, refused_for = 0, None
                elif may_be_poison(error):
                    if refused_for is not None:
                        # The refusal cannot be stored either. Retried forever, the message would block all that follow.
                        note_set_aside(Consumer.PARTNER_COMMANDS, refused_for)
                        log.critical("cannot be stored as set aside", reason=reason_of(error), exc_info=error)
                        return PartnerAck.REJECTED
                    # The first failure may be caused by another process that handles the same messageId at this moment.
                    failures += 1
                    if failures == _TRIES:
                        refused_for = error
                    continue
                log.warning("cannot process command, retrying", error=type(error).__name__, seconds=pause)
                await asyncio.sleep(pause)
                continue
            if refused_for is not None and ack is not None:
                note_set_aside(Consumer.PARTNER_COMMANDS, refused_for)
            return ack
        raise RuntimeError("the pauses ended")

    async def _take_once(self, db: Connection, message: PartnerMessage, *, unstorable: bool) -> PartnerAck | None:
        sender = await load_sending_key(db, self._work.keyring, self.served.key.id)
        if sender is None:
            return None
        if unstorable:
            return await refuse_unstorable(db, sender, message, utc_now())
        return await take_command(db, sender, message, utc_now(), self._work.window_seconds)


def cause_of(properties: aiormq.spec.Basic.Properties) -> dict[str, str]:
    """Return the request id and the trace of a message.

    The request id is the message id or else the correlation id, if one of them is a UUID.
    """
    found = {}
    for given in (properties.message_id, properties.correlation_id):
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            found["request_id"] = str(UUID(given))
            break
    parent = (properties.headers or {}).get("traceparent")
    return found | ({"traceparent": parent} if isinstance(parent, str) else {})


async def _end_without_queue(channel: AbstractChannel, queue: str) -> None:
    """Raise when the queue is deleted or has lost its consumer.

    When a queue is deleted and recreated, the consumer gets no notification.
    """
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        try:
            declared = await channel.queue_declare(queue, passive=True)
        except aiormq.exceptions.ChannelNotFoundEntity:
            raise ConnectionError("the inbound queue was deleted") from None
        if not declared.consumer_count:
            raise ConnectionError("the queue lost its consumer")
