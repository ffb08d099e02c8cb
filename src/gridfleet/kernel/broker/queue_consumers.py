"""Consumers of queues on an own connection, without aiormq's costs for each of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiormq.abc import AbstractChannel, DeliveredMessage

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.frames import FrameReader, FrameTransport, Take

__all__ = ["QueueConsumers", "open_queue_consumers"]


class QueueConsumers:
    """The consumers of one channel on its own connection."""

    def __init__(self, channel: AbstractChannel, reader: FrameReader) -> None:
        self._channel = channel
        self._reader = reader

    async def consume(self, queue: str, tag: str, take: Take) -> None:
        """Consume a queue.

        Args:
            queue: Its name.
            tag: The consumer's tag, different from that of the channel's other consumers.
            take: Receives each message. It must not raise: an error ends the connection.
        """
        self._reader.consumers[tag.encode()] = take
        await self._channel.basic_consume(queue, _never, consumer_tag=tag)

    async def cancel(self, tag: str) -> None:
        """End a consumer. No message arrives for it afterwards."""
        await self._channel.basic_cancel(tag)
        del self._reader.consumers[tag.encode()]


async def _never(_: DeliveredMessage) -> None:
    raise RuntimeError("aiormq received a delivery that the frame reader should have taken")


@asynccontextmanager
async def open_queue_consumers(broker_url: str, vhost: str) -> AsyncIterator[tuple[AbstractChannel, QueueConsumers]]:
    """Open a channel as `open_channel` does, and consumers on it."""
    transport = FrameTransport()
    async with open_channel(broker_url, vhost, transport) as channel:
        yield channel, QueueConsumers(channel, transport.reader)
