"""How many plants, groups and sub-devices there may be (docs/decisions/0428)."""

from typing import Any

import pytest

from gridfleet.domains.plants import registry as plants
from gridfleet.domains.plants.groups import registry as groups
from gridfleet.domains.plants.sub_devices import registry as sub_devices
from support.clients.plants_over_http import NEW_PLANT, Fleet


async def import_plants(fleet: Fleet, serials: list[str], query: str = "") -> tuple[int, Any]:
    answer = await fleet.service.client.post(
        f"/api/v1/plants/import{query}",
        content="name,serialNumber,type\n" + "".join(f"Barn,{serial},GATEWAY\n" for serial in serials),
        headers={**fleet.operator, "content-type": "text/csv"},
    )
    return answer.status_code, answer.json()


def device(external_id: str) -> dict[str, str]:
    return {"externalId": external_id, "name": "m", "type": "METER"}


async def test_an_organisation_has_a_bounded_number_of_plants(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plants, "MOST_PLANTS", 3, raising=False)
    complaint = ["plants: the organisation would have more than 3, the maximum"]

    await fleet.plant(serialNumber="A")
    for query in ("", "?skipInvalid=true"):
        status, refusal = await import_plants(fleet, ["B", "C", "D"], query)
        assert (status, refusal["code"], refusal["details"]) == (400, "VALIDATION_ERROR", complaint)
    assert (await import_plants(fleet, ["B", "C", "A"], "?skipInvalid=true"))[1]["created"] == 2
    status, refusal = await fleet.call("POST", "/plants", {**NEW_PLANT, "serialNumber": "D"})
    assert (status, refusal["code"], refusal["details"]) == (400, "VALIDATION_ERROR", complaint)

    assert (await fleet.call("POST", "/plants", NEW_PLANT, fleet.stranger))[0] == 201
    _, page = await fleet.call("GET", "/plants")
    assert page["meta"]["total"] == 3
    assert (await fleet.call("PATCH", f"/plants/{page['data'][0]['id']}", {"name": "Shed"}))[0] == 200
    assert (await fleet.call("DELETE", f"/plants/{page['data'][0]['id']}"))[0] == 200
    await fleet.plant(serialNumber="D")


async def test_a_plant_has_a_bounded_number_of_sub_devices(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_devices, "MOST_OF_PLANT", 2, raising=False)
    first, second = [f"/plants/{(await fleet.plant(serialNumber=serial))['id']}/sub-devices" for serial in "AB"]

    for external_id in ("M1", "M2"):
        assert (await fleet.call("POST", first, device(external_id)))[0] == 201
    status, refusal = await fleet.call("POST", first, device("M3"))
    assert (status, refusal["code"]) == (400, "VALIDATION_ERROR")
    assert refusal["details"] == ["externalId: the plant has 2 sub-devices, the maximum"]

    assert (await fleet.call("POST", second, device("M3")))[0] == 201
    assert (await fleet.call("DELETE", f"{first}/M1"))[0] == 200
    assert (await fleet.call("POST", first, device("M3")))[0] == 201


async def test_an_organisation_has_a_bounded_number_of_sub_devices(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sub_devices, "MOST_OF_ORGANIZATION", 2, raising=False)
    first, second = [f"/plants/{(await fleet.plant(serialNumber=serial))['id']}/sub-devices" for serial in "AB"]

    for plant, external_id in ((first, "M1"), (second, "M2")):
        assert (await fleet.call("POST", plant, device(external_id)))[0] == 201
    status, refusal = await fleet.call("POST", second, device("M3"))
    assert (status, refusal["code"]) == (400, "VALIDATION_ERROR")
    assert refusal["details"] == ["externalId: the organisation has 2 sub-devices, the maximum"]

    _, foreign = await fleet.call("POST", "/plants", NEW_PLANT, fleet.stranger)
    assert (await fleet.call("POST", f"/plants/{foreign['id']}/sub-devices", device("M3"), fleet.stranger))[0] == 201
    assert (await fleet.call("DELETE", f"{first}/M1"))[0] == 200
    assert (await fleet.call("POST", second, device("M3")))[0] == 201


async def test_an_organisation_has_a_bounded_number_of_groups(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MOST_GROUPS", 2, raising=False)

    made = [(await fleet.call("POST", "/plant-groups", {"name": name}))[1] for name in ("South", "North")]
    status, refusal = await fleet.call("POST", "/plant-groups", {"name": "East"})
    assert (status, refusal["code"]) == (400, "VALIDATION_ERROR")
    assert refusal["details"] == ["name: the organisation has 2 groups, the maximum"]

    assert (await fleet.call("POST", "/plant-groups", {"name": "East"}, fleet.stranger))[0] == 201
    assert (await fleet.call("DELETE", f"/plant-groups/{made[0]['id']}"))[0] == 200
    assert (await fleet.call("POST", "/plant-groups", {"name": "East"}))[0] == 201
