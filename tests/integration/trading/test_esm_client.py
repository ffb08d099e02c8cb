"""The client against an ESM that was written without it, and that misbehaves."""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from gridfleet.domains.trading.esm import client as esm_client
from gridfleet.domains.trading.esm.client import MOST_CALLS, EsmAccess, EsmClient, EsmFailed
from gridfleet.domains.trading.esm.messages import EsmReading
from gridfleet.kernel.cause import at_work
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.outbound.sending import Outbound
from gridfleet.protocol.time_blocks import TimeBlock
from support.servers.esm_stand_in import (
    CLIENT_ID,
    SECRET,
    Fault,
    StandIn,
    announces,
    breaks_off,
    crumbles,
    drips,
    esm_stand_in,
    hangs,
    hangs_up,
    never_ends,
    packed,
    says,
)

CONFIG = {"configEnabled": True, "esiState": "PLC_READY", "version": 7, "timeConfigs": [], "more": {"than": "we know"}}
BLOCK = msgspec.convert({"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 0, "socMax": 100}, TimeBlock)
ODD_NAME = "DE/Süd 1?x=#&"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with esm_stand_in() as running:
        running.configs = {"P1": dict(CONFIG), ODD_NAME: dict(CONFIG)}
        yield running


@pytest.fixture
def client() -> EsmClient:
    return EsmClient(Outbound(allow_private=True, seconds=5), "http://sandbox", backoff_seconds=0.001)


def access_to(stand_in: StandIn) -> EsmAccess:
    return EsmAccess(stand_in.url, CLIENT_ID, SECRET)


async def failure(call: Awaitable[object]) -> EsmFailed:
    with pytest.raises(EsmFailed) as caught:
        await call
    return caught.value


async def test_everything_that_an_esm_is_asked(client: EsmClient, stand_in: StandIn) -> None:
    access = access_to(stand_in)
    stand_in.plants = [{"externalPlantId": "P1"}, {"odd": True}]
    stand_in.readings["P1"] = [{"time": "2026-11-20T12:00:00+02:00", "meter_id": "M", "interval": 15, "energy": -1, "x": 1}]

    assert [msgspec.json.decode(plant) for plant in await client.plants(access, list)] == stand_in.plants
    config = await client.config(access, ODD_NAME)
    assert (config.version, config.time_configs) == (7, [])
    answer = await client.send_plan(access, "P1", "code-1", [BLOCK], validate_only=False)
    assert (answer.result_code, answer.is_error, answer.version) == ("OK", False, 8)
    dry = await client.send_plan(access, "P1", "code-2", [BLOCK], validate_only=True)
    assert dry.version == 8
    start, end = datetime(2026, 11, 20, 10, tzinfo=UTC), datetime(2026, 11, 20, 11, tzinfo=UTC)
    [reading] = await client.readings(access, "P1", start, end, list)
    assert (reading.time, reading.interval, reading.energy) == (start, 15, -1)

    assert stand_in.tokens_given == 1, "one token serves them all"
    sent = stand_in.calls("PUT", "/plants/P1/config")[0].json
    assert sent == {
        "requestCode": "code-1",
        "timeConfigs": [{"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 0, "socMax": 100}],
    }
    assert stand_in.calls("GET", "/plants/P1/meters")[0].query == {
        "from": ["2026-11-20T10:00:00.000Z"],
        "to": ["2026-11-20T11:00:00.000Z"],
    }
    assert {request.headers["accept-encoding"] for request in stand_in.seen} == {"identity"}
    assert "authorization" in stand_in.seen[0].headers


async def test_a_token_is_renewed_when_it_ends_or_counts_no_more(client: EsmClient, stand_in: StandIn) -> None:
    access = access_to(stand_in)
    await client.config(access, "P1")
    stand_in.forget_tokens()
    await client.config(access, "P1")
    assert stand_in.tokens_given == 2
    stand_in.forget_tokens()
    stand_in.token_seconds = 1  # too short to be used twice
    await client.send_plan(access, "P1", "code", [BLOCK], validate_only=False)
    assert stand_in.configs["P1"]["version"] == 8, "a plan that met an old token is sent once more, and counts once"
    await client.config(access, "P1")
    assert stand_in.tokens_given == 4


async def test_credentials_that_are_refused(client: EsmClient, stand_in: StandIn) -> None:
    stand_in.is_closed_to_us = True
    error = await failure(client.plants(access_to(stand_in), list))
    assert (error.result_code, error.status) == ("ESM_UNAVAILABLE", None)
    assert error.text == "The ESM refused the credentials (401)."
    assert len(stand_in.seen) == 1
    assert SECRET not in repr(access_to(stand_in))


async def test_a_token_that_is_always_refused_is_not_requested_for_ever(client: EsmClient, stand_in: StandIn) -> None:
    stand_in.faults.extend([says(401, b"{}")] * 5)
    assert (await failure(client.plants(access_to(stand_in), list))).status == 401
    assert stand_in.tokens_given == 1


@pytest.mark.parametrize("fault", [hangs_up, says(500, b"{}"), says(503, b"<html>", "text/html"), breaks_off])
async def test_reads_are_tried_three_times(client: EsmClient, stand_in: StandIn, fault: Fault) -> None:
    access = access_to(stand_in)
    stand_in.faults.extend([fault] * 2)
    assert (await client.config(access, "P1")).version == 7
    stand_in.faults.extend([fault] * 3)
    assert (await failure(client.config(access, "P1"))).result_code == "ESM_UNAVAILABLE"
    assert not stand_in.faults
    assert len(stand_in.calls("GET", "/plants/P1/config")) == 6


@pytest.mark.parametrize("fault", [hangs_up, says(500, b"{}")])
async def test_plans_are_sent_once(client: EsmClient, stand_in: StandIn, fault: Fault) -> None:
    stand_in.faults.extend([fault] * 2)
    for number in (1, 2):
        call = client.send_plan(access_to(stand_in), "P1", f"code-{number}", [BLOCK], validate_only=False)
        assert (await failure(call)).result_code == "ESM_UNAVAILABLE"
        assert len(stand_in.calls("PUT", "/plants/P1/config")) == number


@pytest.mark.parametrize(
    ("fault", "says_so"),
    [
        (says(200, b"<html>hello</html>", "text/html"), "did not respond with JSON"),
        (says(200, b'{"version": 1}', "text/plain"), "did not respond with JSON"),
        (says(200, b""), "is not valid"),
        (says(200, b"{"), "is not valid"),
        (says(200, b"[]"), "is not valid"),
        (says(200, b"\xff\xfe"), "is not valid"),
        (says(200, b"[" * 100_000), "is not valid"),
        (says(200, b'{"configEnabled": true, "esiState": "X", "version": "7", "timeConfigs": []}'), "version"),
        (says(200, b'{"configEnabled": true, "esiState": "X", "version": 1e400, "timeConfigs": []}'), "is not valid"),
        (says(200, b'{"configEnabled": true, "esiState": "X", "version": 7, "timeConfigs": [{"from": "25:00"}]}'), "from"),
        (says(200, msgspec.json.encode(CONFIG | {"timeConfigs": [BLOCK] * 97})), "timeConfigs"),
        (says(204, b""), "did not respond with JSON|is not valid"),
        (never_ends, "was not read"),
        (packed, "was not read"),
        (says(418, b'{"message": "short\\u0000 and\\nstout."}'), "responded with 418: short and stout"),
        (says(418, b'{"message": ["no text"]}'), "responded with 418\\."),
        (says(418, b"{", "application/json"), "responded with 418\\."),
        (says(418, b"teapot", "text/plain"), "responded with 418\\."),
    ],
)
async def test_answers_that_are_none(client: EsmClient, stand_in: StandIn, fault: Fault, says_so: str) -> None:
    stand_in.faults.append(fault)
    error = await failure(client.config(access_to(stand_in), "P1"))
    assert error.result_code == "ESM_UNAVAILABLE"
    assert re.search(says_so, error.text)


@pytest.mark.parametrize(
    ("records", "says_so"),
    [(b"0," * 4_000_000 + b"0", "too many values"), (b"{}," * 20_000 + b"{}", "length")],
)
async def test_a_list_that_would_take_seconds_to_read(
    client: EsmClient, stand_in: StandIn, records: bytes, says_so: str
) -> None:
    stand_in.faults.append(says(200, b'{"plants":[' + records + b"]}"))
    error = await failure(client.plants(access_to(stand_in), list))
    assert error.result_code == "ESM_UNAVAILABLE"
    assert says_so in error.text


@pytest.mark.parametrize(("fault", "says_so"), [(crumbles, "more than 20000 chunks"), (announces, "cannot be reached")])
async def test_a_response_of_tiny_parts_leaves_time_for_others(
    client: EsmClient, stand_in: StandIn, fault: Fault, says_so: str
) -> None:
    """The HTTP library parses what it has read without a pause: 64 KiB in chunks of one byte took a second."""
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(take_turns())
    stand_in.faults.extend([fault] * 3)
    error = await failure(client.config(access_to(stand_in), "P1"))
    others.cancel()
    assert (error.result_code, says_so in error.text) == ("ESM_UNAVAILABLE", True), error.text
    assert turns > (48 if fault is announces else 1_000)


@pytest.mark.parametrize(
    "fault",
    [
        says(200, b"[]"),
        says(200, b'{"access_token": "a b"}'),
        says(200, b"x", "text/plain"),
        says(404, b"{}"),
        says(422, b"{}"),
    ],
)
async def test_tokens_that_are_none(client: EsmClient, stand_in: StandIn, fault: Fault) -> None:
    stand_in.token_faults.append(fault)
    error = await failure(client.config(access_to(stand_in), "P1"))
    assert (error.result_code, error.status) == ("ESM_UNAVAILABLE", None), "not the plant's fault"


async def test_a_token_that_no_header_can_contain_is_named(client: EsmClient, stand_in: StandIn) -> None:
    stand_in.token_faults.append(says(200, b'{"access_token": "abc\\n"}'))
    error = await failure(client.config(access_to(stand_in), "P1"))
    assert error.text.startswith("The ESM issued no token. The ESM's response is not valid")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(client: EsmClient, stand_in: StandIn, status: int) -> None:
    with esm_stand_in() as elsewhere:
        stand_in.faults.append(says(status, b"{}", location=f"{elsewhere.url}/plants"))
        stand_in.token_faults.append(says(status, b"{}", location=f"{elsewhere.url}/oauth/token"))
        for _ in (1, 2):
            assert f"responded with {status}." in (await failure(client.plants(access_to(stand_in), list))).text
        assert elsewhere.seen == []


@pytest.mark.parametrize("fault", [hangs, drips])
@pytest.mark.parametrize("of_token", [False, True])
async def test_no_esm_is_waited_for_long(stand_in: StandIn, fault: Fault, of_token: bool) -> None:
    client = EsmClient(Outbound(allow_private=True, seconds=0.2), "http://sandbox")
    (stand_in.token_faults if of_token else stand_in.faults).append(fault)
    async with asyncio.timeout(20):
        assert (await failure(client.config(access_to(stand_in), "P1"))).result_code == "TIMEOUT"
    assert len(stand_in.seen) == (1 if of_token else 2), "what was too slow is not tried again"


async def test_an_answer_to_another_request_does_not_count(client: EsmClient, stand_in: StandIn) -> None:
    stand_in.answers["P1"] = {"requestCode": "somebody else's"}
    error = await failure(client.send_plan(access_to(stand_in), "P1", "code", [BLOCK], validate_only=False))
    assert "another request" in error.text


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "VALIDATION_FAILED"), (422, "VALIDATION_FAILED"), (404, "ESM_UNAVAILABLE"), (409, "ESM_UNAVAILABLE")],
)
async def test_refusals(client: EsmClient, stand_in: StandIn, status: int, code: str) -> None:
    stand_in.faults.append(says(status, b'{"message": "no"}'))
    error = await failure(client.send_plan(access_to(stand_in), "P1", "code", [BLOCK], validate_only=False))
    assert (error.result_code, error.status, error.text) == (code, status, f"The ESM responded with {status}: no.")


@pytest.mark.parametrize("url", ["http://no-such-name.invalid", "http://127.0.0.1:1025", "https://{host}", "ftp://x"])
async def test_an_esm_that_is_not_there(client: EsmClient, stand_in: StandIn, url: str) -> None:
    access = EsmAccess(url.format(host=stand_in.url.removeprefix("http://")), CLIENT_ID, SECRET)
    assert (await failure(client.plants(access, list))).result_code == "ESM_UNAVAILABLE"


async def test_a_private_esm_is_not_called_but_the_sandbox_is(stand_in: StandIn) -> None:
    strict: Callable[[str], EsmClient] = lambda own: EsmClient(Outbound(), own)  # noqa: E731
    assert "public" in (await failure(strict("http://sandbox").plants(access_to(stand_in), list))).text
    assert stand_in.seen == []
    assert await strict(stand_in.url).plants(access_to(stand_in), list) == []


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_that_would_lead_elsewhere_is_not_asked_for(client: EsmClient, stand_in: StandIn, name: str) -> None:
    assert (await failure(client.config(access_to(stand_in), name))).result_code == "ESM_UNAVAILABLE"
    assert stand_in.seen == []


async def test_a_request_names_what_the_esm_is_called_for(client: EsmClient, stand_in: StandIn) -> None:
    with at_work("test", {"request_id": "the-cause"}):
        await client.plants(access_to(stand_in), list)
    assert {one.headers["x-request-id"] for one in stand_in.seen} == {"the-cause"}
    assert all("traceparent" not in one.headers for one in stand_in.seen), "no traces are made"


async def test_one_organisations_calls_wait_for_each_other(client: EsmClient, stand_in: StandIn) -> None:
    """Each may hold a response of 8 MiB for half a minute, and a member may send any number of requests."""
    access = replace(access_to(stand_in), organization_id=new_id())
    await client.config(access, "P1")
    stand_in.seen.clear()
    stand_in.faults.extend([hangs] * 40)
    calls = [asyncio.create_task(failure(client.config(access, "P1"))) for _ in range(20)]
    while len(stand_in.seen) < MOST_CALLS:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert len(stand_in.seen) == MOST_CALLS
    stand_in.faults.clear()
    assert (await client.config(replace(access, organization_id=new_id()), "P1")).version == 7
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_plan_that_lacks_a_token_is_not_in_effect(stand_in: StandIn) -> None:
    client = EsmClient(Outbound(allow_private=True, seconds=2), "http://sandbox")
    stand_in.token_faults.append(hangs)
    failed = await failure(client.send_plan(access_to(stand_in), "P1", "code-1", [BLOCK], validate_only=False))
    assert (failed.result_code, len(stand_in.seen)) == ("ESM_UNAVAILABLE", 1)


async def test_a_plan_that_waited_for_its_turn_is_not_in_effect(
    client: EsmClient, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = replace(access_to(stand_in), organization_id=new_id())
    await client.config(access, "P1")
    stand_in.seen.clear()
    stand_in.faults.extend([hangs] * MOST_CALLS)
    calls = [asyncio.create_task(failure(client.config(access, "P1"))) for _ in range(MOST_CALLS)]
    while len(stand_in.seen) < MOST_CALLS:
        await asyncio.sleep(0.01)
    monkeypatch.setattr(esm_client, "MOST_SECONDS", 0.3)
    failed = await failure(client.send_plan(access, "P1", "code-1", [BLOCK], validate_only=False))
    assert (failed.result_code, failed.text) == ("ESM_UNAVAILABLE", "Too many calls to the ESM wait.")
    assert len(stand_in.seen) == MOST_CALLS
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_one_organisations_large_responses_are_read_one_after_another(client: EsmClient, stand_in: StandIn) -> None:
    """Several threads would leave the event loop a small share of the time."""
    access = replace(access_to(stand_in), organization_id=new_id())
    reading = {"time": "2026-11-20T12:00:00Z", "meter_id": "M", "interval": 15, "energy": 1}
    stand_in.readings["P1"] = [reading] * 1_000
    start, end = datetime(2026, 11, 20, 10, tzinfo=UTC), datetime(2026, 11, 20, 13, tzinfo=UTC)
    at_once = threading.Semaphore(1)

    def count(readings: list[EsmReading]) -> int:
        assert threading.current_thread() is not threading.main_thread()
        assert at_once.acquire(blocking=False)
        time.sleep(0.05)
        at_once.release()
        return len(readings)

    assert await asyncio.gather(*(client.readings(access, "P1", start, end, count) for _ in range(5))) == [1_000] * 5
