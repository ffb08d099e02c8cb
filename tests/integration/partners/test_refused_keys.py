"""A key that the broker does not accept is not created."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gridfleet.amqp.effects import carry_out_effects
from support.clients.partner_organization import vhosts_at
from support.clients.people import People, refused
from support.servers.api_service import api_service
from support.servers.broker_node import BrokerNode


@pytest.fixture
async def people(database_url: str, home: Path, broker: BrokerNode) -> AsyncIterator[People]:
    """An API whose broker does not query the service: every partner's login fails."""
    async with api_service(
        database_url, home, broker_url=broker.url, broker_management_url=broker.management_url, rate_limits="off"
    ) as service:
        yield People(service)


async def test_nothing_remains_of_a_key_that_the_broker_refuses(people: People, broker: BrokerNode) -> None:
    admin = await people.person()
    org = await people.organization(ORG_ADMIN=admin)
    before = vhosts_at(broker.management_url)
    body = {"name": "K", "partnerId": "p", "scopes": ["vcp:connect"]}
    refused(await people.call("POST", "/partner/api-keys", body, who=admin, org=org.id), 500, "INTERNAL_SERVER_ERROR")
    state = people.service.state
    effects = asyncio.create_task(carry_out_effects(state.settings, state.database))
    async with asyncio.timeout(60):
        while await people.execute("SELECT id FROM outbox"):
            await asyncio.sleep(0.1)
    effects.cancel()
    assert vhosts_at(broker.management_url) == before
    assert await people.execute("SELECT id FROM partner_key") == []
    assert [event for event in await people.events() if event["event"] == "api_key.created"] == []
