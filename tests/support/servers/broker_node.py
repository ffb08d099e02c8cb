"""The value of the `broker` fixture."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gridfleet.domains.plants.topology import PLANTS_VHOST, declare, ingest_queue
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.security.certificates import Authority
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.configuration import NODE_NAME


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A running node. It sends access requests to `settings.internal_port`, where nothing listens unless the test does."""

    settings: Settings
    authority: Authority
    url: str
    management_url: str

    async def declare(self, shards: int) -> None:
        """Declare the objects of the plants' vhost for this number of shards, and delete the queues of other shards."""
        await declare(self.url, self.management_url, shards=shards)
        async with open_channel(self.url, PLANTS_VHOST) as channel:
            for shard in range(shards, 64):
                await channel.queue_delete(ingest_queue(shard))

    def evaluate(self, expression: str) -> None:
        """As `evaluate`, on this node."""
        evaluate(self.settings.home, self.settings.epmd_port, expression)


def evaluate(home: Path, epmd_port: int, expression: str) -> None:
    """Evaluate an Erlang expression in which `N` is the node below `home`: `rpc:call(N, Module, Function, Arguments)`."""
    cookie = (home / "broker" / ".erlang.cookie").read_text()
    subprocess.run(
        [
            "erl",
            "-noinput",
            "-sname",
            "test@localhost",
            "-setcookie",
            cookie,
            "-eval",
            f"N = '{NODE_NAME}', {expression}, halt().",
        ],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "ERL_EPMD_PORT": str(epmd_port)},
        timeout=120,
        check=True,
    )
