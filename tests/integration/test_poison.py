"""Whatever one plant and one partner send, everyone else is served in time. `make faults` has the campaign."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gridfleet.kernel.db import Database
from support.servers.broker_node import BrokerNode
from support.servers.poisoned_service import PoisonedService, Sent, of_a_partner, of_a_plant, poisoned_service


@pytest.fixture
async def service(database: Database, broker: BrokerNode) -> AsyncIterator[PoisonedService]:
    async with poisoned_service(database, broker) as running:
        yield running


# Without shrinking: a poison that stops the service would be tried again and again with each try timing out.
@settings(max_examples=8, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(of_a_plant(), min_size=5, max_size=40),
    st.lists(of_a_partner(), min_size=2, max_size=15),
)
async def test_poison_of_one_holds_up_nothing_of_others(
    service: PoisonedService, of_plant: list[Sent], of_partner: list[Sent]
) -> None:
    await service.send(of_plant, of_partner)
    await service.others_are_served()


async def test_cancelling_integers_and_nesting_hold_up_nothing_of_others(service: PoisonedService) -> None:
    huge = b"9" * 400
    at = b"1795168800123"
    of_plant: list[Sent] = [
        ("telemetry", b'{"time":%b,"devices":[{"id":"INV1","fields":{"a":%b,"b":-%b}}]}' % (at, huge, huge), True),
        ("telemetry", b'{"time":%b,"fields":{"a":5e-324}}' % at, True),
        ("telemetry", b"[" * 2_000 + b"]" * 2_000, True),
    ]
    await service.send(of_plant, [("command.mode", b'{"mode":' + b"[" * 980 + b"]" * 980 + b"}", True)])
    await service.others_are_served()
    await service.everything_of_others_is_right()
