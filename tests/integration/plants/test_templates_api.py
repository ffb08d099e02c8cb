"""Changing and deleting templates and sub-devices over HTTP."""

import asyncio
import json
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from gridfleet.api.http.json_out import to_json
from gridfleet.domains.device_templates.catalogue import list_templates, seed_system_templates
from gridfleet.kernel.ids import new_id
from support.builders.api_keys import key_headers
from support.clients.plants_over_http import Fleet
from support.servers.running_task import watched_loop

SYSTEM_INVERTER = "00000000-0000-7000-8000-000000000004"
SIGNALS = [{"key": "p", "field": "power"}]
OTHER_SIGNALS = [{"key": "q", "field": "reactive"}]


async def template(fleet: Fleet, **fields: Any) -> Any:
    body = {"name": "Meter X", "type": "METER", "signals": SIGNALS, **fields}
    status, found = await fleet.call("POST", "/device-templates", body, fleet.super_admin)
    assert status == 201, found
    return found


async def patch(fleet: Fleet, template_id: str, **fields: Any) -> tuple[int, Any]:
    return await fleet.call("PATCH", f"/device-templates/{template_id}", fields, fleet.super_admin)


async def seeded(fleet: Fleet) -> None:
    async with fleet.service.state.database.transaction() as db:
        await seed_system_templates(db)


async def test_only_other_signals_raise_the_version(fleet: Fleet) -> None:
    made = await template(fleet, actions=[{"action": "reset"}])

    assert await patch(fleet, made["id"]) == (200, made)
    assert await patch(fleet, made["id"], signals=SIGNALS) == (200, made)
    _, renamed = await patch(fleet, made["id"], name="Meter Y", actions=[{"action": "stop"}])
    assert (renamed["name"], renamed["version"], renamed["actions"]) == ("Meter Y", 1, [{"action": "stop"}])
    _, edited = await patch(fleet, made["id"], signals=OTHER_SIGNALS)
    assert (edited["version"], edited["signals"], edited["id"]) == (2, OTHER_SIGNALS, made["id"])


async def test_the_same_signals_and_actions_with_huge_limits_change_nothing(fleet: Fleet) -> None:
    """The database returns the limit as a whole number that no float equals."""
    signals = [{"key": "p", "field": "power", "max": 1e23}]
    actions = [{"action": "limit", "params": [{"name": "power", "type": "number", "max": 1e23}]}]
    made = await template(fleet, signals=signals, actions=actions)

    assert await patch(fleet, made["id"], signals=signals, actions=actions) == (200, made)
    _, edited = await patch(fleet, made["id"], signals=[{**signals[0], "max": 1.1e23}])
    assert edited["version"] == 2


async def test_a_taken_version_gives_way_to_the_next_free_one(fleet: Fleet) -> None:
    first = await template(fleet)
    for version in (2, 3, 5):
        await template(fleet, version=version)
    other = await template(fleet, name="Other")

    assert (await patch(fleet, first["id"], signals=OTHER_SIGNALS))[1]["version"] == 4
    assert (await patch(fleet, other["id"], name="Meter X"))[1]["version"] == 1
    assert (await patch(fleet, other["id"], name="Meter X", signals=OTHER_SIGNALS))[1]["version"] == 6


async def test_a_copy_of_a_system_template_does_not_prevent_its_update(fleet: Fleet) -> None:
    """System templates are read-only, so a SuperAdmin copies one under its name and the next version."""
    copy = await template(fleet, name="Gridfleet inverter", type="INVERTER", version=2)
    await fleet.sql("UPDATE device_template SET signals = '[]' WHERE id = %s", SYSTEM_INVERTER)  # of an earlier release
    await seeded(fleet)

    _, updated = await fleet.call("GET", f"/device-templates/{SYSTEM_INVERTER}")
    assert (updated["version"], bool(updated["signals"])) == (3, True)
    assert await fleet.call("GET", f"/device-templates/{copy['id']}") == (200, copy)
    await seeded(fleet)
    assert await fleet.call("GET", f"/device-templates/{SYSTEM_INVERTER}") == (200, updated)


async def test_a_template_with_the_name_of_a_new_system_template_keeps_it(fleet: Fleet) -> None:
    await fleet.sql("DELETE FROM device_template WHERE id = %s", SYSTEM_INVERTER)  # an earlier release did not have it
    own = await template(fleet, name="Gridfleet inverter", type="INVERTER")
    await seeded(fleet)

    _, made = await fleet.call("GET", f"/device-templates/{SYSTEM_INVERTER}")
    assert (made["name"], made["version"]) == ("Gridfleet inverter", 2)
    assert await fleet.call("GET", f"/device-templates/{own['id']}") == (200, own)


