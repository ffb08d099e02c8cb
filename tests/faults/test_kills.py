"""kill -9 of every part while plants send: what was confirmed to a plant is stored, once, with its values."""

import asyncio
import contextlib
import os
import signal
import time

import psutil
import pytest

from support.clients.acknowledged_ledger import Load, compare, under_load
from support.clients.fleet_under_test import Fleet
from support.figures import Figure
from support.servers.running_stack import RunningStack

PARTS = ("ingest-1", "postgres", "broker")
GOAL_SECONDS = 30
MOST_MEMORY_MIB = 300


async def kill_and_recover(stack: RunningStack, load: Load, name: str, figure: Figure) -> None:
    """kill -9 under load. Returns when newly confirmed messages are stored."""
    pid = stack.kill(name)
    began = time.monotonic()
    await asyncio.to_thread(stack.wait_for_restart, name, pid)
    await load.flows()
    await load.is_stored()
    figure(f"newly confirmed messages are stored after a kill of {name}", time.monotonic() - began, "s", GOAL_SECONDS)


async def start_again(stack: RunningStack) -> None:
    """`gridfleet up` in the same home, while the plants go on trying. Started by this thread: it would end with another."""
    process = stack.launch()
    async with asyncio.timeout(300):
        while not stack.ready(process.pid):
            assert process.poll() is None, stack.log.read_text()[-4000:]
            await asyncio.sleep(0.2)


@pytest.mark.slow
async def test_one_kill_of_each_part_costs_nothing(victim: RunningStack, fleet: Fleet, figure: Figure) -> None:
    async with under_load(fleet, poison_share=0.01) as load:
        for name in PARTS:
            await kill_and_recover(victim, load, name, figure)
    await compare(load)
    kept = sum(len(sender.plant.refused()) for sender in load.senders)
    assert kept >= sum(sender.poison for sender in load.senders)
    assert sum(sender.repeated for sender in load.senders) > 0  # so the kills did interrupt senders


@pytest.mark.faults
async def test_a_kill_of_the_supervisor_costs_nothing(victim: RunningStack, fleet: Fleet) -> None:
    async with under_load(fleet) as load:
        assert victim.process is not None
        victim.process.kill()
        victim.process.wait()
        await start_again(victim)
        await load.flows()
        await load.is_stored()
    await compare(load)


@pytest.mark.faults
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", PARTS)
async def test_five_kills_of_a_part_cost_nothing(victim: RunningStack, fleet: Fleet, figure: Figure, name: str) -> None:
    async with under_load(fleet, plants=12, pause_seconds=0.03, poison_share=0.01) as load:
        for _ in range(5):
            await kill_and_recover(victim, load, name, figure)
    await compare(load)


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_five_kills_of_everything_at_once_cost_nothing(victim: RunningStack, fleet: Fleet) -> None:
    async with under_load(fleet, plants=12, poison_share=0.01) as load:
        for _ in range(5):
            assert victim.process is not None
            for pid in [victim.process.pid, *victim.state["processes"].values()]:
                with contextlib.suppress(ProcessLookupError):  # the first one's death may already have ended it
                    os.kill(pid, signal.SIGKILL)
            victim.process.wait()
            await start_again(victim)
            await load.flows()
            await load.is_stored()
    await compare(load)


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_kills_faster_than_the_recovery_cost_nothing(victim: RunningStack, fleet: Fleet) -> None:
    """The database dies again while the ingest is still on its way back, and so does the ingest."""
    async with under_load(fleet, plants=12) as load:
        for name in ("postgres", "ingest-1", "postgres", "ingest-2", "broker", "postgres"):
            with contextlib.suppress(KeyError, ProcessLookupError):  # it is not back yet
                victim.kill(name)
            await asyncio.sleep(1.5)
        await load.flows(seconds=120)
        await load.is_stored(seconds=120)
    await compare(load, seconds=120)


@pytest.mark.faults
async def test_a_database_that_hangs_for_a_minute_costs_nothing(victim: RunningStack, fleet: Fleet, figure: Figure) -> None:
    """Nor does the ingest fill its memory with what it cannot store."""
    async with under_load(fleet, poison_share=0.01) as load:
        confirmed = load.confirmed
        highest = 0
        with victim.hung("postgres"):
            for _ in range(120):
                await asyncio.sleep(0.5)
                # Looked up each time: a process that ended would be started again.
                ingests = (pid for name, pid in victim.state["processes"].items() if name.startswith("ingest"))
                highest = max(highest, *(psutil.Process(pid).memory_info().rss for pid in ingests))
        figure("memory of an ingest process with a hung database", highest / 2**20, "MiB", MOST_MEMORY_MIB)
        assert highest < MOST_MEMORY_MIB * 2**20
        assert load.confirmed > confirmed + 1_000  # the broker goes on taking messages meanwhile
        await load.flows()
        await load.is_stored()
    await compare(load)


@pytest.mark.faults
async def test_an_ingest_that_hangs_for_half_a_minute_costs_nothing(victim: RunningStack, fleet: Fleet) -> None:
    """Long enough for the broker to give up on its connection and for others to take its messages."""
    async with under_load(fleet) as load:
        with victim.hung("ingest-1"):
            await asyncio.sleep(45)
        await load.flows()
        await load.is_stored()
    await compare(load)
