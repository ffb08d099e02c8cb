"""The sandbox ESM: kept by SuperAdmins, used by its clients."""

import base64
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from gridfleet.api.access import shares
from gridfleet.domains.sandbox_esm.behaviour import readings
from gridfleet.domains.sandbox_esm.models import SandboxPlant
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_user, session_of
from support.builders.telemetry_records import member
from support.clients.plants_over_http import Fleet
from support.servers.api_service import bearer

BLOCK = {"from": "00:00", "to": "24:00", "pBatMin": -5.0, "pBatMax": 5.0, "socMin": 10.0, "socMax": 90.0}
ADMIN = "/svc-esm/admin"


async def admin(fleet: Fleet, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return await fleet.call(method, f"{ADMIN}{path}", body, fleet.super_admin)


async def enabled(fleet: Fleet) -> dict[str, str]:
    """Credentials of our organisation."""
    status, made = await admin(fleet, "POST", f"/enable?orgId={fleet.admin['x-org-id']}")
    assert status == 200, made
    return dict(made)


async def added(fleet: Fleet, credentials: dict[str, str], **changes: Any) -> Any:
    """A sandbox plant of ours."""
    body = {"clientId": credentials["clientId"], "externalPlantId": "P1", "name": "Roof", **changes}
    status, plant = await admin(fleet, "POST", "/plants", body)
    assert status == 201, plant
    return plant


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"}


async def ask_for_token(fleet: Fleet, headers: Any, **form: str) -> httpx.Response:
    data = form or {"grant_type": "client_credentials"}
    return await fleet.service.client.post("/api/v1/svc-esm/oauth/token", data=data, headers=headers)


async def logged_in(fleet: Fleet, credentials: dict[str, str]) -> dict[str, str]:
    answer = await ask_for_token(fleet, basic(credentials["clientId"], credentials["clientSecret"]))
    assert answer.status_code == 200, answer.text
    return bearer(answer.json()["access_token"])


async def esm(fleet: Fleet, headers: dict[str, str], method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return await fleet.call(method, f"/svc-esm{path}", body, headers)


async def test_a_sandbox_is_enabled_rotated_and_disabled(fleet: Fleet) -> None:
    organization = fleet.admin["x-org-id"]
    assert (await admin(fleet, "GET", f"/status?orgId={organization}"))[1]["message"].count("disabled") == 1
    first = await enabled(fleet)
    assert set(first) == {"clientId", "clientSecret", "esmApiUrl"}
    assert first["esmApiUrl"] == "http://localhost:8080/api/v1/svc-esm"
    assert (await admin(fleet, "GET", f"/status?orgId={organization}"))[1]["message"].count("enabled") == 1
    old = await logged_in(fleet, first)
    assert await esm(fleet, old, "GET", "/plants") == (200, {"plants": []})

    second = await enabled(fleet)
    assert second["clientId"] == first["clientId"]
    assert second["clientSecret"] != first["clientSecret"]
    answer = await ask_for_token(fleet, basic(first["clientId"], first["clientSecret"]))
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
    assert (await esm(fleet, old, "GET", "/plants"))[0] == 401, "tokens of the old secret ended with it"
    fresh = await logged_in(fleet, second)
    assert (await esm(fleet, fresh, "GET", "/plants"))[0] == 200

    plant = await added(fleet, second)
    assert (await admin(fleet, "POST", f"/disable?orgId={organization}"))[0] == 200
    assert (await esm(fleet, fresh, "GET", "/plants"))[0] == 401
    assert (await ask_for_token(fleet, basic(second["clientId"], second["clientSecret"]))).status_code == 401
    assert (await admin(fleet, "POST", f"/disable?orgId={organization}"))[0] == 200
    again = await logged_in(fleet, await enabled(fleet))
    assert [one["externalPlantId"] for one in (await esm(fleet, again, "GET", "/plants"))[1]["plants"]] == ["P1"]
    assert (await admin(fleet, "GET", f"/plants/{plant['id']}"))[0] == 200
    stored = str(await fleet.sql("SELECT * FROM sandbox_esm_client")) + str(await fleet.sql("SELECT * FROM sandbox_esm_token"))
    assert second["clientSecret"] not in stored


async def test_a_client_holds_connections_of_its_organisation_only(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty requests for a month of readings kept every other organisation waiting for seconds."""
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.1)
    state = fleet.service.state
    client = await logged_in(fleet, await enabled(fleet))
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(UUID(fleet.admin["x-org-id"]))))
        status, refused = await esm(fleet, client, "GET", "/plants")
        assert (status, refused["code"]) == (429, "TOO_MANY_REQUESTS")
    assert (await esm(fleet, client, "GET", "/plants"))[0] == 200


async def test_the_session_user_sees_whether_there_is_a_sandbox(fleet: Fleet) -> None:
    async def flags(headers: dict[str, str]) -> Any:
        return (await fleet.call("GET", "/auth/me", headers=headers))[1]["user"]["featureFlags"]

    assert await flags(fleet.viewer) == {"svcEsmEnabled": False}
    await enabled(fleet)
    assert await flags(fleet.viewer) == {"svcEsmEnabled": True}
    assert await flags(fleet.stranger) == {"svcEsmEnabled": False}
    await admin(fleet, "POST", f"/disable?orgId={fleet.admin['x-org-id']}")
    assert await flags(fleet.viewer) == {"svcEsmEnabled": False}
    database = fleet.service.state.database
    stranger = await session_of(database, fleet.service.state.access_tokens, await add_user(database))
    assert await flags(bearer(stranger)) == {"svcEsmEnabled": False}


async def test_whose_sandbox(fleet: Fleet) -> None:
    for method, path in (("POST", "/enable"), ("POST", "/disable"), ("GET", "/status")):
        for query in ("", "?orgId=", "?orgId=5", f"?orgId={new_id()}&x=1"):
            status, answer = await admin(fleet, method, path + query)
            assert (status, answer["code"]) == (400, "INVALID_UUID"), path + query
        status, answer = await admin(fleet, method, f"{path}?orgId={new_id()}")
        assert (status, answer["code"]) == (404, "ORGANIZATION_NOT_FOUND")
        status, answer = await fleet.call(method, f"{ADMIN}{path}?orgId={fleet.admin['x-org-id']}")
        assert (status, answer["code"]) == (403, "SUPER_ADMIN_REQUIRED")


async def test_plants_are_added_changed_and_removed(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    plant = await added(fleet, credentials, capacityKwh=100, fvePeakPowerKwp=50.5, description="South", timeConfigs=[BLOCK])
    assert plant == {
        "id": plant["id"],
        "clientId": credentials["clientId"],
        "externalPlantId": "P1",
        "name": "Roof",
        "description": "South",
        "capacityKwh": 100,
        "fvePeakPowerKwp": 50.5,
        "configEnabled": True,
        "plantWithLoad": True,
        "esiState": "PLC_READY",
        "timeConfigs": [BLOCK],
        "version": 1,
        "createdAt": plant["createdAt"],
        "updatedAt": plant["updatedAt"],
    }
    path = f"/plants/{plant['id']}"
    assert await admin(fleet, "GET", path) == (200, plant)
    assert await admin(fleet, "PATCH", path, {}) == (200, plant)
    status, changed = await admin(fleet, "PATCH", path, {"name": "Hall", "description": None, "esiState": "MAINTENANCE"})
    assert (status, changed["name"], changed["description"], changed["esiState"], changed["version"]) == (
        200, "Hall", None, "MAINTENANCE", 1
    )  # fmt: skip
    assert (await admin(fleet, "PATCH", path, {"timeConfigs": []}))[1]["version"] == 2
    other = await added(fleet, credentials, externalPlantId="P2")
    assert [one["id"] for one in (await admin(fleet, "GET", "/plants"))[1]] == [other["id"], plant["id"]]
    assert (await admin(fleet, "DELETE", path))[0] == 200
    for method in ("GET", "PATCH", "DELETE"):
        status, answer = await admin(fleet, method, path, {"name": "X"} if method == "PATCH" else None)
        assert (status, answer["code"]) == (404, "NOT_FOUND")
        status, answer = await admin(fleet, method, "/plants/5", {} if method == "PATCH" else None)
        assert (status, answer["code"]) == (400, "INVALID_UUID")


async def test_plants_that_are_refused(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    plant = await added(fleet, credentials)
    good = {"clientId": credentials["clientId"], "externalPlantId": "P2", "name": "Roof"}
    refused: list[tuple[dict[str, Any], str]] = [
        ({"clientId": "unbound"}, "clientId: is not a client of the sandbox"),
        ({"externalPlantId": "P1"}, "externalPlantId: the client already has a plant with this id"),
        ({"externalPlantId": "a/b"}, "externalPlantId: must fit into a URL: no slashes, and not only dots"),
        ({"externalPlantId": ".."}, "externalPlantId: must fit into a URL: no slashes, and not only dots"),
        ({"name": ""}, "name: must have 1 to 255 characters"),
        ({"capacityKwh": -1}, "capacityKwh: must be a number >= 0 and <= 1000000000"),
        ({"fvePeakPowerKwp": 1e9 + 1}, "fvePeakPowerKwp: must be a number >= 0 and <= 1000000000"),
        ({"timeConfigs": [BLOCK, BLOCK]}, "timeConfigs.1: overlaps timeConfigs.0"),
    ]
    for changes, complaint in refused:
        status, answer = await admin(fleet, "POST", "/plants", {**good, **changes})
        assert (status, answer["code"], answer["details"]) == (400, "VALIDATION_ERROR", [complaint])
    for changes in (
        {"name": ""},
        {"name": None},
        {"externalPlantId": "x"},
        {"timeConfigs": [BLOCK, BLOCK]},
        {"esiState": "OK"},
    ):
        status, answer = await admin(fleet, "PATCH", f"/plants/{plant['id']}", changes)
        assert (status, answer["code"], len(answer["details"])) == (400, "INVALID_UUID", 1)


async def test_tokens_are_given_to_whom_they_belong(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    client_id, secret = credentials["clientId"], credentials["clientSecret"]
    answer = await ask_for_token(fleet, basic(client_id, secret))
    assert (answer.json()["token_type"], answer.json()["expires_in"]) == ("Bearer", 3600)
    assert answer.headers["cache-control"] == "no-store"
    for headers in (
        {},
        basic(client_id, secret + "x"),
        basic("nobody", secret),
        basic("a%00b", secret),
        bearer(secret),
        {"authorization": "Basic !"},
        {"authorization": f"Basic {base64.b64encode(b'no colon').decode()}"},
        {"authorization": f"Basic {base64.b64encode(bytes([255])).decode()}"},
    ):
        refused = await ask_for_token(fleet, headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHORIZED")
    for form in ({"grant_type": "password"}, {"grant": "client_credentials"}):
        refused = await ask_for_token(fleet, basic(client_id, secret), **form)
        assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    refused = await ask_for_token(fleet, {"authorization": "Basic é".encode("latin-1")})
    assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHORIZED")
    refused = await ask_for_token(fleet, basic(client_id, secret), **{f"field{number}": "" for number in range(21)})
    assert (refused.status_code, refused.json()["code"]) == (400, "BAD_REQUEST")
    token = bearer(answer.json()["access_token"])
    assert (await esm(fleet, token, "GET", "/plants"))[0] == 200
    await fleet.sql("UPDATE sandbox_esm_token SET expires_at = now()")
    for headers in (token, bearer("guess"), fleet.super_admin, {"authorization": "Basic eA=="}, {}):
        status, refusal = await esm(fleet, headers or {"x-org-id": ""}, "GET", "/plants")
        assert (status, refusal["code"]) == (401, "UNAUTHORIZED")
    await logged_in(fleet, credentials)
    assert await fleet.sql("SELECT count(*) FROM sandbox_esm_token") == [(1,)], "what is over is forgotten"


async def test_plans_take_effect(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    plant = await added(fleet, credentials, capacityKwh=100)
    us = await logged_in(fleet, credentials)
    assert (await esm(fleet, us, "GET", "/plants/P1"))[1] == {
        "externalPlantId": "P1",
        "name": "Roof",
        "description": None,
        "capacityKwh": 100,
        "fvePeakPowerKwp": 0,
        "configEnabled": True,
        "plantWithLoad": True,
        "esiState": "PLC_READY",
        "latitude": None,
        "longitude": None,
        "tag": "sandbox",
    }
    plan = {"requestCode": "r1", "timeConfigs": [BLOCK]}
    ok = {"requestCode": "r1", "resultCode": "OK", "message": "The plant takes the plan.", "isError": False, "isTerminal": True}
    assert await esm(fleet, us, "POST", "/plants/P1/config/validate", plan) == (200, {**ok, "version": 1})
    assert (await esm(fleet, us, "GET", "/plants/P1/config"))[1]["timeConfigs"] == []
    assert await esm(fleet, us, "PUT", "/plants/P1/config", plan) == (200, {**ok, "version": 2})
    assert await esm(fleet, us, "PUT", "/plants/P1/config", plan) == (200, {**ok, "version": 2}), "once is enough"
    assert (await esm(fleet, us, "GET", "/plants/P1/config"))[1] == {
        "configEnabled": True,
        "esiState": "PLC_READY",
        "version": 2,
        "timeConfigs": [BLOCK],
    }
    assert (await esm(fleet, us, "PUT", "/plants/P1/config", {**plan, "requestCode": "r2"}))[1]["version"] == 3
    for changes, code, is_terminal in [
        ({"esiState": "PLC_OFFLINE"}, "PLANT_NOT_READY", False),
        ({"esiState": "MAINTENANCE"}, "PLANT_NOT_READY", False),
        ({"esiState": "PLC_READY", "configEnabled": False}, "CONFIG_DISABLED", True),
    ]:
        await admin(fleet, "PATCH", f"/plants/{plant['id']}", changes)
        for method, path in (("PUT", "/plants/P1/config"), ("POST", "/plants/P1/config/validate")):
            answer = (await esm(fleet, us, method, path, {"requestCode": str(new_id()), "timeConfigs": []}))[1]
            assert (answer["resultCode"], answer["isError"], answer["isTerminal"]) == (code, True, is_terminal)
    assert (await esm(fleet, us, "GET", "/plants/P1/config"))[1]["version"] == 3
    status, refused = await esm(fleet, us, "PUT", "/plants/P1/config", {"requestCode": "r", "timeConfigs": [BLOCK, BLOCK]})
    assert (status, refused["code"]) == (400, "BAD_REQUEST")


async def test_clients_do_not_see_each_other(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    await added(fleet, credentials)
    other = (await admin(fleet, "POST", f"/enable?orgId={fleet.stranger['x-org-id']}"))[1]
    them = await logged_in(fleet, other)
    assert await esm(fleet, them, "GET", "/plants") == (200, {"plants": []})
    for method, path in (
        ("GET", ""), ("GET", "/config"), ("PUT", "/config"), ("POST", "/config/validate"),
        ("GET", "/meters?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z"),
    ):  # fmt: skip
        body = {"requestCode": "r", "timeConfigs": []} if method != "GET" else None
        status, answer = await esm(fleet, them, method, f"/plants/P1{path}", body)
        assert (status, answer["code"]) == (404, "NOT_FOUND")
    assert (await added(fleet, other))["externalPlantId"] == "P1", "each has its own names"


async def test_the_meter_follows_the_day(fleet: Fleet) -> None:
    credentials = await enabled(fleet)
    await added(fleet, credentials, fvePeakPowerKwp=100)
    us = await logged_in(fleet, credentials)
    day = "/plants/P1/meters?from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z"
    rows = (await esm(fleet, us, "GET", day))[1]["readings"]
    assert len(rows) == 288
    assert await esm(fleet, us, "GET", day) == (200, {"readings": rows})
    energy = {row["time"][11:16]: row["energy"] for row in rows}
    assert energy["12:00"] < -2 < 0 < energy["02:00"] < energy["19:00"]
    assert {(row["meter_id"], row["interval"]) for row in rows} == {("P1-M1", 5)}
    october = "from=2026-09-30T22:00:00Z&to=2026-10-31T23:00:00Z"
    assert len((await esm(fleet, us, "GET", f"/plants/P1/meters?{october}"))[1]["readings"]) == (31 * 24 + 1) * 12
    for bad in (
        "from=2026-11-20T00:00:00Z",
        "from=x&to=y",
        "from=2026-11-21T00:00:00Z&to=2026-11-20T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=2026-02-01T03:00:01Z",
        "from=0001-01-01T00:00:00%2B10:00&to=2026-11-20T00:00:00Z",
    ):
        status, answer = await esm(fleet, us, "GET", f"/plants/P1/meters?{bad}")
        assert (status, answer["code"]) == (400, "BAD_REQUEST")


def test_a_meter_returns_nothing_of_the_future() -> None:
    plant = pretended()
    now = datetime.now(UTC)
    rows = list(readings(plant, now - timedelta(minutes=31), now + timedelta(days=1)))
    assert 5 <= len(rows) <= 6
    assert rows[-1].time + timedelta(minutes=5) <= datetime.now(UTC)
    assert all(row.time.minute % 5 == row.time.second == row.time.microsecond == 0 for row in rows)


@pytest.mark.parametrize("with_load", [True, False])
def test_a_plant_without_load_takes_nothing(with_load: bool) -> None:
    day = datetime(2026, 11, 20, tzinfo=UTC)
    rows = list(readings(pretended(plant_with_load=with_load), day, day + timedelta(days=1)))
    assert any(row.energy > 0 for row in rows) == with_load
    assert any(row.energy < 0 for row in rows)


def pretended(**changes: Any) -> SandboxPlant:
    now = datetime.now(UTC)
    known: dict[str, Any] = {
        "id": new_id(), "client_id": "c", "external_plant_id": "P", "name": "P", "description": None, "capacity_kwh": 10,
        "fve_peak_power_kwp": 20, "config_enabled": True, "plant_with_load": True, "esi_state": "PLC_READY",
        "time_configs": [], "version": 1, "created_at": now, "updated_at": now,
    }  # fmt: skip
    return SandboxPlant(**{**known, **changes})
