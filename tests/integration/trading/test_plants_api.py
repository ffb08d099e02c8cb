"""Plants at an ESM over HTTP: sync, plans, their log, meters. The ESM is the stand-in."""

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from gridfleet.api.access import shares
from gridfleet.domains.trading.esm.client import EsmClient
from gridfleet.kernel.db.jobs import defer
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.outbound.sending import Outbound
from support.builders.api_keys import key_headers
from support.builders.interleaving import until_blocked
from support.builders.telemetry_records import member
from support.clients.plants_over_http import Fleet
from support.servers.esm_stand_in import CLIENT_ID, SECRET, StandIn, hangs, hangs_up, says
from support.servers.postbox import work_off
from support.servers.running_task import watched_loop

BLOCK = {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}
PLAN = {"timeConfigs": [BLOCK]}
REPORTED = {
    "externalPlantId": "P1",
    "name": "Roof at the ESM",
    "description": "South",
    "capacityKwh": 120.5,
    "fvePeakPowerKwp": 80,
    "configEnabled": True,
    "plantWithLoad": False,
    "esiState": "PLC_READY",
    "latitude": 50.1,
    "longitude": 14.4,
    "tag": "north",
}
SHOWN = {name: value for name, value in REPORTED.items() if name not in ("externalPlantId", "name")}


