"""Energy over time through the API: who sees what, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from gridfleet.kernel.clock import utc_now
from support.builders.telemetry_records import RecordedPlant, work
from support.clients.plants_over_http import Fleet

MIDNIGHT = utc_now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
MINUTE = timedelta(minutes=1)


def span(bucket: str = "1 day", **more: str) -> dict[str, str]:
    return {"from": text(MIDNIGHT), "to": text(MIDNIGHT + timedelta(days=1)), "bucket": bucket, **more}


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


async def energy(fleet: Fleet, path: str, query: dict[str, str], headers: dict[str, str] | None = None) -> tuple[int, Any]:
    answer = await fleet.service.client.get(f"/api/v1{path}", params=query, headers=headers or fleet.viewer)
    return answer.status_code, answer.json()


async def producing(fleet: Fleet, energy: float, headers: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """Return a plant that produced some energy before one o'clock of the day."""
    status, plant = await fleet.call(
        "POST", "/plants", {"name": "P", "serialNumber": str(uuid4()), "type": "GATEWAY", **changes}, headers
    )
    assert status == 201, plant
    recorded = RecordedPlant(fleet.service.state.database, UUID(plant["organizationId"]), UUID(plant["id"]))
    await recorded.add_device("PV1")
    counter = [Metric("energy_produced", "kWh", counter=True)]
    await recorded.write("PV1", counter, {MIDNIGHT + MINUTE: [1.0], MIDNIGHT + 50 * MINUTE: [1.0 + energy]})
    return dict(plant)


async def test_everyone_sees_the_energy_of_their_plants_only(fleet: Fleet) -> None:
    ours = [await producing(fleet, 2.0, timeZone="Asia/Kathmandu"), await producing(fleet, 3.0)]
    theirs = await producing(fleet, 50.0, fleet.stranger)
    await work(fleet.service.state.database)
    status, key = await fleet.call(
        "POST",
        "/partner/api-keys",
        {"name": "K", "partnerId": "p", "scopes": ["telemetry:read"], "allowedPlantIds": [ours[1]["id"]]},
    )
    assert status == 201, key
    limited = {"x-api-key": key["key"]}

    for headers, expected in ((fleet.viewer, 5.0), (fleet.stranger, 50.0), (limited, 3.0)):
        status, found = await energy(fleet, "/fleet/energy", span(), headers)
        assert (status, found["total"]["produced"]) == (200, expected), found
        assert [bucket["produced"] for bucket in found["buckets"]] == [expected]
        assert (found["timeZone"], found["bucket"]) == ("UTC", "1 day")
    for headers, plant in ((fleet.viewer, theirs), (fleet.stranger, ours[0]), (limited, ours[0])):
        status, error = await energy(fleet, f"/plants/{plant['id']}/energy", span(), headers)
        assert (status, error["code"]) == (404, "PLANT_NOT_FOUND")
    assert (await energy(fleet, f"/plants/{ours[1]['id']}/energy", span(), limited))[1]["total"]["produced"] == 3
    status, found = await energy(fleet, f"/plants/{ours[0]['id']}/energy", span())
    assert (found["timeZone"], found["total"]["produced"]) == ("Asia/Kathmandu", 2)
    assert [(bucket["start"], bucket["produced"]) for bucket in found["buckets"]] == [
        (MIDNIGHT.strftime("%Y-%m-%dT00:00:00.000Z"), 2),
        (MIDNIGHT.strftime("%Y-%m-%dT18:15:00.000Z"), None),
    ]
    _, hours = await energy(fleet, f"/plants/{ours[0]['id']}/energy", span("1 hour", timeZone="UTC"))
    assert [bucket["produced"] for bucket in hours["buckets"]] == [2] + [None] * 23
    assert hours["total"] == found["total"]


async def test_a_changed_time_zone_holds_at_once(fleet: Fleet) -> None:
    """For some seconds, the cached response of the former time zone was returned."""
    plant = await fleet.plant()
    assert (await energy(fleet, "/fleet/energy", span()))[1]["timeZone"] == "UTC"
    status, _ = await fleet.call(
        "PATCH",
        f"/organizations/{plant['organizationId']}",
        {"timeZone": "Asia/Kathmandu"},
        await fleet.service.super_admin(),
    )
    assert status == 200
    assert (await energy(fleet, "/fleet/energy", span()))[1]["timeZone"] == "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("query", "complaints"),
    [
        ({"to": None}, ["to: is required"]),
        ({"to": text(MIDNIGHT)}, ["from: must be before to"]),
        (
            {"bucket": "1 week", "timeZone": "Mars/Base", "colour": "red"},
            [
                "bucket: must be one of 15 minutes, 1 hour, 1 day, 1 month",
                "timeZone: must be the name of an IANA time zone, such as Europe/Prague",
                "colour: is not a known field",
            ],
        ),
        ({"bucket": "15 minutes", "to": text(MIDNIGHT + timedelta(days=40))}, ["to: must be at most 3000 buckets after from"]),
    ],
)
async def test_wrong_ranges_are_refused(fleet: Fleet, query: dict[str, str | None], complaints: list[str]) -> None:
    plant = await fleet.plant()
    wanted = {name: value for name, value in {**span(), **query}.items() if value is not None}
    for path in ("/fleet/energy", f"/plants/{plant['id']}/energy"):
        status, error = await energy(fleet, path, wanted)
        assert (status, error["code"], error["details"]) == (400, "VALIDATION_ERROR", complaints)
