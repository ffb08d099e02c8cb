"""Password hashing: right, wrong, outdated, and nobody's."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest
from argon2 import PasswordHasher, extract_parameters

from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.security import passwords as password_module
from gridfleet.kernel.security.passwords import MAX_PASSWORD_CHARACTERS, MAX_WAITING, Passwords


@pytest.fixture
def passwords() -> Iterator[Passwords]:
    made = Passwords(threads=1)
    yield made
    made.close()


@pytest.mark.parametrize("password", ["correct horse", "", " ", "ümläut\x00 🔋", "x" * MAX_PASSWORD_CHARACTERS])
async def test_only_the_password_itself_matches(passwords: Passwords, password: str) -> None:
    stored = await passwords.hash(password)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert await passwords.matches(password, stored)
    assert not await passwords.matches(password + " ", stored)


async def test_longer_input_is_never_cut_to_fit(passwords: Passwords) -> None:
    longest = "x" * MAX_PASSWORD_CHARACTERS
    assert not await passwords.matches(longest + "x", await passwords.hash(longest))
    with pytest.raises(ValueError, match="256"):
        await passwords.hash(longest + "x")


@pytest.mark.parametrize("stored", [None, "", "!", "$argon2id$nonsense"])
async def test_nothing_matches_where_there_is_no_hash(passwords: Passwords, stored: str | None) -> None:
    assert not await passwords.matches("anything", stored)


async def test_the_hash_of_no_account_costs_as_much_as_any(passwords: Passwords) -> None:
    assert extract_parameters(password_module._NO_ACCOUNT) == extract_parameters(await passwords.hash("correct horse"))


async def test_a_burst_is_bounded_and_refused_with_a_time_to_retry(passwords: Passwords) -> None:
    release = threading.Event()
    busy = asyncio.create_task(passwords._run(release.wait))
    burst = [asyncio.create_task(passwords.matches("x", None)) for _ in range(MAX_WAITING + 5)]
    await asyncio.sleep(0)
    release.set()
    done = await asyncio.gather(busy, *burst, return_exceptions=True)
    refused = [outcome for outcome in done if isinstance(outcome, TooManyRequests)]
    assert len(refused) == 6  # one place was taken before the burst
    assert refused[0].headers == {"retry-after": "5"}
    assert not await passwords.matches("x", None)


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of a thread is Linux's own")
async def test_hashing_yields_the_processor_to_the_event_loop(passwords: Passwords) -> None:
    await passwords.matches("x", None)
    nice = {thread.id: os.getpriority(os.PRIO_PROCESS, thread.id) for thread in psutil.Process().threads()}
    assert nice[threading.get_native_id()] < 10
    assert 10 in nice.values()


def test_weaker_hashes_are_outdated(passwords: Passwords) -> None:
    assert passwords.is_outdated(PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("x"))
