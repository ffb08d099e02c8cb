"""The room for the service's queues in a partner's vhost is not the partner's."""

from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiormq.exceptions import AMQPChannelError

from gridfleet.domains.partners import topology
from gridfleet.domains.partners.topology import MAX_OWN_QUEUES, PartnerQueues, ensure_partner_vhost
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from support.servers.broker_node import BrokerNode

VHOST = "partner-room"


@pytest.mark.parametrize("exclusive", [False, True])
async def test_a_partner_keeps_no_queue_in_the_room_of_the_services_queues(
    broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, exclusive: bool
) -> None:
    """It declares queues as fast as it can while trading is enabled, and is faster than the service."""
    declare = topology.ensure_queue
    account = urlsplit(broker.url).username or ""
    queues = PartnerQueues(account, "acme")
    async with AsyncExitStack() as stack:
        management = await stack.enter_async_context(open_management(broker.management_url))
        await ensure_partner_vhost(management, broker.url, VHOST, None)
        stack.push_async_callback(management.delete_vhost, VHOST)

        async def own(count: int) -> None:
            connection = (await stack.enter_async_context(open_channel(broker.url, VHOST))).connection
            for number in range(count):
                channel = await connection.channel()
                with suppress(AMQPChannelError):
                    await channel.queue_declare(f"acme.{number}", durable=not exclusive, exclusive=exclusive)

        async def late(*arguments: Any) -> None:
            await own(20)
            monkeypatch.setattr(topology, "ensure_queue", declare)
            await declare(*arguments)

        await own(2)
        monkeypatch.setattr(topology, "ensure_queue", late)
        with suppress(AMQPChannelError):
            await ensure_partner_vhost(management, broker.url, VHOST, queues)
        await ensure_partner_vhost(management, broker.url, VHOST, queues)
        await own(20)
        names = (await management.queue_types(VHOST)).keys()
        assert names >= queues.names
        assert len(names - queues.names) <= MAX_OWN_QUEUES