async def test_edits_at_once_never_meet(fleet: Fleet) -> None:
    made = [await template(fleet, name=f"T{number}") for number in range(6)]

    answers = await asyncio.gather(
        *(patch(fleet, one["id"], name="Same") for one in made),
        fleet.call(
            "POST", "/device-templates", {"name": "Same", "type": "METER", "signals": [], "version": 3}, fleet.super_admin
        ),
    )

    assert {status for status, _ in answers[:-1]} == {200}
    assert answers[-1][0] in (201, 409)
    versions = [found["version"] for status, found in answers if status < 400]
    assert len(versions) == len(set(versions))


async def test_the_last_version_has_no_next(fleet: Fleet) -> None:
    made = await template(fleet, version=2_147_483_647)

    assert (await patch(fleet, made["id"], signals=OTHER_SIGNALS))[1]["code"] == "VALIDATION_ERROR"
    assert (await patch(fleet, made["id"], name="Meter Y"))[0] == 200


async def test_every_complaint_about_an_edit_is_listed(fleet: Fleet) -> None:
    made = await template(fleet)
    signals = [{"key": "a", "bit": -1}, {"key": "b.c", "field": "f"}]

    status, error = await patch(fleet, made["id"], name="", signals=signals, actions=[{"action": 1}], version=3)

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert {line.split(":")[0] for line in error["details"]} == {
        "name",
        "signals.0.bit",
        "signals.1.key",
        "actions.0.action",
        "version",
    }
    both = [{"key": "a", "field": "f", "bit": 1}, {"key": "a", "field": "f"}]
    assert len((await patch(fleet, made["id"], signals=both))[1]["details"]) == 2
    for field in ("name", "signals", "actions"):
        assert (await patch(fleet, made["id"], **{field: None}))[1]["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_system_templates_and_strangers_are_refused(fleet: Fleet, method: str) -> None:
    body = {"name": "Mine"} if method == "PATCH" else None
    bad_id = "VALIDATION_ERROR" if method == "PATCH" else "INVALID_UUID"

    async def code(template_id: str, headers: dict[str, str]) -> str:
        return str((await fleet.call(method, f"/device-templates/{template_id}", body, headers))[1]["code"])

    assert await code(SYSTEM_INVERTER, fleet.super_admin) == "DEVICE_TEMPLATE_SYSTEM_READONLY"
    assert await code(str(uuid4()), fleet.super_admin) == "DEVICE_TEMPLATE_NOT_FOUND"
    assert await code("5", fleet.super_admin) == bad_id
    assert await code((await template(fleet))["id"], fleet.admin) == "FORBIDDEN"


async def test_a_template_in_use_stays(fleet: Fleet) -> None:
    for_device, for_plant = await template(fleet), await template(fleet, name="P", level="PLANT")
    plant = await fleet.plant()
    device = {"externalId": "M", "name": "m", "type": "METER", "templateId": for_device["id"]}
    assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", device))[0] == 201
    assert (await fleet.call("PATCH", f"/plants/{plant['id']}", {"templateId": for_plant["id"]}))[0] == 200

    for used in (for_device, for_plant):
        status, error = await fleet.call("DELETE", f"/device-templates/{used['id']}", headers=fleet.super_admin)
        assert (status, error["code"]) == (409, "DEVICE_TEMPLATE_IN_USE")
    await fleet.call("DELETE", f"/plants/{plant['id']}")
    for used in (for_device, for_plant):
        status, answer = await fleet.call("DELETE", f"/device-templates/{used['id']}", headers=fleet.super_admin)
        assert (status, list(answer)) == (200, ["message"])
        assert (await fleet.call("GET", f"/device-templates/{used['id']}"))[0] == 404


async def test_a_sub_device_is_changed_and_deleted(fleet: Fleet) -> None:
    meter = await template(fleet)
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}/sub-devices"
    _, made = await fleet.call("POST", path, {"externalId": "M", "name": "m", "type": "METER"})

    assert await fleet.call("PATCH", f"{path}/M", {}) == (200, made)
    changes = {"name": "Main", "serialNumber": "77", "templateId": meter["id"]}
    status, changed = await fleet.call("PATCH", f"{path}/M", changes, fleet.operator)
    assert status == 200
    assert changed == {**made, **changes, "updatedAt": changed["updatedAt"]}
    assert changed["updatedAt"] > made["updatedAt"]
    assert (await fleet.call("DELETE", f"{path}/M", headers=fleet.viewer))[1]["code"] == "FORBIDDEN"
    status, answer = await fleet.call("DELETE", f"{path}/M", headers=fleet.operator)
    assert (status, list(answer)) == (200, ["message"])
    for method in ("GET", "DELETE"):
        assert (await fleet.call(method, f"{path}/M"))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    assert (await fleet.call("POST", path, {"externalId": "M", "name": "again", "type": "METER"}))[0] == 201


