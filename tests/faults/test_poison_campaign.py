"""Minutes of poison from one plant and one partner while another organisation is watched."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from broker_node import BrokerNode
from gridfleet.kernel.db import Database
from poisoned_service import PoisonedService, Sent, of_a_partner, of_a_plant, poisoned_service


@pytest.fixture
async def service(database: Database, broker: BrokerNode) -> AsyncIterator[PoisonedService]:
    async with poisoned_service(database, broker) as running:
        yield running
        await running.everything_of_others_is_right()


@pytest.mark.faults
@pytest.mark.timeout(3_600)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(st.lists(of_a_plant(), min_size=20, max_size=60), st.lists(of_a_partner(), min_size=5, max_size=20))
async def test_a_campaign_of_poison(service: PoisonedService, of_plant: list[Sent], of_partner: list[Sent]) -> None:
    await service.send(of_plant, of_partner)
    await service.others_are_served()
