"""Minutes of poison from one plant, one partner and one ESM while another organisation is watched."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gridfleet.kernel.db import Database
from support.servers.broker_node import BrokerNode
from support.servers.poisoned_esm import Answer, PoisonedTrading, of_an_esm, poisoned_trading
from support.servers.poisoned_service import PoisonedService, Sent, of_a_partner, of_a_plant, poisoned_service


@pytest.fixture
async def service(database: Database, broker: BrokerNode) -> AsyncIterator[PoisonedService]:
    async with poisoned_service(database, broker) as running:
        yield running
        await running.everything_of_others_is_right()


@pytest.fixture
async def trading(database_url: str, home: Path) -> AsyncIterator[PoisonedTrading]:
    async with poisoned_trading(database_url, home) as running:
        yield running


@pytest.mark.faults
@pytest.mark.timeout(3_600)
@settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(st.lists(of_a_plant(), min_size=20, max_size=60), st.lists(of_a_partner(), min_size=5, max_size=20))
async def test_a_campaign_of_poison(service: PoisonedService, of_plant: list[Sent], of_partner: list[Sent]) -> None:
    await service.send(of_plant, of_partner)
    await service.others_are_served()


@pytest.mark.faults
@pytest.mark.timeout(3_600)
@settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(st.lists(of_an_esm(), min_size=5, max_size=20))
async def test_a_campaign_of_an_esm(trading: PoisonedTrading, answers: list[Answer]) -> None:
    await trading.round(answers)
