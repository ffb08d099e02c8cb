"""Password hashing: right, wrong, outdated, and nobody's."""

import statistics
import time
from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from gridfleet.kernel.security.passwords import MAX_PASSWORD_CHARACTERS, Passwords


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


async def test_no_account_takes_as_long_as_a_wrong_password(passwords: Passwords) -> None:
    stored = await passwords.hash("correct horse")

    async def median_seconds(against: str | None) -> float:
        times = []
        for _ in range(15):
            started = time.thread_time(), time.perf_counter()
            await passwords.matches("wrong", against)
            times.append(time.perf_counter() - started[1])
        return statistics.median(times)

    assert abs(await median_seconds(None) - await median_seconds(stored)) < 0.02


def test_weaker_hashes_are_outdated(passwords: Passwords) -> None:
    assert passwords.is_outdated(PasswordHasher(time_cost=1, memory_cost=1024, parallelism=1).hash("x"))
