"""The long tests run by `make faults`, that is with `-m faults`; the short ones with all others."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients.fleet_under_test import Fleet
from support.servers.running_stack import RunningStack


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the long ones out unless they are asked for."""
    if "faults" in config.option.markexpr:
        return
    here = Path(__file__).parent
    long = [item for item in items if item.get_closest_marker("faults") and here in item.path.parents]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


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
