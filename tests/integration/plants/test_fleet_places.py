"""The places of a fleet as GeoJSON, compared with a plain model of the plants and their alerts."""

import json
from typing import Any
from uuid import UUID

import pytest

from gridfleet.kernel.ids import new_id
from support.clients.plants_over_http import Fleet

SEVERITIES = ["INFO", "WARNING", "CRITICAL", "EMERGENCY"]


async def places(fleet: Fleet, query: str = "", headers: dict[str, str] | None = None) -> Any:
    answer = await fleet.service.client.get(f"/api/v1/fleet/places{query}", headers=headers or fleet.viewer)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/geo+json"
    return answer.json()


async def add_alerts(fleet: Fleet, plant: dict[str, Any], *alerts: tuple[str, str]) -> None:
    for severity, status in alerts:
        await fleet.sql(
            "INSERT INTO alert (id, organization_id, plant_id, severity, status, message, metric, value, measured_at)"
            " VALUES (%s, %s, %s, %s, %s, 'm', 'p', 1, now())",
            *(new_id(), UUID(plant["organizationId"]), UUID(plant["id"]), severity, status),
        )


async def test_every_plant_with_coordinates_is_on_the_map_once(fleet: Fleet) -> None:
    made = [
        await fleet.plant(
            serialNumber=f"S{number}", name=f'Süd "{number}"\\', latitude=number / 7 - 1, longitude=-number / 3, timeZone=None
        )
        for number in range(7)
    ]
    await fleet.plant(serialNumber="nowhere")
    expected = {
        plant["id"]: {
            "type": "Feature",
            "id": plant["id"],
            "geometry": {"type": "Point", "coordinates": [-number / 3, number / 7 - 1]},
            "properties": {"name": plant["name"], "status": "UNKNOWN", "lifecycleStatus": "PENDING", "worstAlert": None},
        }
        for number, plant in enumerate(made)
    }

    everything = await places(fleet)

    assert {name: everything[name] for name in ("type", "total", "withoutPlace", "nextCursor")} == {
        "type": "FeatureCollection",
        "total": 7,
        "withoutPlace": 1,
        "nextCursor": None,
    }
    assert {feature["id"]: feature for feature in everything["features"]} == expected
    for limit in (1, 3, 7, 8):
        found, query = [], f"?limit={limit}"
        while True:
            page = await places(fleet, query)
            found += page["features"]
            assert len(page["features"]) <= limit
            assert page["total"] == 7
            if page["nextCursor"] is None:
                break
            query = f"?limit={limit}&cursor={page['nextCursor']}"
        assert found == everything["features"]
    assert (await places(fleet, f"?cursor={UUID(int=2**128 - 1)}"))["features"] == []


async def test_the_worst_alert_that_is_open_counts(fleet: Fleet) -> None:
    cases: list[tuple[list[tuple[str, str]], str | None]] = [
        ([], None),
        ([("EMERGENCY", "RESOLVED")], None),
        ([("INFO", "ACTIVE"), ("EMERGENCY", "RESOLVED")], "INFO"),
        ([("WARNING", "ACTIVE"), ("INFO", "ACTIVE")], "WARNING"),
        ([("CRITICAL", "ACKNOWLEDGED"), ("WARNING", "ACTIVE")], "CRITICAL"),
        ([(severity, "ACTIVE") for severity in SEVERITIES], "EMERGENCY"),
    ]
    expected = {}
    for number, (alerts, worst) in enumerate(cases):
        plant = await fleet.plant(serialNumber=f"S{number}", latitude=1, longitude=2)
        await add_alerts(fleet, plant, *alerts)
        expected[plant["id"]] = worst

    found = await places(fleet)

    assert {feature["id"]: feature["properties"]["worstAlert"] for feature in found["features"]} == expected


async def test_what_the_esm_reports_is_a_place_too(fleet: Fleet) -> None:
    plant = await fleet.plant()
    await fleet.sql("UPDATE plant SET latitude = 48.2, longitude = 16.37 WHERE id = %s", UUID(plant["id"]))
    [feature] = (await places(fleet))["features"]
    assert feature["geometry"]["coordinates"] == [16.37, 48.2]
    await fleet.call("PATCH", f"/plants/{plant['id']}", {"latitude": 1, "longitude": 2})
    [feature] = (await places(fleet))["features"]
    assert feature["geometry"]["coordinates"] == [2, 1]


async def test_two_organisations_and_limited_keys_see_only_their_own(fleet: Fleet) -> None:
    plants = [await fleet.plant(serialNumber=f"S{number}", latitude=1, longitude=2) for number in range(3)]
    status, theirs = await fleet.call(
        "POST", "/plants", {"name": "T", "serialNumber": "T", "type": "GATEWAY", "latitude": 5, "longitude": 6}, fleet.stranger
    )
    assert status == 201
    await add_alerts(fleet, theirs, ("EMERGENCY", "ACTIVE"))
    status, key = await fleet.call(
        "POST",
        "/partner/api-keys",
        {"name": "K", "partnerId": "p", "scopes": ["plants:read"], "allowedPlantIds": [plants[1]["id"]]},
    )
    assert status == 201, key

    assert {feature["id"] for feature in (await places(fleet))["features"]} == {plant["id"] for plant in plants}
    stranger = await places(fleet, headers=fleet.stranger)
    assert [(feature["id"], feature["properties"]["worstAlert"]) for feature in stranger["features"]] == [
        (theirs["id"], "EMERGENCY")
    ]
    limited = await places(fleet, headers={"x-api-key": key["key"]})
    assert [feature["id"] for feature in limited["features"]] == [plants[1]["id"]]
    assert (limited["total"], limited["withoutPlace"]) == (1, 0)
    beyond = await places(fleet, f"?cursor={theirs['id']}")
    assert {feature["id"] for feature in beyond["features"]} <= {plant["id"] for plant in plants}


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("limit=0", ["limit"]),
        ("limit=20001", ["limit"]),
        ("limit=x&cursor=y&page=1", ["limit", "cursor", "page"]),
        (f"cursor={UUID(int=1)}&cursor={UUID(int=2)}", ["cursor"]),
    ],
)
async def test_wrong_queries_are_refused(fleet: Fleet, query: str, fields: list[str]) -> None:
    status, error = await fleet.call("GET", f"/fleet/places?{query}")
    assert (status, error["code"]) == (400, "VALIDATION_ERROR")
    assert sorted(complaint.split(":")[0] for complaint in error["details"]) == sorted(fields), json.dumps(error)
