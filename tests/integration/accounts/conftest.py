"""The application without rate limits, and people at it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.clients.people import People
from support.servers.api_service import api_service


@pytest.fixture
async def people(database_url: str, home: Path) -> AsyncIterator[People]:
    async with api_service(database_url, home, rate_limits="off") as running:
        yield People(running)
