"""kill -9 of every part while commands are in every state: each ends as its plant says, obeyed once, with one history."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gridfleet.sdk.plant import Command, CommandRejected
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet
from support.servers.running_stack import RunningStack

PARTS = ("gateway", "ingest-1", "serve", "broker", "postgres", "ingest-2", "jobs")
WAY = ["PENDING", "SENT", "RECEIVED"]


@dataclass
class Held:
    """Commands that stay where they are until `released`, by state, and others that have ended."""

    batteries: dict[str, Battery]
    ids: dict[str, str] = field(default_factory=dict)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    connections: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def unchanged(self) -> None:
        """Every command is where it was."""
        for state, battery in self.batteries.items():
            await battery.in_state(self.ids[state], state)

    async def release(self) -> None:
        """Lets those that are open be obeyed; all are APPLIED then, and the ended ones as before."""
        self.go_on.set()
        for state in ("PENDING", "SENT"):
            await self.connections.enter_async_context(self.batteries[state].connected())
        for state, battery in self.batteries.items():
            await battery.in_state(self.ids[state], "APPLIED" if state in WAY else state, seconds=30)


@asynccontextmanager
async def held_in_every_state(fleet: Fleet, template: str, folder: Path) -> AsyncIterator[Held]:
    states = [*WAY, "APPLIED", "REJECTED", "FAILED", "EXPIRED"]
    held = Held({state: Battery(fleet, template, folder) for state in states})
    batteries = held.batteries

    async def wait(command: Command) -> None:
        await held.go_on.wait()

    async def reject(command: Command) -> None:
        raise CommandRejected("NO", "not now")

    async def fail(command: Command) -> None:
        raise OSError("no answer")

    batteries["RECEIVED"].answer, batteries["REJECTED"].answer, batteries["FAILED"].answer = wait, reject, fail
    async with held.connections:
        for state in ("RECEIVED", "APPLIED", "REJECTED", "FAILED"):
            await held.connections.enter_async_context(batteries[state].connected())
        async with batteries["SENT"].connected():
            pass  # leaves a session behind, which the broker keeps commands for
        for state, battery in batteries.items():
            held.ids[state] = await battery.order("hurry" if state == "EXPIRED" else "wait")
        await held.unchanged()
        try:
            yield held
        finally:
            held.go_on.set()


class Stream:
    """A connected battery that is commanded again and again, whatever happens to the service."""

    def __init__(self, fleet: Fleet, template: str, folder: Path) -> None:
        self.battery = Battery(fleet, template, folder)
        self.battery.answer = lambda _: asyncio.sleep(0.05)
        self.issued: list[str] = []
        self.unanswered = 0
        self._stop = asyncio.Event()
        self._issuing = asyncio.Lock()
        """Commands that are issued at the same moment have no order."""

    async def run(self) -> None:
        """Issues until stopped."""
        number = 0
        while not self._stop.is_set():
            number += 1
            command_id = await self._issue()
            if command_id is None:
                self.unanswered += 1
            else:
                self.issued.append(command_id)
            await asyncio.sleep(0.1)

    async def flows(self, seconds: float = 300) -> None:
        """Returns once a command that is issued now has been obeyed."""
        async with asyncio.timeout(seconds):
            while (command_id := await self._issue()) is None:
                await asyncio.sleep(0.2)
            self.issued.append(command_id)
            while command_id not in {command.command_id for command in self.battery.obeyed}:
                await asyncio.sleep(0.05)

    async def _issue(self) -> str | None:
        async with self._issuing:
            return await self.battery.try_to_order("wait")

    def stop(self) -> None:
        """No more commands."""
        self._stop.set()


@asynccontextmanager
async def under_command(fleet: Fleet, template: str, folder: Path) -> AsyncIterator[list[Stream]]:
    """Streams from the start of the block to its end; after it, everything that was issued has its one history."""
    streams = [Stream(fleet, template, folder) for _ in range(3)]
    async with AsyncExitStack() as connections:
        for stream in streams:
            await connections.enter_async_context(stream.battery.connected())
        running = [asyncio.create_task(stream.run()) for stream in streams]
        try:
            yield streams
        finally:
            for stream in streams:
                stream.stop()
            await asyncio.gather(*running)
        for stream in streams:
            await compare(stream)


async def compare(stream: Stream) -> None:
    """Every command that the service took was obeyed, once and in order, and its history says so."""
    battery = stream.battery
    await battery.in_state(stream.issued[-1], "APPLIED", seconds=60)
    histories = await _settled(battery)
    obeyed = [command.command_id for command in battery.obeyed]
    assert len(obeyed) == len(set(obeyed)), "obeyed twice"
    assert set(stream.issued) <= set(obeyed) == set(histories)
    assert len(histories) <= len(stream.issued) + stream.unanswered
    assert {tuple(states) for states in histories.values()} == {(*WAY, "APPLIED")}
    issued = {command.command_id: command.issued_at for command in battery.obeyed}
    times = [issued[command_id] for command_id in obeyed]
    assert times == sorted(times), "not in their order"
    assert all(isinstance(moment, datetime) for moment in times)


async def _settled(battery: Battery) -> dict[str, Any]:
    """The histories once all have ended."""
    async with asyncio.timeout(300):
        while True:
            histories = await asyncio.to_thread(battery.histories)
            if all(states[-1] not in WAY for states in histories.values()):
                return histories
            await asyncio.sleep(0.2)


async def kill_and_recover(stack: RunningStack, streams: list[Stream], name: str) -> None:
    pid = stack.kill(name)
    await asyncio.to_thread(stack.wait_for_restart, name, pid)
    await asyncio.gather(*(stream.flows() for stream in streams))


@pytest.mark.slow
async def test_one_kill_of_each_part_loses_and_doubles_nothing(victim: RunningStack, fleet: Fleet, tmp_path: Path) -> None:
    template = add_template(fleet)
    async with held_in_every_state(fleet, template, tmp_path) as held:
        async with under_command(fleet, template, tmp_path) as streams:
            for name in PARTS:
                await kill_and_recover(victim, streams, name)
            await held.unchanged()
        await held.release()
    print(f"{sum(len(stream.issued) for stream in streams)} commands issued, all applied once")
    for state, battery in held.batteries.items():
        [history] = battery.histories().values()
        assert history == (
            [*WAY, "APPLIED"] if state in WAY else ["PENDING", "EXPIRED"] if state == "EXPIRED" else [*WAY, state]
        )
        assert len(battery.obeyed) == (state != "EXPIRED")


@pytest.mark.faults
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", ["gateway", "ingest-1", "broker", "postgres"])
async def test_ten_kills_of_a_part_lose_and_double_nothing(
    victim: RunningStack, fleet: Fleet, tmp_path: Path, name: str
) -> None:
    async with under_command(fleet, add_template(fleet), tmp_path) as streams:
        for _ in range(10):
            await kill_and_recover(victim, streams, name)
    print(f"{name}: {sum(len(stream.issued) for stream in streams)} commands issued, all applied once")


@pytest.mark.faults
@pytest.mark.timeout(1_200)
async def test_five_kills_of_everything_at_once_lose_and_double_nothing(
    victim: RunningStack, fleet: Fleet, tmp_path: Path
) -> None:
    template = add_template(fleet)
    async with held_in_every_state(fleet, template, tmp_path) as held:
        async with under_command(fleet, template, tmp_path) as streams:
            for _ in range(5):
                assert victim.process is not None
                for pid in [victim.process.pid, *victim.state["processes"].values()]:
                    with contextlib.suppress(ProcessLookupError):  # the first one's death may already have ended it
                        os.kill(pid, signal.SIGKILL)
                victim.process.wait()
                process = victim.launch()  # by this thread: it would end with another
                async with asyncio.timeout(300):
                    while not victim.ready(process.pid):
                        assert process.poll() is None, victim.log.read_text()[-4000:]
                        await asyncio.sleep(0.2)
                await asyncio.gather(*(stream.flows() for stream in streams))
            await held.unchanged()
        await held.release()
    print(f"everything: {sum(len(stream.issued) for stream in streams)} commands issued, all applied once")
