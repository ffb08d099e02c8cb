"""Places and time zones of plants: what users set, what the ESM reports, and what counts."""

from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.plants.models import EsmFacts
from gridfleet.domains.plants.registry import write_esm_facts
from support.clients.plants_over_http import Fleet

HERE = {"latitude": 50.08, "longitude": 14.42, "tag": "north", "timeZone": "Europe/Prague"}
REPORTED = {"latitude": 48.2, "longitude": 16.37, "tag": "of the ESM"}


async def shown(fleet: Fleet, plant_id: str) -> dict[str, Any]:
    _, plant = await fleet.call("GET", f"/plants/{plant_id}")
    return {name: plant[name] for name in (*HERE, "effectiveTimeZone")}


async def linked(fleet: Fleet, **changes: Any) -> str:
    """Return the id of a plant about which the ESM has reported."""
    plant = await fleet.plant(**changes)
    await fleet.call("PATCH", f"/plants/{plant['id']}", {"externalPlantId": "P1"})
    facts = EsmFacts(None, None, None, None, None, REPORTED["latitude"], REPORTED["longitude"], None, REPORTED["tag"])  # type: ignore[arg-type]
    async with fleet.service.state.database.transaction() as db:
        await write_esm_facts(db, UUID(plant["organizationId"]), UUID(plant["id"]), "P1", facts)
    return str(plant["id"])


async def test_a_plant_is_created_with_its_place(fleet: Fleet) -> None:
    plant = await fleet.plant(**HERE)

    assert await shown(fleet, plant["id"]) == {**HERE, "effectiveTimeZone": "Europe/Prague"}
    assert (plant["timeZone"], plant["effectiveTimeZone"]) == ("Europe/Prague", "Europe/Prague")
    _, page = await fleet.call("GET", "/plants")
    assert page["data"][0]["effectiveTimeZone"] == "Europe/Prague"


async def test_a_plant_without_a_time_zone_has_that_of_its_organisation(fleet: Fleet) -> None:
    plant = await fleet.plant()
    assert await shown(fleet, plant["id"]) == {**dict.fromkeys(HERE), "effectiveTimeZone": "UTC"}

    organization = f"/organizations/{plant['organizationId']}"
    status, changed = await fleet.call("PATCH", organization, {"timeZone": "Asia/Kathmandu"}, fleet.super_admin)
    assert (status, changed["timeZone"]) == (200, "Asia/Kathmandu")

    assert await shown(fleet, plant["id"]) == {**dict.fromkeys(HERE), "effectiveTimeZone": "Asia/Kathmandu"}
    _, page = await fleet.call("GET", "/plants")
    assert (page["data"][0]["timeZone"], page["data"][0]["effectiveTimeZone"]) == (None, "Asia/Kathmandu")


async def test_values_of_the_esm_count_until_a_user_sets_others(fleet: Fleet) -> None:
    plant = await linked(fleet)
    path = f"/plants/{plant}"
    defaults = {**REPORTED, "timeZone": None, "effectiveTimeZone": "UTC"}
    assert await shown(fleet, plant) == defaults

    assert (await fleet.call("PATCH", path, HERE))[0] == 200
    assert await shown(fleet, plant) == {**HERE, "effectiveTimeZone": "Europe/Prague"}
    assert (await fleet.call("PATCH", path, {"externalPlantId": None}))[0] == 200
    assert (await shown(fleet, plant))["tag"] == "north", "what a user set outlasts the link"

    again = await linked(fleet, serialNumber="SN-2", **HERE)
    assert (await shown(fleet, again))["latitude"] == HERE["latitude"], "nor does a synchronisation replace it"
    assert (await fleet.call("PATCH", f"/plants/{again}", dict.fromkeys(HERE)))[0] == 200
    assert await shown(fleet, again) == defaults


