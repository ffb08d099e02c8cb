"""A service whose parts the tests kill."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from support.clients.fleet_under_test import Fleet
from support.servers.running_stack import RunningStack, running_stack


@pytest.fixture(scope="session")
def victim() -> Iterator[RunningStack]:
    """A service with two ingest processes whose parts are killed. Each test leaves it running."""
    with running_stack("faults", {"ingest_processes": 2}) as running:
        yield running


@pytest.fixture
def fleet(victim: RunningStack) -> Iterator[Fleet]:
    """A new organisation at it, once everything runs again that an earlier test may have left killed."""
    victim.wait_until_healthy()
    with closing(Fleet(victim)) as found:
        yield found
