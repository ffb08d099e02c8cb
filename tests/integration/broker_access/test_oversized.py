"""MQTT packets larger than the broker takes."""

import asyncio

import pytest

from gridfleet.kernel.clock import utc_now
from support.clients.fleet_under_test import Fleet, Plant, wait_for
from support.clients.lean_mqtt import Lost

SECONDS = 5.0


@pytest.mark.parametrize("method", ["MTLS", "PASSWORD"])
@pytest.mark.parametrize("size", [1024 * 1024 + 1, 8 * 1024 * 1024])
async def test_a_plant_learns_within_seconds_that_its_message_is_too_large(fleet: Fleet, method: str, size: int) -> None:
    plant = fleet.plant(method)
    async with await plant.connect() as connection:
        try:
            await connection.publish(plant.topic(), b"x" * size, seconds=SECONDS)
        except Lost:
            pass
        else:
            assert [one["reason"] for one in wait_for(plant.refused)] == ["TOO_LARGE"]
    await assert_is_received(plant)


async def assert_is_received(plant: Plant) -> None:
    async with await plant.connect() as connection:
        await connection.publish(plant.topic(), plant.signed({"time": utc_now().isoformat(), "fields": {"after": 1}}))
        await asyncio.to_thread(wait_for, lambda: "after" in plant.latest())
        assert not connection.lost
