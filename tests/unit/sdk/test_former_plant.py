"""The queue file of hardware that is registered anew: what the former plant measured is not sent as the new plant's."""

from pathlib import Path
from typing import Any

import pytest

from gridfleet.protocol.topics import Channel
from gridfleet.sdk.plant import Options, PlantClient, QueueError, Snapshot

QUICK = Options(fsync=False, reconnect_min_seconds=0.05, reconnect_max_seconds=0.2)


async def test_the_messages_of_another_plant_are_not_sent(broker: Any, tmp_path: Path) -> None:
    former, new = broker.take_plant(), broker.take_plant()
    port, former.port = former.port, 1
    async with PlantClient(former.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.send_all([Snapshot(time=1, seq=number) for number in range(3)])

    with pytest.raises(QueueError, match=f"holds 3 messages of plant {former.id}: use another file"):
        async with PlantClient(new.package(), queue_path=tmp_path / "q", options=QUICK) as client:
            await client.drain(timeout_seconds=10)
    assert await broker.received(new.id, Channel.TELEMETRY) == []

    former.port = port
    async with PlantClient(former.package(), queue_path=tmp_path / "q", options=QUICK) as client:
        await client.drain(timeout_seconds=10)
    assert len(await broker.received(former.id, Channel.TELEMETRY)) == 1


async def test_an_empty_queue_serves_another_plant(broker: Any, tmp_path: Path) -> None:
    for plant in (broker.take_plant(), broker.take_plant()):
        async with PlantClient(plant.package(), queue_path=tmp_path / "q", options=QUICK) as client:
            await client.send(Snapshot(time=1))
            await client.drain(timeout_seconds=10)
        assert len(await broker.received(plant.id, Channel.TELEMETRY)) == 1
