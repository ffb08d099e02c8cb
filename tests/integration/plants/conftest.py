"""Plants over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clients.plants_over_http import Fleet, fleet_over_http


@pytest.fixture
async def fleet(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    """An organisation of the test's own."""
    async with fleet_over_http(database_url, home) as found:
        yield found
