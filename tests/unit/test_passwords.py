"""Password hashing: right, wrong, outdated, and of an unknown user."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import psutil
import pytest
from argon2 import PasswordHasher, extract_parameters

from gridfleet.kernel.errors import TooManyRequests
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


async def test_the_hash_of_no_account_costs_as_much_as_any(passwords: Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[str] = []
    verify = PasswordHasher.verify

    def noted(hasher: PasswordHasher, stored: str, password: str) -> bool:
        verified.append(stored)
        return verify(hasher, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", noted)
    stored = await passwords.hash("correct horse")
    for account in (None, stored):
        await passwords.matches("wrong", account)
    first, second = map(extract_parameters, verified)
    assert first == second == extract_parameters(stored)


async def test_a_burst_is_bounded_and_refused_with_a_time_to_retry(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    with monkeypatch.context() as slow:
        slow.setattr(PasswordHasher, "verify", lambda *_: release.wait())
        burst = [asyncio.create_task(passwords.matches("x", None)) for _ in range(MAX_WAITING + 6)]
        await asyncio.sleep(0)
        release.set()
        done = await asyncio.gather(*burst, return_exceptions=True)
    refused = [outcome for outcome in done if isinstance(outcome, TooManyRequests)]
    assert len(refused) == 6
    assert refused[0].headers == {"retry-after": "5"}
    assert not await passwords.matches("x", None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a niceness for each thread")
async def test_hashing_yields_the_processor_to_the_event_loop(passwords: Passwords) -> None:
    await passwords.matches("x", None)
    nice = {thread.id: os.getpriority(os.PRIO_PROCESS, thread.id) for thread in psutil.Process().threads()}
    own = os.nice(0)
    assert nice[threading.get_native_id()] == own
    assert max(own, 10) in nice.values()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a niceness for each thread")
def test_hashing_keeps_a_lower_priority_of_its_process() -> None:
    script = (
        "import asyncio, os, psutil\nfrom gridfleet.kernel.security.passwords import Passwords\n"
        "os.nice(15)\npasswords = Passwords(threads=1)\nasyncio.run(passwords.matches('x', None))\n"
        "found = {os.getpriority(os.PRIO_PROCESS, thread.id) for thread in psutil.Process().threads()}\n"
        "print(found == {os.nice(0)})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


async def test_passwords_are_verified_where_priorities_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a filter of system calls: the threads ended, and every login failed."""

    def refuse(*_: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setpriority", refuse)
    passwords = Passwords(threads=1)
    assert await passwords.matches("x", await passwords.hash("x"))
    passwords.close()


async def test_a_hash_that_cannot_begin_takes_no_room() -> None:
    passwords = Passwords(threads=1)
    passwords.close()
    for _ in range(MAX_WAITING + 1):
        with pytest.raises(RuntimeError, match="shutdown"):
            await passwords.hash("x")


def test_weaker_hashes_are_outdated(passwords: Passwords) -> None:
    assert passwords.is_outdated(PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("x"))
