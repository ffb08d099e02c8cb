"""Speed of the REST API: a day of one signal, the newest values, and a route that does nothing."""

import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import httpx

from bench.client import Client, percentile
from bench.fleet import SIGNALS, BenchPlant, Fleet
from bench.stack import ADMIN_EMAIL, ADMIN_PASSWORD, BenchFailed, Stack
from gridfleet.domains.telemetry.frames.models import FrameBatch, microseconds
from gridfleet.domains.telemetry.frames.writer import Partitions, days_of, write_batch
from gridfleet.kernel.db import Database
from gridfleet.protocol.envelope import format_time

__all__ = ["Reads", "measure_reads"]

_INTERVAL: Final = timedelta(seconds=10)
_BATCH_FRAMES: Final = 6_000
_CLIENTS: Final = 4
_EMPTY_ROUTE: Final = "/api/v1/health/live"


@dataclass(frozen=True, slots=True)
class Reads:
    """99th percentiles in seconds for sequential requests, and requests per second of four concurrent clients."""

    day_of_one_signal: float
    latest: float
    empty: float
    latest_per_second: float
    empty_per_second: float


async def measure_reads(stack: Stack, database: Database, fleet: Fleet, *, requests: int, seconds: float) -> Reads:
    """Write a day of one sub-device's data at ten-second intervals and measure its query.

    `latest` is requested for plants whose messages have already been stored.
    """
    plant = fleet.plants[0]
    end = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    start = end - timedelta(days=1)
    points = await _write_history(database, plant, start, end)
    login = httpx.post(
        f"{stack.api_url}/api/v1/auth/login", json={"email": ADMIN_EMAIL, "password": ADMIN_PASSWORD}, trust_env=False
    )
    token = login.raise_for_status().json()["access_token"]
    address = f"/api/v1/telemetry?plantId={plant.id}&from={format_time(start)}&to={format_time(end)}"
    day = f"{address}&metric={plant.device_ids[0]}.signal_00"
    latest = "/api/v1/telemetry/{}/latest"
    async with Client(stack, token, str(fleet.organization_id)) as client:
        answered = (await client.get(day)).count(b'"time"')
        if answered != points:
            raise BenchFailed(f"a day of one signal has {answered} points instead of {points}")
        plants = random.choices(fleet.plants, k=requests)
        return Reads(
            percentile([await client.time(day) for _ in range(requests)]),
            percentile([await client.time(latest.format(plant.id)) for plant in plants]),
            percentile([await client.time(_EMPTY_ROUTE) for _ in range(requests)]),
            await _rate(stack, token, fleet, [latest.format(plant.id) for plant in plants], seconds),
            await _rate(stack, token, fleet, [_EMPTY_ROUTE], seconds),
        )


async def _write_history(database: Database, plant: BenchPlant, start: datetime, end: datetime) -> int:
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT max(layout_id) FROM telemetry_latest WHERE source_id = ANY(%s)", (list(plant.source_ids),)
        )
        row = await cursor.fetchone()
    if row is None or row[0] is None:
        raise BenchFailed("the plant has no data yet")
    layout_id = row[0]
    source_id = plant.source_ids[0]
    async with database.transaction() as db:
        await db.execute("DELETE FROM telemetry_frame WHERE source_id = %s", (source_id,))
    partitions = Partitions(database)
    moments = [start + number * _INTERVAL for number in range(math.ceil((end - start) / _INTERVAL))]
    for first in range(0, len(moments), _BATCH_FRAMES):
        batch = FrameBatch()
        for moment in moments[first : first + _BATCH_FRAMES]:
            batch.add(source_id, layout_id, microseconds(moment), [random.randrange(100_000) / 100 for _ in range(SIGNALS)])
        await partitions.ensure(days_of(batch))
        async with database.transaction() as db:
            await write_batch(db, batch)
    return len(moments)


async def _rate(stack: Stack, token: str, fleet: Fleet, paths: Sequence[str], seconds: float) -> float:
    until = time.perf_counter() + seconds

    async def ask(first: int) -> int:
        count = 0
        async with Client(stack, token, str(fleet.organization_id)) as client:
            while time.perf_counter() < until:
                await client.get(paths[(first + count) % len(paths)])
                count += 1
        return count

    return sum(await asyncio.gather(*map(ask, range(_CLIENTS)))) / seconds
