"""Large bodies share the memory, and no address takes the share of the others."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack

import httpx

from gridfleet.api.http import Input, Message, endpoint, public
from gridfleet.api.http.large_bodies import MOST_SENT_BYTES, HeldBody, sending
from gridfleet.kernel.errors import TooManyRequests

MEBIBYTE = 1024 * 1024


def sent(address: str, stack: ExitStack) -> int:
    """Begin to send responses of a mebibyte until one is refused; their number."""
    count = 0
    while True:
        try:
            stack.enter_context(sending(address, MEBIBYTE, refusable=True))
        except TooManyRequests:
            return count
        count += 1


def arrived(address: str, stack: ExitStack) -> int:
    """Begin bodies of a mebibyte until one is refused; their number."""
    count = 0
    while True:
        body = HeldBody(lambda: address)
        try:
            body.add(MEBIBYTE)
        except TooManyRequests:
            return count
        stack.callback(body.release)
        count += 1


def test_each_address_gets_responses() -> None:
    with ExitStack() as stack:
        assert [sent(address, stack) for address in "abcd"] == [128, 64, 32, 16]
        assert sent("a", stack) == 0
    with ExitStack() as stack:
        assert sent("d", stack) == 128


def test_bodies_of_each_address_are_accepted() -> None:
    with ExitStack() as stack:
        counts = [arrived(str(number), stack) for number in range(10)]
        assert counts == [32, 32, 32, 32, 32, 32, 32, 16, 8, 4]
        assert arrived("0", stack) == 0
    with ExitStack() as stack:
        assert arrived("9", stack) == 32


def test_a_response_of_any_size_is_sent_alone() -> None:
    with ExitStack() as stack:
        stack.enter_context(sending("a", 1024 * MEBIBYTE, refusable=True))
        assert sent("a", stack) == 0
        assert sent("b", stack) == 64  # half of the memory is left to the others
    with ExitStack() as stack:
        assert sent("b", stack) == 128


class Named(Input):
    name: str


async def test_a_large_error_is_refused_even_to_a_change(
    browse: Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]],
) -> None:
    """Without credentials, any client may get an error of 400 kB. Many of them left nothing large for others."""

    @endpoint("POST", "/api/v1/things", caller=public(), codes=("VALIDATION_ERROR",))
    async def create(body: Named) -> Message:
        return Message(body.name * MEBIBYTE)

    unknown = {f"{number:04}" + "\x01" * 60: 1 for number in range(1_000)}
    async with browse() as client:
        with (
            sending("others", MOST_SENT_BYTES, refusable=False),
            sending("more", MOST_SENT_BYTES, refusable=False),
        ):
            refused = await client.post("/api/v1/things", json=unknown)
            small = await client.post("/api/v1/things", json={"nam": ""})
            changed = await client.post("/api/v1/things", json={"name": "n"})
        alone = await client.post("/api/v1/things", json=unknown)
    assert [one.status_code for one in (refused, small, changed, alone)] == [429, 400, 200, 400]
    assert min(len(changed.content), 3 * len(alone.content)) > MEBIBYTE


async def test_an_address_that_reads_no_responses_changes_nothing_more(
    browse: Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]],
) -> None:
    changes: list[str] = []

    @endpoint("POST", "/api/v1/things", caller=public(), codes=("VALIDATION_ERROR",))
    async def create(body: Named) -> Message:
        changes.append(body.name)
        return Message("Done")

    async with browse() as client:
        with sending("127.0.0.1", MOST_SENT_BYTES, refusable=False):
            full = await client.post("/api/v1/things", json={"name": "full"})
            with sending("127.0.0.1", 1, refusable=False):
                refused = await client.post("/api/v1/things", json={"name": "refused"})
        after = await client.post("/api/v1/things", json={"name": "after"})
    assert [one.status_code for one in (full, refused, after)] == [200, 429, 200]
    assert (refused.json()["code"], refused.headers["retry-after"]) == ("TOO_MANY_REQUESTS", "5")
    assert changes == ["full", "after"]