@pytest_asyncio.fixture(autouse=True)
async def configured(fleet: Fleet, stand_in: StandIn) -> None:
    settings = {"esmApiUrl": stand_in.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
    assert (await fleet.call("POST", "/trading/config", settings))[0] == 200


async def linked(fleet: Fleet, external_id: str = "P1", headers: dict[str, str] | None = None) -> str:
    """Id of a plant that is linked to one of the ESM."""
    body = {"name": external_id, "serialNumber": external_id, "type": "GATEWAY"}
    plant = (await fleet.call("POST", "/plants", body, headers))[1]["id"]
    assert (await fleet.call("PATCH", f"/plants/{plant}", {"externalPlantId": external_id}, headers))[0] == 200
    return str(plant)


async def sync(fleet: Fleet) -> tuple[int, int, str | None]:
    status, answer = await fleet.call("POST", "/trading/plants/sync")
    assert status == 200, answer
    config = (await fleet.call("GET", "/trading/config"))[1]
    assert config["lastSyncAt"] is not None
    return answer["synced"], answer["errors"], config["lastSyncError"]


def configured_at_esm(stand_in: StandIn, *names: str) -> None:
    for name in names:
        stand_in.configs[name] = {"configEnabled": True, "esiState": "PLC_READY", "version": 1, "timeConfigs": []}


async def test_a_sync_brings_linked_plants_up_to_date(fleet: Fleet, stand_in: StandIn) -> None:
    plant, other = await linked(fleet), (await fleet.plant(serialNumber="unlinked"))["id"]
    stand_in.plants = [REPORTED, {**REPORTED, "externalPlantId": "unlinked"}]
    assert await sync(fleet) == (1, 0, None)
    detail = (await fleet.call("GET", f"/plants/{plant}"))[1]
    assert {name: detail[name] for name in SHOWN} == SHOWN
    unlinked = (await fleet.call("GET", f"/plants/{other}"))[1]
    assert {unlinked[name] for name in SHOWN} == {None}
    assert await sync(fleet) == (1, 0, None)
    assert (await fleet.call("GET", f"/plants/{plant}"))[1]["updatedAt"] == detail["updatedAt"], "nothing was new"
    stand_in.plants = [{"externalPlantId": "P1", "esiState": "PLC_OFFLINE"}]
    assert await sync(fleet) == (1, 0, None)
    detail = (await fleet.call("GET", f"/plants/{plant}"))[1]
    assert (detail["esiState"], detail["tag"], detail["capacityKwh"]) == ("PLC_OFFLINE", None, None)


async def test_a_sync_writes_within_the_share_of_its_organisation(
    fleet: Fleet, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty simultaneous syncs of a thousand plants occupied every connection for six seconds."""
    monkeypatch.setattr(shares, "WAIT_SECONDS", 0.1)
    state, answered = fleet.service.state, threading.Event()
    await linked(fleet)
    stand_in.faults.append(lambda one: one.say(200, json.dumps({"plants": [REPORTED]}).encode()) if answered.wait(30) else None)
    syncing = asyncio.create_task(fleet.call("POST", "/trading/plants/sync"))
    while not stand_in.calls("GET", "/plants"):
        await asyncio.sleep(0.01)
    async with AsyncExitStack() as requests:
        for _ in range(state.settings.database_pool_size // 2):
            await requests.enter_async_context(state.shares.transaction(member(UUID(fleet.admin["x-org-id"]))))
        answered.set()
        status, refused = await syncing
    assert (status, refused["code"]) == (429, "TOO_MANY_REQUESTS")
    stand_in.plants = [REPORTED]
    assert await sync(fleet) == (1, 0, None)


async def test_what_the_esm_reported_is_deleted_with_the_link(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    stand_in.plants = [REPORTED]
    await sync(fleet)
    path = f"/plants/{plant}"
    await fleet.call("PATCH", path, {"externalPlantId": "P1", "name": "Other"})
    assert (await fleet.call("GET", path))[1]["tag"] == "north"
    for external_id in ("P2", None):
        await fleet.call("PATCH", path, {"externalPlantId": external_id})
        detail = (await fleet.call("GET", path))[1]
        assert {detail[name] for name in SHOWN} == {None}
    assert await sync(fleet) == (0, 0, None)


async def test_what_is_wrong_is_counted_and_spoils_nothing_else(fleet: Fleet, stand_in: StandIn) -> None:
    plants = {name: await linked(fleet, name) for name in ("good", "bad", "twice", "missing", "far", "nul")}
    stand_in.plants = [
        {**REPORTED, "externalPlantId": "good"},
        {**REPORTED, "externalPlantId": "bad", "capacityKwh": "much"},
        {**REPORTED, "externalPlantId": "twice"},
        {**REPORTED, "externalPlantId": "twice"},
        {**REPORTED, "externalPlantId": "far", "latitude": 91},
        {**REPORTED, "externalPlantId": "nul", "description": "a\0b"},
        {**REPORTED, "externalPlantId": "not linked", "capacityKwh": "much"},
        {"name": "nameless"},
        "no plant",
    ]
    synced, errors, complaint = await sync(fleet)
    assert (synced, errors) == (1, 7)
    assert complaint is not None
    assert "bad: Expected `float" in complaint
    assert complaint.endswith("; and 2 more")
    for name, plant in plants.items():
        detail = (await fleet.call("GET", f"/plants/{plant}"))[1]
        assert (detail["tag"] is not None) == (name == "good"), name


async def test_an_esm_that_fails_is_no_failure_of_the_call(fleet: Fleet, stand_in: StandIn) -> None:
    assert await sync(fleet) == (0, 0, None)
    stand_in.is_closed_to_us = True
    stand_in.forget_tokens()
    assert await sync(fleet) == (0, 1, "The ESM refused the credentials (401).")
    stand_in.is_closed_to_us = False
    for name in ("P1", "P2", "P3"):
        await linked(fleet, name)
    stand_in.faults.extend([says(500, b"{}")] * 3)
    assert await sync(fleet) == (0, 3, "The ESM responded with 500.")
    stand_in.faults.append(says(200, b'{"plants": {}}'))
    assert (await sync(fleet))[:2] == (0, 3)
    stand_in.plants = [{**REPORTED, "externalPlantId": name} for name in ("P1", "P2", "P3")]
    assert await sync(fleet) == (3, 0, None)


async def link_many(fleet: Fleet, count: int) -> None:
    """Link plants to those of the ESM that are called E0, E1 and so on."""
    await fleet.sql(
        "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, external_plant_id)"
        " SELECT gen_random_uuid(), %s, n, n, 'GATEWAY', 'MTLS', n FROM unnest(%s::text[]) AS n",
        fleet.admin["x-org-id"],
        [f"E{number}" for number in range(count)],
    )


async def test_other_requests_continue_while_many_plants_are_synced(fleet: Fleet, stand_in: StandIn) -> None:
    """The time grew with the square of the plants: 20,000 took eight seconds, in which nothing else was answered."""
    await link_many(fleet, 6_000)
    stand_in.plants = [{**REPORTED, "externalPlantId": f"F{number}", "latitude": "north"} for number in range(5_000)]
    stand_in.plants += [{"externalPlantId": f"E{number}", "latitude": "north"} for number in range(6_000)]
    async with watched_loop() as loop:
        assert (await sync(fleet))[:2] == (0, 6_000)
    assert loop.longest < 0.3 * loop.total


async def test_many_plants(fleet: Fleet, stand_in: StandIn) -> None:
    await link_many(fleet, 300)
    stand_in.plants = [{**REPORTED, "externalPlantId": f"E{number}"} for number in range(100, 5_000)]
    assert (await sync(fleet))[:2] == (200, 100)
    [(count,)] = await fleet.sql("SELECT count(*) FROM plant WHERE tag = 'north'")
    assert count == 200


async def test_another_organizations_plant_of_the_same_name_is_left_alone(fleet: Fleet, stand_in: StandIn) -> None:
    await linked(fleet)
    theirs = await linked(fleet, headers=fleet.stranger)
    stand_in.plants = [REPORTED]
    assert await sync(fleet) == (1, 0, None)
    assert (await fleet.call("GET", f"/plants/{theirs}", headers=fleet.stranger))[1]["tag"] is None
    status, answer = await fleet.call("POST", "/trading/plants/sync", headers=fleet.stranger)
    assert (status, answer["code"]) == (400, "ESM_NOT_CONFIGURED")


async def test_enabled_organizations_are_synced_by_themselves(fleet: Fleet, stand_in: StandIn) -> None:
    plant, state = await linked(fleet), fleet.service.state
    stand_in.plants = [REPORTED]

    async def turn() -> None:
        async with state.database.transaction() as db:
            await defer(db, "trading.sync_plants", {"timestamp": 0})
        await work_off(state)

    await turn()
    assert stand_in.seen == []
    await fleet.call("POST", "/trading/config/enable")
    await turn()
    assert (await fleet.call("GET", f"/plants/{plant}"))[1]["tag"] == "north"
    # A secret that no key opens is one organisation's trouble, and no other's.
    settings = {"esmApiUrl": stand_in.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
    await fleet.call("POST", "/trading/config", settings, fleet.stranger)
    await fleet.call("POST", "/trading/config/enable", headers=fleet.stranger)
    await fleet.sql("UPDATE trading_config SET key_version = 99 WHERE organization_id = %s", fleet.admin["x-org-id"])
    theirs = await linked(fleet, headers=fleet.stranger)
    await turn()
    assert (await fleet.call("GET", f"/plants/{theirs}", headers=fleet.stranger))[1]["tag"] == "north"


async def test_enabling_again_queues_no_work(fleet: Fleet) -> None:
    """Each call queued two effects for each key, without any limit."""
    await key_headers(fleet.service.state.database, UUID(fleet.admin["x-org-id"]), ["vcp:connect"])
    await fleet.sql(
        "UPDATE partner_key k SET vhost = 'partner-' || k.id, amqp_slug = o.slug"
        " FROM organization o WHERE o.id = k.organization_id"
    )
    for action in ("enable", "disable"):
        await fleet.call("POST", f"/trading/config/{action}")
        before = await fleet.sql("SELECT count(*) FROM outbox")
        status, _ = await fleet.call("POST", f"/trading/config/{action}")
        assert status == 200
        assert await fleet.sql("SELECT count(*) FROM outbox") == before
    await fleet.sql("DELETE FROM outbox")
    queued = []
    for number in range(10):
        if number == 9:  # the other one may be running, and have read the former prefix
            await fleet.sql("DELETE FROM outbox WHERE id = (SELECT min(id) FROM outbox)")
        status, _ = await fleet.call("POST", "/trading/config", {"queuePrefix": f"our-{number}"})
        assert status == 200
        queued += await fleet.sql("SELECT count(*) FROM outbox")
    assert queued == [(2,)] * 9 + [(3,)], "one update removes the queues with any former prefix"
    status, answer = await fleet.call("POST", "/trading/config", {"queuePrefix": "another"})
    assert (status, answer["code"]) == (429, "TOO_MANY_REQUESTS"), "each change wakes all gateways"


async def test_one_organizations_failure_ends_no_others_sync(fleet: Fleet, stand_in: StandIn) -> None:
    await linked(fleet)
    theirs, state = await linked(fleet, headers=fleet.stranger), fleet.service.state
    stand_in.plants = [REPORTED]
    settings = {"esmApiUrl": stand_in.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
    await fleet.call("POST", "/trading/config", settings, fleet.stranger)
    for headers in (fleet.admin, fleet.stranger):
        await fleet.call("POST", "/trading/config/enable", headers=headers)
    await fleet.sql(
        "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF NEW.organization_id = '{fleet.admin['x-org-id']}' THEN RAISE EXCEPTION 'broken'; END IF;"
        " PERFORM pg_sleep(0.3); RETURN NEW; END $$"
    )
    await fleet.sql("CREATE TRIGGER broken BEFORE UPDATE ON plant FOR EACH ROW EXECUTE FUNCTION broken()")
    async with state.database.transaction() as db:
        await defer(db, "trading.sync_plants", {"timestamp": 0})
    await work_off(state)
    assert (await fleet.call("GET", f"/plants/{theirs}", headers=fleet.stranger))[1]["tag"] == "north"


async def test_a_plan_is_sent_and_recorded(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path = f"/trading/plants/{plant}/config"
    status, config = await fleet.call("GET", path, headers=fleet.viewer)
    assert (status, config) == (
        200,
        {"plantId": plant, "configEnabled": True, "esiState": "PLC_READY", "version": 1, "timeConfigs": []},
    )
    status, checked = await fleet.call("POST", f"{path}/validate", PLAN, fleet.operator)
    assert (status, checked["validateOnly"], checked["resultCode"]) == (201, True, "OK")
    status, also = await fleet.call("POST", path, {**PLAN, "validateOnly": True}, fleet.operator)
    assert (status, also["validateOnly"]) == (201, True)
    assert stand_in.configs["P1"]["version"] == 1
    status, sent = await fleet.call("POST", path, PLAN, fleet.operator)
    assert status == 201
    assert sent == {
        "id": sent["id"],
        "plantId": plant,
        "requestCode": sent["requestCode"],
        "resultCode": "OK",
        "message": "taken",
        "isError": False,
        "isTerminal": True,
        "validateOnly": False,
        "configSnapshot": {"timeConfigs": [BLOCK], "version": 2},
        "requestedBy": sent["requestedBy"],
        "sentAt": sent["sentAt"],
        "respondedAt": sent["respondedAt"],
        "createdAt": sent["createdAt"],
    }
    assert isinstance(sent["id"], int)
    assert stand_in.calls("PUT", "/plants/P1/config")[0].json["requestCode"] == sent["requestCode"]
    assert (await fleet.call("GET", path))[1]["timeConfigs"] == [BLOCK]
    status, log = await fleet.call("GET", f"{path}-log?limit=2", headers=fleet.viewer)
    assert (log["data"], log["meta"]["total"]) == ([sent, also], 3)


async def test_refusals_time_outs_and_silence_are_recorded_too(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path = f"/trading/plants/{plant}/config"
    stand_in.answers["P1"] = {"resultCode": "PLANT_NOT_READY", "isError": True, "isTerminal": False, "message": "PLC_OFFLINE"}
    await fleet.call("POST", path, PLAN)
    stand_in.faults.append(says(400, b'{"message": "too steep"}'))
    await fleet.call("POST", path, PLAN)
    stand_in.faults.append(hangs_up)
    await fleet.call("POST", path, PLAN)
    state = fleet.service.state
    object.__setattr__(state, "esm", EsmClient(Outbound(allow_private=True, seconds=0.2), "http://sandbox"))
    stand_in.faults.append(hangs)
    status, last = await fleet.call("POST", path, PLAN)
    assert status == 201
    log = (await fleet.call("GET", f"{path}-log"))[1]["data"]
    assert log[0] == last
    assert [(one["resultCode"], one["isError"], one["isTerminal"], one["message"]) for one in log] == [
        ("TIMEOUT", True, False, "The ESM did not respond in time."),
        ("ESM_UNAVAILABLE", True, False, "The ESM cannot be reached."),
        ("VALIDATION_FAILED", True, True, "The ESM responded with 400: too steep."),
        ("PLANT_NOT_READY", True, False, "PLC_OFFLINE"),
    ]
    assert all(one["respondedAt"] is not None for one in log)


async def test_a_version_beyond_64_bits_is_no_valid_response(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    stand_in.answers["P1"] = {"version": 2**70}
    status, change = await fleet.call("POST", f"/trading/plants/{plant}/config", PLAN)
    assert (status, change["resultCode"], change["isError"]) == (201, "ESM_UNAVAILABLE", True)


async def test_a_plan_with_huge_limits_sent_twice_with_one_key_is_one_plan(fleet: Fleet, stand_in: StandIn) -> None:
    """The database returns the limit as a whole number that no float equals."""
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    plan = {"timeConfigs": [{**BLOCK, "pBatMax": 1e23}]}
    path, keyed = f"/trading/plants/{plant}/config", {**fleet.operator, "idempotency-key": "k1"}
    first = await fleet.call("POST", path, plan, keyed)
    assert first[0] == 201
    assert await fleet.call("POST", path, plan, keyed) == first
    other = {"timeConfigs": [{**BLOCK, "pBatMax": 1.1e23}]}
    assert (await fleet.call("POST", path, other, keyed))[0] == 400


async def test_a_plan_sent_twice_with_one_key_is_one_plan(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path, keyed = f"/trading/plants/{plant}/config", {**fleet.operator, "idempotency-key": "k1"}
    first = await fleet.call("POST", path, PLAN, keyed)
    assert await fleet.call("POST", path, PLAN, keyed) == first
    assert len(stand_in.calls("PUT", "/plants/P1/config")) == 1
    status, answer = await fleet.call("POST", path, {"timeConfigs": []}, keyed)
    assert (status, answer["details"]) == (400, ["Idempotency-Key: must not be used again with another body"])
    status, answer = await fleet.call("POST", path, PLAN, {**fleet.operator, "idempotency-key": "a b"})
    assert (status, answer["code"]) == (400, "BAD_REQUEST")
    assert (await fleet.call("POST", f"{path}/validate", PLAN, keyed))[1]["id"] != first[1]["id"], "another place"
    assert (await fleet.call("POST", path, PLAN, {**fleet.admin, "idempotency-key": "k1"}))[1]["id"] != first[1]["id"]
    # A request that got no answer is sent again with the same code.
    await fleet.sql("UPDATE trading_config_change SET responded_at = NULL, result_code = NULL WHERE id = %s", first[1]["id"])
    again = (await fleet.call("POST", path, PLAN, keyed))[1]
    assert (again["id"], again["resultCode"]) == (first[1]["id"], "OK")
    assert {one.json["requestCode"] for one in stand_in.calls("PUT", "/plants/P1/config")} >= {first[1]["requestCode"]}


async def test_a_key_of_more_than_a_day_ago_is_a_new_plan(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path, keyed = f"/trading/plants/{plant}/config", {**fleet.operator, "idempotency-key": "evening"}
    sent = []
    for _ in range(3):
        sent.append((await fleet.call("POST", path, PLAN, keyed))[1])
        assert await fleet.call("POST", path, PLAN, keyed) == (201, sent[-1])
        await fleet.sql("UPDATE trading_config_change SET sent_at = sent_at - interval '25 hours'")
    codes = [one.json["requestCode"] for one in stand_in.calls("PUT", "/plants/P1/config")]
    assert codes == [one["requestCode"] for one in sent]
    assert len(set(codes)) == 3
    assert (await fleet.call("POST", path, {"timeConfigs": []}, keyed))[0] == 201


async def test_a_late_silence_does_not_undo_what_the_esm_said(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path, keyed = f"/trading/plants/{plant}/config", {**fleet.operator, "idempotency-key": "k2"}
    stand_in.faults.append(hangs)
    first = asyncio.create_task(fleet.call("POST", path, PLAN, keyed))
    async with asyncio.timeout(10):
        while not stand_in.calls("PUT", "/plants/P1/config"):
            await asyncio.sleep(0.01)
    second = (await fleet.call("POST", path, PLAN, keyed))[1]  # the caller gave up before the service did
    assert (second["resultCode"], second["isError"]) == ("OK", False)
    stand_in.released.set()  # which ends the first without an answer
    assert (await first)[1] == second
    assert (await fleet.call("GET", f"{path}-log"))[1]["data"] == [second]


async def test_plans_that_break_rules_are_not_sent(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    path = f"/trading/plants/{plant}/config"
    for place in (path, f"{path}/validate"):
        status, answer = await fleet.call("POST", place, {"timeConfigs": [BLOCK, BLOCK]})
        assert (status, answer["code"]) == (400, "BAD_REQUEST")
        assert answer["details"] == ["timeConfigs.1: overlaps timeConfigs.0"]
    assert (await fleet.call("POST", path, {}))[1]["details"] == ["timeConfigs: is required"]
    assert stand_in.seen == []
    assert (await fleet.call("GET", f"{path}-log"))[1]["data"] == []


ROWS = [("GET", "config"), ("POST", "config"), ("POST", "config/validate"), ("GET", "config-log"), ("GET", "meters")]


async def test_plants_that_are_not_there(fleet: Fleet) -> None:
    for method, row in ROWS:
        body = PLAN if method == "POST" else None
        for plant, code, status in [("x", "BAD_REQUEST", 400), (str(new_id()), "PLANT_NOT_FOUND", 404)]:
            found, answer = await fleet.call(method, f"/trading/plants/{plant}/{row}", body)
            assert (found, answer["code"]) == (status, code), row


async def test_plants_that_are_not_linked(fleet: Fleet, stand_in: StandIn) -> None:
    ours, theirs = (await fleet.plant())["id"], await linked(fleet, headers=fleet.stranger)
    for method, row in ROWS[:3]:
        body = PLAN if method == "POST" else None
        status, answer = await fleet.call(method, f"/trading/plants/{ours}/{row}", body)
        assert (status, answer["code"]) == (400, "BAD_REQUEST")
        status, answer = await fleet.call(method, f"/trading/plants/{theirs}/{row}", body, fleet.stranger)
        assert (status, answer["code"]) == (400, "BAD_REQUEST"), "no ESM is configured there"
    assert stand_in.seen == []


async def test_what_is_read_from_an_esm_that_fails(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    for row in ("config", "meters"):
        status, answer = await fleet.call("GET", f"/trading/plants/{plant}/{row}")
        assert (status, answer["code"], answer["message"]) == (400, "BAD_REQUEST", "The ESM does not know this plant.")
        stand_in.faults.append(says(200, b"{}"))
        status, answer = await fleet.call("GET", f"/trading/plants/{plant}/{row}")
        assert (status, answer["code"]) == (500, "INTERNAL_SERVER_ERROR")


async def test_meters_by_the_esm(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    start = datetime(2026, 11, 20, 10, tzinfo=UTC)
    stand_in.readings["P1"] = [
        {"time": (start + timedelta(minutes=5 * number)).isoformat(), "meter_id": "M", "interval": 5, "energy": number}
        for number in range(13)
    ]
    path = f"/trading/plants/{plant}/meters?from=2026-11-20T10:00:00Z&to=2026-11-20T11:00:00Z"
    status, rows = await fleet.call("GET", path, headers=fleet.viewer)
    assert (status, len(rows)) == (200, 12)
    assert rows[1] == {
        "time": "2026-11-20T10:05:00.000Z", "plant_id": plant, "meter_id": "M", "interval": 5, "energy": 1
    }  # fmt: skip
    _, rows = await fleet.call("GET", f"{path}&bucketMinutes=30")
    assert [(row["time"][11:16], row["interval"], row["energy"]) for row in rows] == [("10:00", 30, 15), ("10:30", 30, 51)]


BAD_QUERIES = [
    "from=yesterday",
    "bucketMinutes=0.5",
    "bucketMinutes=61",
    "bucketMinutes=x",
    "bucket=5",
    "to=2026-11-20T10:00:00",
    "from=2026-11-20T10:00:00Z&to=2026-11-20T10:00:00Z",
    "from=2026-11-21T10:00:00Z&to=2026-11-20T10:00:00Z",
    "from=2026-09-20T10:00:00Z&to=2026-11-20T10:00:00Z",
    "from=0001-01-01T00:00:00%2B10:00",
]


async def test_ranges_that_are_none(fleet: Fleet) -> None:
    for query in BAD_QUERIES:
        status, answer = await fleet.call("GET", f"/trading/plants/{new_id()}/meters?{query}")
        assert (status, answer["code"], len(answer["details"])) == (400, "BAD_REQUEST", 1), query


async def test_a_plant_that_moves_takes_its_plans_along(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    sent = (await fleet.call("POST", f"/trading/plants/{plant}/config", PLAN))[1]
    move = {"organizationId": fleet.stranger["x-org-id"]}
    assert (await fleet.call("PATCH", f"/plants/{plant}", move, fleet.super_admin))[0] == 200
    log: dict[str, Any] = (await fleet.call("GET", f"/trading/plants/{plant}/config-log", headers=fleet.stranger))[1]
    assert log["data"] == [sent]
    assert (await fleet.call("GET", f"/trading/plants/{plant}/config-log"))[0] == 404
    owners = await fleet.sql("SELECT organization_id::text FROM trading_config_change")
    assert owners == [(fleet.admin["x-org-id"],)], "the move changes no plan, however many there are"


async def test_a_deleted_plant_leaves_no_plans(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    await fleet.sql(
        "INSERT INTO trading_config_change (organization_id, plant_id, request_code, validate_only, config_snapshot,"
        " requested_by, sent_at, responded_at) SELECT %s, %s, gen_random_uuid(), false, '{}', gen_random_uuid(), now(),"
        " CASE WHEN number > 1 THEN now() END FROM generate_series(1, 2_500) AS number",
        fleet.admin["x-org-id"],
        plant,
    )
    assert (await fleet.call("DELETE", f"/plants/{plant}"))[0] == 200
    assert await fleet.sql("SELECT count(*) FROM trading_config_change") == [(0,)]


async def test_a_plan_on_its_way_while_its_plant_moves_gets_its_answer(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    stand_in.faults.append(hangs)
    sending = asyncio.create_task(fleet.call("POST", f"/trading/plants/{plant}/config", PLAN))
    async with asyncio.timeout(10):
        while not stand_in.calls("PUT", "/plants/P1/config"):
            await asyncio.sleep(0.01)
    move = {"organizationId": fleet.stranger["x-org-id"]}
    assert (await fleet.call("PATCH", f"/plants/{plant}", move, fleet.super_admin))[0] == 200
    stand_in.released.set()
    status, sent = await sending
    assert (status, sent["resultCode"]) == (201, "ESM_UNAVAILABLE"), sent
    log = (await fleet.call("GET", f"/trading/plants/{plant}/config-log", headers=fleet.stranger))[1]["data"]
    assert log == [sent]


async def test_a_plan_for_a_plant_that_is_deleted_at_this_moment_finds_no_plant(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    database = fleet.service.state.database
    async with database.transaction() as db:
        await db.execute("DELETE FROM plant WHERE id = %s", (plant,))
        sending = asyncio.create_task(fleet.call("POST", f"/trading/plants/{plant}/config", PLAN))
        await until_blocked(database)
    status, answer = await sending
    assert (status, answer["code"]) == (404, "PLANT_NOT_FOUND"), answer
    assert not stand_in.calls("PUT", "/plants/P1/config")


async def test_a_slow_esm_holds_no_connections_of_the_pool(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await linked(fleet)
    configured_at_esm(stand_in, "P1")
    await fleet.call("GET", f"/trading/plants/{plant}/config")
    stand_in.faults.extend([hangs] * 12)
    slow = [asyncio.create_task(fleet.call("GET", f"/trading/plants/{plant}/config")) for _ in range(12)]
    while stand_in.faults:
        await asyncio.sleep(0.01)
    assert (await fleet.call("GET", f"/plants/{plant}"))[0] == 200
    stand_in.released.set()
    await asyncio.gather(*slow)
