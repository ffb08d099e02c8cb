"""Revoking a plant that is connected, or just about to be: it is cut off, and no login that races survives."""

import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from support.clients import lean_mqtt
from support.clients.fleet_under_test import Fleet, Plant
from support.figures import Figure
from support.servers.running_stack import RunningStack

METHODS = ("MTLS", "TOKEN", "PASSWORD")
CLOSED_SECONDS = 0.5
WAITED_SECONDS = 10.0
"""Limit where other tests share the processor. `make faults` measures the half second."""
SURVIVAL_SECONDS = 2.0
SIDE_BY_SIDE = 5


@pytest.fixture
def fleet(stack: RunningStack) -> Iterator[Fleet]:
    """A new organisation at the service that all tests share: nothing is killed here."""
    found = Fleet(stack)
    try:
        yield found
    finally:
        found.close()


@dataclass(frozen=True, slots=True)
class Cut:
    """Seconds from the answer of `revoke` until the connection was closed, and until a new login was refused."""

    closed: float
    refused: float


async def cut_off(fleet: Fleet, method: str) -> Cut:
    """Revokes a plant that is connected."""
    plant = await asyncio.to_thread(fleet.plant, method)
    login = await asyncio.to_thread(lambda: plant.login)
    async with await plant.connect(login) as connection:
        await connection.ping()
        await asyncio.to_thread(fleet.call, "POST", f"/plants/{plant.id}/revoke")
        revoked = time.perf_counter()

        async def closed() -> float:
            await connection.wait_lost(10)
            assert connection.lost
            return time.perf_counter() - revoked

        async def refused() -> float:
            while True:
                try:
                    await (await plant.connect(login)).close()
                except lean_mqtt.Refused:
                    return time.perf_counter() - revoked

        return Cut(*await asyncio.gather(closed(), refused()))


async def race(fleet: Fleet, method: str) -> tuple[int, int]:
    """Logins in flight while the plant is revoked: how many were let in, and how many of them live two seconds later."""
    plant = await asyncio.to_thread(fleet.plant, method)
    login = await asyncio.to_thread(lambda: plant.login)
    revoked = asyncio.Event()
    let_in: list[lean_mqtt.Connection] = []
    async with contextlib.AsyncExitStack() as open_ones:

        async def log_in_until_revoked(number: int) -> None:
            while not revoked.is_set():
                await asyncio.sleep(random.uniform(0, 0.02))
                with contextlib.suppress(lean_mqtt.Refused, ConnectionError):
                    connection = await plant.connect(named(plant, login, number))
                    let_in.append(await open_ones.enter_async_context(connection))

        async def revoke() -> None:
            async with asyncio.timeout(60):
                while not let_in:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(random.uniform(0, 0.3))
            await asyncio.to_thread(fleet.call, "POST", f"/plants/{plant.id}/revoke")
            revoked.set()

        await asyncio.gather(revoke(), *(log_in_until_revoked(number) for number in range(3)))
        await asyncio.sleep(SURVIVAL_SECONDS)
        survivors = [connection for connection in let_in if not connection.lost]
        return len(let_in), len(survivors)


def named(plant: Plant, login: lean_mqtt.Login, number: int) -> lean_mqtt.Login:
    """With a client id of its own where the method allows several, so that logins do not take each other's place."""
    if plant.method != "PASSWORD":
        return login
    return lean_mqtt.Login(f"{plant.id}-{number}-{random.randrange(10**6)}", login.username, login.password)


async def cut_off_times(fleet: Fleet, count: int) -> list[Cut]:
    """Every method in turn, one after the other."""
    return [await cut_off(fleet, METHODS[number % 3]) for number in range(count)]


async def races(fleet: Fleet, count: int) -> tuple[int, int]:
    """Logins let in and survivors of all races, a few side by side."""
    let_in = survivors = 0
    for start in range(0, count, SIDE_BY_SIDE):
        batch = range(start, min(count, start + SIDE_BY_SIDE))
        for entered, survived in await asyncio.gather(*(race(fleet, METHODS[number % 3]) for number in batch)):
            let_in += entered
            survivors += survived
    return let_in, survivors


async def test_a_revoked_plant_is_cut_off_by_every_method(fleet: Fleet) -> None:
    for cut in await cut_off_times(fleet, 3):
        assert cut.closed < WAITED_SECONDS
        assert cut.refused < WAITED_SECONDS


async def test_a_login_that_races_does_not_survive(fleet: Fleet) -> None:
    let_in, survivors = await races(fleet, 9)
    assert let_in > 0
    assert survivors == 0


@pytest.mark.faults
async def test_fifty_are_cut_off_within_half_a_second(fleet: Fleet, figure: Figure) -> None:
    cuts = await cut_off_times(fleet, 50)
    for name in ("closed", "refused"):
        longest = max(getattr(cut, name) for cut in cuts)
        figure(f"a revoked plant is {name}, the slowest of 50", longest * 1000, "ms", CLOSED_SECONDS * 1000)
        assert longest < CLOSED_SECONDS


@pytest.mark.faults
@pytest.mark.timeout(1200)
async def test_two_hundred_races_leave_no_survivor(fleet: Fleet) -> None:
    let_in, survivors = await races(fleet, 200)
    print(f"{let_in} logins let in by 200 races, {survivors} alive after {SURVIVAL_SECONDS} s")
    assert survivors == 0
