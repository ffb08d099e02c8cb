"""The pipeline by itself, and behind a broker."""

from collections.abc import AsyncIterator

import pytest

from gridfleet.kernel.db import Database
from support.clients.ingest_bench import Bench
from support.servers.broker_node import BrokerNode
from support.servers.ingest_line import Line, ingest_line


@pytest.fixture
def bench(database: Database) -> Bench:
    """A pipeline over the test's own database."""
    return Bench(database)


@pytest.fixture
async def line(broker: BrokerNode, bench: Bench) -> AsyncIterator[Line]:
    """An empty set of shards."""
    async with ingest_line(broker, bench) as line:
        yield line
