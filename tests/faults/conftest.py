"""A service whose parts the tests kill."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.fleet_under_test import Fleet
from support.servers.running_stack import RunningStack


@pytest.fixture(scope="session")
def victim() -> Iterator[RunningStack]:
    """A service with two ingest processes whose parts are killed. Each test leaves it running."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-faults-"))
    running = RunningStack(folder, changes={"ingest_processes": 2})
    try:
        yield running.start()
    finally:
        running.destroy()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fleet(victim: RunningStack) -> Iterator[Fleet]:
    """A new organisation at it."""
    found = Fleet(victim)
    try:
        yield found
    finally:
        found.close()