@pytest.mark.parametrize(
    "body",
    [
        {"templateId": SYSTEM_INVERTER},
        {"templateId": "00000000-0000-7000-8000-000000000001"},
        {"templateId": str(uuid4())},
        {"templateId": None},
        {"name": None},
        {"name": ""},
        {"name": "x" * 256},
        {"serialNumber": "x" * 65},
        {"type": "BATTERY"},
        {"externalId": "N"},
    ],
)
async def test_a_sub_device_stays_as_it_is(fleet: Fleet, body: dict[str, Any]) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}/sub-devices"
    _, made = await fleet.call("POST", path, {"externalId": "M", "name": "m", "type": "METER"})

    status, error = await fleet.call("PATCH", f"{path}/M", body)

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert (await fleet.call("GET", f"{path}/M"))[1] == made


async def test_sub_devices_are_not_found_where_they_are_not(fleet: Fleet) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}/sub-devices"
    await fleet.call("POST", path, {"externalId": "M", "name": "m", "type": "METER"})

    for method, body, bad_id in (("PATCH", {"name": "n"}, "VALIDATION_ERROR"), ("DELETE", None, "INVALID_UUID")):
        for place in (f"{path}/N", f"/plants/{uuid4()}/sub-devices/M", f"{path}/%00"):
            assert (await fleet.call(method, place, body))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
        assert (await fleet.call(method, f"{path}/M", body, fleet.stranger))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
        assert (await fleet.call(method, "/plants/5/sub-devices/M", body))[1]["code"] == bad_id


async def test_roles_are_stored_read_and_edited(fleet: Fleet) -> None:
    signals = [{"key": "p", "field": "power", "unit": "W", "role": "pv_power"}, {"key": "q", "field": "reactive"}]
    made = await template(fleet, type="INVERTER", signals=signals)
    assert (made["signals"], made["version"]) == (signals, 1)
    assert (await fleet.call("GET", f"/device-templates/{made['id']}"))[1]["signals"] == signals

    assert await patch(fleet, made["id"], signals=signals) == (200, made)
    without = [{name: value for name, value in signal.items() if name != "role"} for signal in signals]
    _, edited = await patch(fleet, made["id"], signals=without)
    assert (edited["signals"], edited["version"]) == (without, 2)
    _, again = await patch(fleet, made["id"], signals=signals)
    assert (again["signals"], again["version"]) == (signals, 3)


async def test_a_bad_role_is_a_complaint(fleet: Fleet) -> None:
    signals = [
        {"key": "a", "field": "a", "role": "wind_power"},
        {"key": "b", "field": "b", "role": None},
        {"key": "c", "field": "c", "role": ["soc"]},
    ]
    status, error = await fleet.call(
        "POST", "/device-templates", {"name": "Bad", "type": "METER", "signals": signals}, fleet.super_admin
    )

    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert {line.split(":")[0] for line in error["details"]} == {"signals.0.role", "signals.1.role", "signals.2.role"}


async def test_the_previous_release_reads_templates_with_roles(fleet: Fleet) -> None:
    """Its processes refuse a signal with a member that they do not know."""
    made = await template(fleet, signals=[{"key": "p", "field": "power", "role": "grid_power"}])

    wanted = [made["id"], SYSTEM_INVERTER]
    stored = dict(await fleet.sql("SELECT id::text, signals FROM device_template WHERE id::text = ANY(%s)", wanted))

    assert stored.keys() == {made["id"], SYSTEM_INVERTER}
    assert not any("role" in signal for signals in stored.values() for signal in signals)


