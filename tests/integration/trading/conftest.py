"""An organisation that trades, and its ESM."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.clients.plants_over_http import Fleet, fleet_over_http
from support.servers.esm_stand_in import StandIn, esm_stand_in


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with esm_stand_in() as running:
        yield running


@pytest.fixture
async def fleet(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    """ESMs may be private here, as the stand-in is."""
    async with fleet_over_http(database_url, home, esm_allow_private=True) as running:
        yield running
