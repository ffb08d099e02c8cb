"""A TOKEN plant, and no other client, gets its next MQTT token by a request that it signs."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gridfleet.kernel.ids import new_id
from gridfleet.protocol.envelope import sign_message
from gridfleet.protocol.token_request import sign_token_request
from support.clients.plants_over_http import Fleet, fleet_over_http

REFUSED = (401, "UNAUTHORIZED")
FORBIDDEN = (403, "FORBIDDEN")
GRANTED = (200, None)


def now_ms() -> int:
    return int(time.time() * 1000)


def signed(package: Any, sent_at: int, **changes: Any) -> dict[str, Any]:
    """The body of a request. `changes` may hold `secret`, `plant_id` and `id`."""
    secret = bytes.fromhex(changes.get("secret", package["security"]["hmacSecret"]))
    request_id = changes.get("id", "r-1")
    sig = sign_token_request(secret, changes.get("plant_id", package["plantId"]), request_id, sent_at)
    return {"id": request_id, "sentAt": sent_at, "sig": sig}


async def renew(fleet: Fleet, plant_id: str, body: Any) -> tuple[tuple[int, str | None], Any]:
    """Status and code, and the response, of a request without any credentials."""
    answer = await fleet.service.client.post(f"/api/v1/plants/{plant_id}/mqtt-token/renew", json=body)
    return (answer.status_code, answer.json().get("code")), answer.json()


async def events(fleet: Fleet) -> list[tuple[Any, ...]]:
    return await fleet.sql(
        "SELECT event, actor_type, actor_id, subject_type, subject_id, details->>'reason' FROM audit_event"
        " WHERE event LIKE 'plant.token%%' ORDER BY created_at"
    )


async def test_a_plant_renews_its_token_without_a_user(fleet: Fleet) -> None:
    _, package = await fleet.active_plant("TOKEN")
    plant_id = package["plantId"]
    assert package["mqtt"]["tokenUrl"].endswith(f"/api/v1/plants/{plant_id}/mqtt-token/renew")
    found, token = await renew(fleet, plant_id, signed(package, now_ms()))
    assert found == GRANTED
    assert str(fleet.service.state.plant_tokens.read(token["token"])[0]) == plant_id
    assert await events(fleet) == [("plant.token_renewed", "PLANT", plant_id, "PLANT", plant_id, None)]


async def test_a_request_is_accepted_once(fleet: Fleet) -> None:
    _, package = await fleet.active_plant("TOKEN")
    plant_id, sent_at = package["plantId"], now_ms()
    body = signed(package, sent_at)
    found = await asyncio.gather(*(renew(fleet, plant_id, body) for _ in range(5)))
    assert sorted(result for result, _ in found) == [GRANTED, *[REFUSED] * 4]
    assert (await renew(fleet, plant_id, signed(package, sent_at - 1, id="older")))[0] == REFUSED
    assert (await renew(fleet, plant_id, signed(package, sent_at, id="as old")))[0] == REFUSED
    assert (await renew(fleet, plant_id, signed(package, sent_at + 1)))[0] == GRANTED
    assert [event[5] for event in await events(fleet) if event[0] == "plant.token_refused"] == ["repeated"] * 6


async def test_what_the_plant_did_not_sign_is_refused(fleet: Fleet) -> None:
    _, package = await fleet.active_plant("TOKEN")
    _, other = await fleet.active_plant("TOKEN", serialNumber="SN-2")
    plant_id, sent_at = package["plantId"], now_ms()
    good = signed(package, sent_at)
    telemetry = sign_message(
        bytes.fromhex(package["security"]["hmacSecret"]), f"v1/plants/{plant_id}/telemetry", "r-1", sent_at, b""
    )
    for body in (
        {**good, "sentAt": sent_at + 1},
        {**good, "id": "r-2"},
        {**good, "sig": good["sig"].upper()},
        {**good, "sig": "é" * 64},
        {**good, "sig": telemetry.split(b'"sig":"')[1][:64].decode()},
        signed(package, sent_at, secret=other["security"]["hmacSecret"]),
        signed(package, sent_at, plant_id=other["plantId"]),
    ):
        assert (await renew(fleet, plant_id, body))[0] == REFUSED
    assert (await renew(fleet, other["plantId"], good))[0] == REFUSED
    for body in (None, [], {}, {**good, "more": 1}, {**good, "sentAt": "1"}, {**good, "sentAt": -1}, {**good, "id": "a\nb"}):
        assert (await renew(fleet, plant_id, body))[0] == (400, "VALIDATION_ERROR")
    assert (await renew(fleet, plant_id, good))[0] == GRANTED
    [[failures]] = await fleet.sql("SELECT auth_failure_count FROM plant WHERE id = %s", plant_id)
    assert failures == 7


async def test_the_response_does_not_show_whether_a_plant_exists(fleet: Fleet) -> None:
    _, package = await fleet.active_plant("TOKEN")
    _, other_method = await fleet.active_plant("PASSWORD", serialNumber="SN-2")
    pending = await fleet.plant(serialNumber="SN-3", authMethod="TOKEN")
    revoked, _ = await fleet.active_plant("TOKEN", serialNumber="SN-4")
    await fleet.call("POST", f"{revoked}/revoke")
    old = {**signed(package, 0), "sig": "0" * 64}
    responses = []
    for plant_id in (str(new_id()), package["plantId"], other_method["plantId"], pending["id"], revoked.split("/")[-1]):
        for body in (old, {**old, "sentAt": now_ms()}):
            found, response = await renew(fleet, plant_id, body)
            assert found == REFUSED
            responses.append({key: value for key, value in response.items() if key != "requestId"})
    assert all(response == responses[0] for response in responses)


@pytest.mark.parametrize(("call", "expected"), [("suspend", FORBIDDEN), ("revoke", REFUSED)])
async def test_an_ended_plant_is_refused_at_once(fleet: Fleet, call: str, expected: tuple[int, str]) -> None:
    path, package = await fleet.active_plant("TOKEN")
    assert (await renew(fleet, package["plantId"], signed(package, now_ms())))[0] == GRANTED
    await fleet.call("POST", f"{path}/{call}")
    assert (await renew(fleet, package["plantId"], signed(package, now_ms() + 1_000)))[0] == expected


async def test_plants_of_other_methods_get_no_tokens(fleet: Fleet) -> None:
    for method in ("MTLS", "PASSWORD"):
        _, package = await fleet.active_plant(method, serialNumber=method)
        assert package["mqtt"]["tokenUrl"] is None
        assert (await renew(fleet, package["plantId"], signed(package, now_ms())))[0] == FORBIDDEN


async def test_the_clock_of_the_plant_must_be_right(fleet: Fleet) -> None:
    _, package = await fleet.active_plant("TOKEN")
    plant_id = package["plantId"]
    for offset in (-660_000, 660_000, 2**52):
        found, response = await renew(fleet, plant_id, signed(package, now_ms() + offset))
        assert (found, response["details"][0].split(":")[0]) == (REFUSED, "sentAt")
    for offset in (-540_000, 540_000):
        assert (await renew(fleet, plant_id, signed(package, now_ms() + offset)))[0] == GRANTED


async def test_a_token_requested_with_the_previous_secret_ends_with_it(fleet: Fleet) -> None:
    path, package = await fleet.active_plant("TOKEN")
    plant_id, sent_at = package["plantId"], now_ms()
    _, rotated = await fleet.call("POST", f"{path}/rotate-secret")
    found, old = await renew(fleet, plant_id, signed(package, sent_at))
    assert (found, old["expiresAt"][:19]) == (GRANTED, rotated["previousValidUntil"][:19])
    found, new = await renew(fleet, plant_id, signed(package, sent_at + 1, secret=rotated["hmacSecret"]))
    assert found == GRANTED
    assert new["expiresAt"] > old["expiresAt"]
    await fleet.sql("UPDATE plant_secret SET previous_valid_until = now()")
    assert (await renew(fleet, plant_id, signed(package, sent_at + 2)))[0] == REFUSED


@pytest.fixture
async def limited(database_url: str, home: Path) -> AsyncIterator[Fleet]:
    settings = {"tokens_per_plant_per_minute": 2, "tokens_per_address_per_minute": 12}
    async with fleet_over_http(database_url, home, **settings) as found:
        yield found


async def test_requests_are_limited_and_strangers_use_up_no_plants_share(limited: Fleet) -> None:
    _, package = await limited.active_plant("TOKEN")
    _, other = await limited.active_plant("TOKEN", serialNumber="SN-2")
    plant_id, sent_at = package["plantId"], now_ms()
    forged = {**signed(package, sent_at), "sig": "0" * 64}
    assert [(await renew(limited, plant_id, forged))[0] for _ in range(5)] == [REFUSED] * 5
    assert (await renew(limited, plant_id, signed(package, sent_at)))[0] == GRANTED
    # Neither does a request that is repeated.
    assert [(await renew(limited, plant_id, signed(package, sent_at)))[0] for _ in range(2)] == [REFUSED] * 2
    assert (await renew(limited, plant_id, signed(package, sent_at + 1)))[0] == GRANTED
    assert (await renew(limited, plant_id, signed(package, sent_at + 2)))[0] == (429, "TOO_MANY_REQUESTS")
    assert (await renew(limited, other["plantId"], signed(other, sent_at)))[0] == GRANTED
    assert (await renew(limited, other["plantId"], signed(other, sent_at + 1)))[0] == GRANTED
    assert (await renew(limited, str(new_id()), forged))[0] == (429, "TOO_MANY_REQUESTS")
