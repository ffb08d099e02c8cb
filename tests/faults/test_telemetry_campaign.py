"""The long campaigns against telemetry: many kills during 100,000 snapshots, and one plant that floods the others."""

import asyncio
import itertools
import math
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from gridfleet.domains.plants.topology import PLANTS_VHOST
from gridfleet.kernel.settings import Settings
from gridfleet.local.broker.private_node import PrivateBroker
from gridfleet.local.postgres import EmbeddedPostgres
from support.clients.acknowledged_ledger import DEVICES, Load, compare, under_load
from support.clients.fleet_under_test import Fleet, Plant
from support.figures import Figure
from support.servers.running_stack import RunningStack

pytestmark = [pytest.mark.faults]

KILLS = ["ingest-1"] * 10 + ["ingest-2"] * 10 + ["postgres"] * 10 + ["broker"] * 10
SNAPSHOTS = 100_000
STEP_MS = 2_000
GOAL_SECONDS = 60
FLOOD = 15_000
HOUR = timedelta(hours=1)

Hours = dict[tuple[str, datetime], tuple[int, float, float, float]]
"""Count, lowest, highest and mean by (metric, start of the hour)."""


@pytest.mark.timeout(3_000)
async def test_forty_kills_during_100_000_snapshots_cost_nothing(victim: RunningStack, fleet: Fleet, figure: Figure) -> None:
    """Measurements of hours that are over, so that they are rolled up while everything dies; 1 % poison."""
    plants = 12
    hours = math.ceil(2 * SNAPSHOTS / plants * STEP_MS / 3_600_000) + 2
    begin_ms = (int(time.time()) // 3600 - hours) * 3_600_000

    def past(last_ms: int) -> int:
        return last_ms + STEP_MS if last_ms else begin_ms

    async with under_load(fleet, plants=plants, pause_seconds=0.02, poison_share=0.01, next_ms=past) as load:
        for name in random.sample(KILLS, len(KILLS)):
            pid = victim.kill(name)
            began = time.monotonic()
            await asyncio.to_thread(victim.wait_for_restart, name, pid)
            await load.flows(frames=600, seconds=120)
            await load.is_stored(seconds=120)
            seconds = time.monotonic() - began
            figure(f"600 more frames are stored after a kill of {name}, of 40", seconds, "s", GOAL_SECONDS)
        async with asyncio.timeout(1_200):
            while load.messages < SNAPSHOTS:
                await asyncio.sleep(1)
    await compare(load, seconds=300)
    assert all(sender.plant.refused() for sender in load.senders)
    await nothing_waits(victim, fleet)
    for sender in load.senders:
        assert hours_answered(fleet, sender.plant) == hours_of_ledger(load, sender.plant)


async def nothing_waits(victim: RunningStack, fleet: Fleet) -> None:
    """Returns once the broker holds no message for the ingest, and every roll-up is made."""
    settings: dict[str, Any] = {"home": victim.home, **victim.ports}
    broker = PrivateBroker(Settings(**settings)).management_url
    queues = f"{broker}/api/queues/{PLANTS_VHOST}?disable_stats=true&enable_queue_totals=true"
    ends = time.monotonic() + 400
    async with httpx.AsyncClient() as http:
        while True:
            waiting = {queue["name"]: queue["messages"] for queue in (await http.get(queues)).raise_for_status().json()}
            ingest = sum(count for name, count in waiting.items() if name.startswith("gridfleet.ingest"))
            [[dirty]] = await asyncio.to_thread(fleet.sql, "SELECT count(*) FROM telemetry_dirty")
            if ingest == 0 and dirty == 0:
                return
            assert time.monotonic() < ends, f"{ingest} messages wait for the ingest, {dirty} dirty hours for a roll-up"
            await asyncio.sleep(1)


def hours_of_ledger(load: Load, plant: Plant) -> Hours:
    values: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for (plant_id, device, at), fields in load.ledger.items():
        if plant_id == plant.id:
            for field, value in fields.items():
                values[f"{device}.{field}", at.replace(minute=0, second=0, microsecond=0)].append(value)
    # An average has 12 significant digits.
    return {key: (len(one), min(one), max(one), float(f"{sum(one) / len(one):.12g}")) for key, one in values.items()}


def hours_answered(fleet: Fleet, plant: Plant) -> Hours:
    now = datetime.now(UTC)
    window = f"from={(now - 48 * HOUR).strftime('%FT%TZ')}&to={now.strftime('%FT%TZ')}"
    points: list[dict[str, Any]] = fleet.call("GET", f"/telemetry?plantId={plant.id}&{window}&bucket=1 hour")
    return {
        (point["metric"], datetime.fromisoformat(point["time"])): (
            point["metadata"]["count"],
            point["metadata"]["min"],
            point["metadata"]["max"],
            point["value"],
        )
        for point in points
    }


async def test_a_plant_that_floods_does_not_hold_up_the_others(victim: RunningStack, fleet: Fleet, figure: Figure) -> None:
    """15,000 messages, as fast as the broker confirms them; after each 50, one of ten others sends one until it can be read."""
    others = [fleet.plant("PASSWORD", DEVICES) for _ in range(10)]
    async with (
        await psycopg.AsyncConnection.connect(EmbeddedPostgres(victim.home).url, autocommit=True) as db,
        AsyncExitStack() as stack,
    ):
        connections = [await stack.enter_async_context(await plant.connect()) for plant in others]
        turns = itertools.cycle(zip(others, connections, strict=True))

        async def seconds_until_readable() -> float:
            plant, connection = next(turns)
            at, sent = int(time.time() * 1000), time.monotonic()
            message = {"time": at, "devices": [{"id": "A", "fields": {"p": 1.0}}]}
            await connection.publish(plant.topic(), plant.signed(message))
            await readable(db, plant, at)
            return time.monotonic() - sent

        calm = [await seconds_until_readable() for _ in range(100)]
        lags: list[float] = []
        behind: list[float] = []
        async with under_load(fleet, plants=1, pause_seconds=0) as flood:
            while (before := flood.messages) < FLOOD:
                lags.append(await seconds_until_readable())
                behind.append(flood.messages - before)
                while flood.messages < before + FLOOD / 300:
                    await asyncio.sleep(0.001)
    for percent, times in ((50, 5), (99, 10)):
        slower = percentile(lags, percent) / percentile(calm, percent)
        figure(f"publish to readable beside a flood, p{percent} against calm", slower, "times", times)
        assert slower < times
    # Behind all of the flood, they would wait for thousands.
    figure("messages of a flood before those of others, p99", percentile(behind, 99), "", FLOOD / 20)
    assert percentile(behind, 99) < FLOOD / 20
    await compare(flood)


def percentile(values: Sequence[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


async def readable(db: psycopg.AsyncConnection[Any], plant: Plant, at_ms: int) -> None:
    async with asyncio.timeout(300):
        while True:
            cursor = await db.execute(
                "SELECT FROM telemetry_frame f JOIN telemetry_source s ON s.id = f.source_id"
                " WHERE s.plant_id = %s AND f.time = to_timestamp(%s / 1000.0)",
                (plant.id, at_ms),
            )
            if cursor.rowcount:
                return
            await asyncio.sleep(0.01)