async def test_the_users_of_a_template_are_counted_and_listed_in_pages(fleet: Fleet) -> None:
    used = await template(fleet)
    own = await template(fleet, name="Own", level="PLANT")
    plants = [await fleet.plant(serialNumber=f"SN-{number}") for number in range(5)]
    for number, plant in enumerate(plants):
        for device in range(number):
            body = {"externalId": f"D{device}", "name": "D", "type": "METER", "templateId": used["id"]}
            assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", body))[0] == 201
    assert (await fleet.call("PATCH", f"/plants/{plants[0]['id']}", {"templateId": own["id"]}))[0] == 200
    path = f"/device-templates/{used['id']}/usage"

    _, first = await fleet.call("GET", f"{path}?limit=3", headers=fleet.viewer)
    _, second = await fleet.call("GET", f"{path}?limit=3&cursor={first['plants']['meta']['nextCursor']}", headers=fleet.viewer)
    _, itself = await fleet.call("GET", f"/device-templates/{own['id']}/usage", headers=fleet.viewer)

    assert (first["plantCount"], first["deviceCount"], first["plants"]["meta"]["total"]) == (4, 10, 4)
    users = first["plants"]["data"] + second["plants"]["data"]
    assert [(one["id"], one["usesItself"], one["deviceCount"]) for one in users] == [
        (plants[number]["id"], False, number) for number in (4, 3, 2, 1)
    ]
    assert second["plants"]["meta"]["nextCursor"] is None
    assert (itself["plantCount"], itself["deviceCount"]) == (1, 0)
    assert [(one["id"], one["usesItself"]) for one in itself["plants"]["data"]] == [(plants[0]["id"], True)]
    organization = UUID(fleet.admin["x-org-id"])
    _, limited = await key_headers(fleet.service.state.database, organization, ["plants:read"], [UUID(plants[2]["id"])])
    _, by_key = await fleet.call("GET", path, headers=limited)
    assert (by_key["plantCount"], by_key["deviceCount"]) == (1, 2)
    assert [one["id"] for one in by_key["plants"]["data"]] == [plants[2]["id"]]


async def test_no_organisation_sees_who_else_uses_a_template(fleet: Fleet) -> None:
    used = await template(fleet)
    plant = await fleet.plant()
    body = {"externalId": "D", "name": "D", "type": "METER", "templateId": used["id"]}
    assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", body))[0] == 201

    status, foreign = await fleet.call("GET", f"/device-templates/{used['id']}/usage", headers=fleet.stranger)

    assert status == 200
    assert (foreign["plantCount"], foreign["deviceCount"], foreign["plants"]["data"]) == (0, 0, [])
    assert (await fleet.call("GET", f"/device-templates/{new_id()}/usage"))[1]["code"] == "DEVICE_TEMPLATE_NOT_FOUND"
    assert (await fleet.call("GET", f"/device-templates/{used['id']}/usage?cursor=x"))[1]["code"] == "VALIDATION_ERROR"


async def test_signals_with_roles_are_the_same_in_every_response(fleet: Fleet) -> None:
    signals = [{"key": "p", "field": "power", "role": "grid_power"}, {"key": "on", "bit": 0}, {"key": "v", "field": "voltage"}]
    made = await template(fleet, level="PLANT", signals=signals, actions=[{"action": "reset"}])
    plant = await fleet.plant()
    _, changed = await fleet.call("PATCH", f"/plants/{plant['id']}", {"templateId": made["id"]})

    assert made["signals"] == signals
    assert (await fleet.call("GET", f"/device-templates/{made['id']}"))[1] == made
    assert made in (await fleet.call("GET", "/device-templates?level=PLANT"))[1]
    assert changed["template"] == made
    assert (await fleet.call("GET", f"/plants/{plant['id']}"))[1]["template"] == made
    assert (await fleet.call("GET", "/plants"))[1]["data"][0]["template"] == made
    assert (await fleet.call("GET", f"/device-templates/{uuid4()}"))[1]["code"] == "DEVICE_TEMPLATE_NOT_FOUND"


async def test_the_signals_of_many_templates_are_not_decoded(fleet: Fleet) -> None:
    signals = [{"key": f"signal_{number}", "field": f"field_{number}", "unit": "kW", "scale": 0.1} for number in range(300)]
    made = await template(fleet, signals=[{**signals[0], "role": "grid_power"}, *signals[1:]])
    await fleet.sql(
        "INSERT INTO device_template (id, name, type, level, version, signals, roles, actions)"
        " SELECT gen_random_uuid(), name || n, type, level, version, signals, roles, actions"
        " FROM device_template, generate_series(1, 100) AS n WHERE id = %s",
        made["id"],
    )
    async with fleet.service.state.database.transaction() as db, watched_loop() as loop:
        text = to_json(await list_templates(db, None))
    begun = time.thread_time()
    assert len(json.loads(text)) > 100
    assert loop.longest < 0.5 * (time.thread_time() - begun)  # other requests continue
