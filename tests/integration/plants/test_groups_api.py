"""Plant groups over HTTP."""

from typing import Any
from uuid import uuid4

import pytest

from support.clients.plants_over_http import Fleet


async def group(fleet: Fleet, **fields: Any) -> Any:
    status, found = await fleet.call("POST", "/plant-groups", {"name": "South", **fields}, fleet.operator)
    assert status == 201, found
    return found


def ids(plants: list[dict[str, Any]]) -> list[str]:
    return [plant["id"] for plant in plants]


async def test_groups_are_created_listed_read_changed_and_deleted(fleet: Fleet) -> None:
    first, second = await group(fleet), await group(fleet, name="North", description="Beyond the river")

    assert set(first) == {"id", "organizationId", "name", "description", "createdAt", "updatedAt"}
    assert (first["description"], second["description"]) == (None, "Beyond the river")
    _, page = await fleet.call("GET", "/plant-groups?limit=1", headers=fleet.viewer)
    assert (page["data"], page["meta"]["total"]) == ([second], 2)
    assert (await fleet.call("GET", f"/plant-groups/{first['id']}"))[1] == {**first, "plants": []}
    assert (await fleet.call("PATCH", f"/plant-groups/{first['id']}", {})) == (200, first)
    _, changed = await fleet.call("PATCH", f"/plant-groups/{first['id']}", {"description": "Sunny"})
    assert (changed["name"], changed["description"]) == ("South", "Sunny")
    assert (await fleet.call("DELETE", f"/plant-groups/{first['id']}"))[0] == 200
    assert (await fleet.call("GET", f"/plant-groups/{first['id']}"))[1]["code"] == "NOT_FOUND"
    assert (await fleet.call("DELETE", f"/plant-groups/{first['id']}"))[1]["code"] == "NOT_FOUND"


async def test_a_plant_may_be_in_several_groups(fleet: Fleet) -> None:
    south, north = await group(fleet), await group(fleet, name="North")
    plants = [await fleet.plant(serialNumber=f"SN-{number}") for number in range(3)]
    [a, b, c] = ids(plants)

    for wanted in ([a, b], [b, b], [a]):
        assert (await fleet.call("POST", f"/plant-groups/{south['id']}/plants", {"plantIds": wanted}))[0] == 200
    assert (await fleet.call("POST", f"/plant-groups/{north['id']}/plants", {"plantIds": [b]}))[0] == 200

    _, alone = await fleet.call("GET", f"/plant-groups/{south['id']}")
    assert ids(alone["plants"]) == [b, a]
    assert alone["plants"][0] == {"id": b, "name": "Roof", "serialNumber": "SN-1", "status": "UNKNOWN"}
    assert (await fleet.call("GET", f"/plant-groups/{south['id']}/plants"))[1] == alone["plants"]
    assert ids((await fleet.call("GET", f"/plant-groups/{south['id']}/available-plants"))[1]) == [c]
    assert (await fleet.call("GET", f"/plants/{b}"))[1]["plantGroups"] == [north, south]
    assert (await fleet.call("DELETE", f"/plant-groups/{south['id']}/plants", {"plantIds": [b, c]}))[0] == 200
    assert ids((await fleet.call("GET", f"/plant-groups/{south['id']}/plants"))[1]) == [a]
    await fleet.call("DELETE", f"/plants/{a}")
    assert (await fleet.call("GET", f"/plant-groups/{south['id']}/plants"))[1] == []
    await fleet.call("DELETE", f"/plant-groups/{north['id']}")
    assert (await fleet.call("GET", f"/plants/{b}"))[1]["plantGroups"] == []


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_a_change_of_members_is_all_or_nothing(fleet: Fleet, method: str) -> None:
    south = await group(fleet)
    inside = await fleet.plant(serialNumber="in")
    outside = await fleet.plant(serialNumber="out")
    await fleet.call("POST", f"/plant-groups/{south['id']}/plants", {"plantIds": [inside["id"]]})
    _, foreign = await fleet.call("POST", "/plants", {"name": "a", "serialNumber": "b", "type": "SENSOR"}, fleet.stranger)
    path = f"/plant-groups/{south['id']}/plants"

    for unknown in (str(uuid4()), foreign["id"]):
        status, error = await fleet.call(method, path, {"plantIds": [inside["id"], outside["id"], unknown]})
        assert (status, error["code"]) == (404, "NOT_FOUND")
        assert unknown in error["details"][0]
    for body in ({"plantIds": []}, {"plantIds": ["x"]}, {}, {"plantIds": None}):
        assert (await fleet.call(method, path, body))[1]["code"] == "BAD_REQUEST"
    assert (await fleet.call(method, "/plant-groups/5/plants", {"plantIds": [inside["id"]]}))[1]["code"] == "BAD_REQUEST"
    assert (await fleet.call(method, f"/plant-groups/{uuid4()}/plants", {"plantIds": [inside["id"]]}))[1]["code"] == "NOT_FOUND"

    assert ids((await fleet.call("GET", path))[1]) == [inside["id"]]


async def test_another_organisations_group_answers_as_an_absent_one(fleet: Fleet) -> None:
    south = await group(fleet)
    _, foreign = await fleet.call("POST", "/plants", {"name": "a", "serialNumber": "b", "type": "SENSOR"}, fleet.stranger)

    for method, path, body in (
        ("GET", "/plant-groups/{}", None),
        ("PATCH", "/plant-groups/{}", {"name": "Mine"}),
        ("PATCH", "/plant-groups/{}", {}),
        ("DELETE", "/plant-groups/{}", None),
        ("GET", "/plant-groups/{}/plants", None),
        ("GET", "/plant-groups/{}/available-plants", None),
        ("POST", "/plant-groups/{}/plants", {"plantIds": [foreign["id"]]}),
        ("DELETE", "/plant-groups/{}/plants", {"plantIds": [foreign["id"]]}),
    ):
        answer = await fleet.call(method, path.format(south["id"]), body, fleet.stranger)
        assert answer == await fleet.call(method, path.format(uuid4()), body, fleet.stranger)
        assert answer[1]["code"] == "NOT_FOUND"


async def test_what_is_no_group_is_refused(fleet: Fleet) -> None:
    south = await group(fleet)

    for body in ({}, {"name": ""}, {"name": "x" * 101}, {"name": "a", "description": "x" * 501}, {"name": "a", "plants": []}):
        assert (await fleet.call("POST", "/plant-groups", body))[1]["code"] == "VALIDATION_ERROR"
    for body in ({"name": None}, {"description": None}, {"name": " "}):
        assert (await fleet.call("PATCH", f"/plant-groups/{south['id']}", body))[1]["code"] == "BAD_REQUEST"
    assert (await fleet.call("POST", "/plant-groups", {"name": "a"}, fleet.viewer))[1]["code"] == "FORBIDDEN"


async def test_a_plant_that_moves_leaves_its_groups(fleet: Fleet) -> None:
    south = await group(fleet)
    plant = await fleet.plant()
    await fleet.call("POST", f"/plant-groups/{south['id']}/plants", {"plantIds": [plant["id"]]})

    status, _ = await fleet.call(
        "PATCH", f"/plants/{plant['id']}", {"organizationId": fleet.stranger["x-org-id"]}, fleet.super_admin
    )

    assert status == 200
    assert (await fleet.call("GET", f"/plant-groups/{south['id']}/plants"))[1] == []
    assert (await fleet.call("GET", f"/plants/{plant['id']}", headers=fleet.stranger))[1]["plantGroups"] == []
    assert await fleet.sql("SELECT 1 FROM plant_group_member") == []
