"""The gateway's reader of the broker's error log, on a node that has no exchange for its log yet."""

import asyncio

import pytest
from aiormq.abc import AbstractChannel
from aiormq.exceptions import DeliveryError
from pydantic import SecretStr

from gridfleet.amqp import plant_channels
from gridfleet.kernel.broker.connection import LOG_VHOST, open_channel
from support.servers.broker_node import BrokerNode
from support.servers.broker_version import broker_version
from support.servers.running_task import running

EXCHANGE = "test.log"


@pytest.mark.skipif(broker_version() >= (3, 12), reason="RabbitMQ 3.12 and newer end the connection themselves")
async def test_the_log_is_read_as_soon_as_its_exchange_exists(broker: BrokerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plant_channels, "LOG_EXCHANGE", EXCHANGE)
    settings = broker.settings.model_copy(
        update={"broker_url": SecretStr(broker.url), "broker_management_url": SecretStr(broker.management_url)}
    )
    async with open_channel(broker.url, LOG_VHOST) as channel:
        async with running(plant_channels.disconnect_broken_plants(settings)) as reading:
            await asyncio.sleep(1)
            assert not reading.done()
            await channel.exchange_declare(EXCHANGE, exchange_type="topic")
            async with asyncio.timeout(15):
                while not await is_read(channel):
                    await asyncio.sleep(0.5)
        await channel.exchange_delete(EXCHANGE)


async def is_read(channel: AbstractChannel) -> bool:
    """Publish a line and return whether a queue takes it."""
    try:
        await channel.basic_publish(b"a line", exchange=EXCHANGE, routing_key="error", mandatory=True)
    except DeliveryError:
        return False
    return True