@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        (
            {"latitude": 90.1, "longitude": -180.1},
            ["latitude: must be a number >= -90 and <= 90", "longitude: must be a number >= -180 and <= 180"],
        ),
        (
            {"latitude": "50", "longitude": True},
            ["latitude: must be a number >= -90 and <= 90", "longitude: must be a number >= -180 and <= 180"],
        ),
        ({"tag": " "}, ["tag: must have 1 to 120 characters"]),
        ({"tag": "x" * 121}, ["tag: must have 1 to 120 characters"]),
        *(
            ({"timeZone": name}, ["timeZone: must be the name of an IANA time zone, such as Europe/Prague"])
            for name in ("", "CET+1", "Europe/prague", "../../etc/passwd")
        ),
        ({"timeZone": "x" * 65}, ["timeZone: must have at most 64 characters"]),
        ({"timeZone": 1}, ["timeZone: must be a string"]),
    ],
)
async def test_wrong_places_are_refused(fleet: Fleet, body: dict[str, Any], complaints: list[str]) -> None:
    plant = await fleet.plant()

    created, error = await fleet.call("POST", "/plants", {"name": "A", "serialNumber": "B", "type": "GATEWAY", **body})
    assert (created, error["code"], error["details"]) == (400, "VALIDATION_ERROR", complaints)
    changed, error = await fleet.call("PATCH", f"/plants/{plant['id']}", body)
    assert (changed, error["code"], error["details"]) == (400, "BAD_REQUEST", complaints)


async def test_a_place_has_both_coordinates_or_none(fleet: Fleet) -> None:
    plant = await fleet.plant()
    path = f"/plants/{plant['id']}"
    complaint = ["latitude: must be set together with longitude, or both be null"]

    new = {"name": "A", "serialNumber": "B", "type": "GATEWAY", "longitude": 1}
    assert (await fleet.call("POST", "/plants", new))[1]["details"] == complaint
    for body in ({"latitude": 1}, {"latitude": 1, "longitude": None}):
        status, error = await fleet.call("PATCH", path, body)
        assert (status, error["code"], error["details"]) == (400, "BAD_REQUEST", complaint)
    assert (await fleet.call("PATCH", path, {"latitude": 1, "longitude": 2}))[0] == 200
    assert (await fleet.call("PATCH", path, {"longitude": None}))[1]["details"] == complaint
    assert (await fleet.call("PATCH", path, {"longitude": 3}))[0] == 200
    found = await shown(fleet, plant["id"])
    assert (found["latitude"], found["longitude"]) == (1, 3)


async def test_places_are_imported(fleet: Fleet) -> None:
    content = (
        "name;serialNumber;type;latitude;longitude;tag;timeZone\n"
        "A;SN-1;GATEWAY;50,08;-14.42;north;Europe/Prague\n"
        "B;SN-2;GATEWAY;;;;\n"
    )
    answer = await fleet.service.client.post(
        "/api/v1/plants/import", content=content, headers={**fleet.operator, "content-type": "text/csv"}
    )
    assert answer.status_code == 201, answer.text
    first, second = (row["plantId"] for row in answer.json()["rows"])
    place = {"latitude": 50.08, "longitude": -14.42, "tag": "north", "timeZone": "Europe/Prague"}
    assert await shown(fleet, first) == {**place, "effectiveTimeZone": "Europe/Prague"}
    assert await shown(fleet, second) == {**dict.fromkeys(HERE), "effectiveTimeZone": "UTC"}


async def test_every_error_of_imported_places_is_listed(fleet: Fleet) -> None:
    content = (
        "name,serialNumber,type,latitude,longitude,timeZone\n"
        "A,SN-1,GATEWAY,1e1,14,Europe/Prague\n"
        'B,SN-2,GATEWAY,"1,000.5",181,Mars/Base\n'
        "C,SN-3,GATEWAY,1,,\n"
        "D,SN-4,GATEWAY,nan,inf,\n"
    )
    answer = await fleet.service.client.post(
        "/api/v1/plants/import", content=content, headers={**fleet.operator, "content-type": "text/csv"}
    )
    latitude, longitude = "latitude: must be a number >= -90 and <= 90", "longitude: must be a number >= -180 and <= 180"
    assert (answer.status_code, answer.json()["details"]) == (
        400,
        [
            f"row 2 {latitude}",
            f"row 3 {latitude}",
            f"row 3 {longitude}",
            "row 3 timeZone: must be the name of an IANA time zone, such as Europe/Prague",
            "row 4 latitude: must be set together with longitude, or both be null",
            f"row 5 {latitude}",
            f"row 5 {longitude}",
        ],
    )
