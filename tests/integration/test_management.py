"""Calls of the management API that concern many queues."""

import pytest

from gridfleet.kernel.broker import management
from gridfleet.kernel.broker.connection import open_channel
from gridfleet.kernel.broker.management import open_management
from support.servers.broker_node import BrokerNode

VHOST = "purged"


async def test_however_many_queues_match_all_are_purged(broker: BrokerNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plant may have more sessions than a page of the API has queues."""
    monkeypatch.setattr(management, "PAGE_SIZE", 2)
    names = [f"session{number}qos{number % 2}" for number in range(5)]
    async with open_management(broker.management_url) as client:
        await client.enter_vhost(VHOST)
        async with open_channel(broker.url, VHOST) as channel:
            for name in [*names, "other"]:
                await channel.queue_declare(name, durable=True)
                await channel.basic_publish(b"command", routing_key=name)
            await client.purge_queues(VHOST, "^session[0-9]qos[01]$")
            waiting = {name: (await channel.queue_declare(name, passive=True)).message_count for name in [*names, "other"]}
        await client.delete_vhost(VHOST)
    assert waiting == {**dict.fromkeys(names, 0), "other": 1}


async def test_a_queue_is_purged_by_name_unless_it_is_exclusive_or_missing(broker: BrokerNode) -> None:
    """The broker refuses to purge an exclusive queue, that of a plant which is connected without a lasting session."""
    async with open_management(broker.management_url) as client:
        await client.enter_vhost(VHOST)
        async with open_channel(broker.url, VHOST) as channel:
            for name, exclusive in (("one", False), ("other", False), ("exclusive", True)):
                await channel.queue_declare(name, durable=True, exclusive=exclusive)
                await channel.basic_publish(b"command", routing_key=name)
            for name in ("one", "exclusive", "missing"):
                await client.purge_queue(VHOST, name)
            waiting = [(await channel.queue_declare(n, passive=True)).message_count for n in ("one", "other", "exclusive")]
        await client.delete_vhost(VHOST)
    assert waiting == [0, 1, 1]
