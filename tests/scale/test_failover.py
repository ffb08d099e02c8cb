"""The primary of a replicated database is killed under load: what was confirmed to a plant is stored, once, at the standby."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.clients.acknowledged_ledger import Load, compare, under_load
from support.clients.fleet_under_test import Fleet
from support.figures import Figure
from support.servers.replication import Replication, replication, value
from support.servers.running_stack import RunningStack, running_stack

GOAL_SECONDS = 10
DETECTION_SECONDS = 2
"""Between the end of the primary and the promotion, as what promotes it has to notice first."""


@pytest.fixture(scope="module")
def servers() -> Iterator[Replication]:
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-replicated-"))
    try:
        with replication(folder, synchronous=True) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def replicated(servers: Replication) -> Iterator[RunningStack]:
    """A service with two ingest processes on the replicated database."""
    with running_stack("failover", {"ingest_processes": 2, "database_url": servers.url}) as running:
        yield running


@pytest.fixture
def fleet(replicated: RunningStack) -> Iterator[Fleet]:
    with closing(Fleet(replicated)) as found:
        yield found


async def fail_over(servers: Replication, load: Load, figure: Figure) -> None:
    """Kill the primary under load and promote its standby. Returns when newly confirmed messages are stored."""
    await load.flows(300)
    confirmed = load.confirmed
    servers.kill_primary()
    await asyncio.sleep(DETECTION_SECONDS)
    servers.promote()
    began = time.monotonic()
    stored = value(servers.primary.url, "SELECT count(*) FROM telemetry_frame")
    async with asyncio.timeout(120):
        while value(servers.primary.url, "SELECT count(*) FROM telemetry_frame") == stored:
            await asyncio.sleep(0.05)
    figure("first row after the promotion of a standby", time.monotonic() - began, "s", GOAL_SECONDS)
    await load.flows()
    await load.is_stored()
    print(f"{confirmed} frames were confirmed before the kill, {load.confirmed} until now")


@pytest.mark.slow
async def test_a_failover_costs_nothing_and_needs_no_restart(
    servers: Replication, replicated: RunningStack, fleet: Fleet, figure: Figure
) -> None:
    processes = replicated.state["processes"]
    async with under_load(fleet) as load:
        await fail_over(servers, load, figure)
    await compare(load)
    await asyncio.to_thread(replicated.wait_until_healthy)
    assert replicated.state["processes"] == processes


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_three_failovers_to_and_fro_cost_nothing(
    servers: Replication, replicated: RunningStack, fleet: Fleet, figure: Figure
) -> None:
    processes = replicated.state["processes"]
    async with under_load(fleet, plants=12, pause_seconds=0.03, poison_share=0.01) as load:
        for _ in range(3):
            if value(servers.primary.url, "SELECT count(*) FROM pg_stat_replication") == 0:
                servers.start_standby(synchronous=True)
            await fail_over(servers, load, figure)
    await compare(load)
    assert replicated.state["processes"] == processes
