"""What the `broker` fixture gives."""

from dataclasses import dataclass

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.topology import PLANTS_VHOST, declare, ingest_queue
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.settings import Settings


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A running node. Its questions go to `settings.internal_port`, where nothing listens unless the test does."""

    settings: Settings
    authority: Authority
    url: str
    management_url: str

    async def declare(self, shards: int) -> None:
        """What must stand in the plants' vhost, with so many shards, however many others have declared."""
        await declare(self.url, self.management_url, shards=shards)
        async with open_channel(self.url, PLANTS_VHOST) as channel:
            for shard in range(shards, 64):
                await channel.queue_delete(ingest_queue(shard))
