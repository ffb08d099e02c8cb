"""Ranges at the first and the last year of the calendar, at every endpoint that takes one: an answer or a refusal."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from gridfleet.domains.device_templates.decoder import Metric
from support.builders.telemetry_records import RecordedPlant
from support.clients.plants_over_http import Fleet
from support.servers.esm_stand_in import CLIENT_ID, SECRET, StandIn

START = datetime(2026, 11, 20, 10, tzinfo=UTC)
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
RANGES = [
    (FIRST, LAST),
    (FIRST, "0001-01-01T00:40:00Z"),
    (FIRST, "0001-01-02T00:00:00Z"),
    ("0001-01-01T00:00:00+14:00", "0001-01-01T20:00:00Z"),
    ("0001-01-01T00:00:00+14:00", "2026-11-20T11:00:00Z"),
    ("2026-11-20T10:00:00Z", LAST),
    ("2026-11-20T10:00:00Z", "9999-12-31T23:59:59-12:00"),
    ("9999-12-31T00:00:00Z", LAST),
    ("9999-12-31T23:30:00Z", "9999-12-31T23:59:59.999999Z"),
    ("9999-12-31T23:30:00Z", "9999-12-31T23:59:59-12:00"),
    (None, FIRST),
    (None, "9999-12-31T23:59:59-12:00"),
    (LAST, None),
    ("0001-01-01T00:00:00+14:00", None),
]
ENDPOINTS: dict[str, list[dict[str, str]]] = {
    "/telemetry": [{}, {"metric": "GRID.energy_imported"}]
    + [{"bucket": bucket} for bucket in ("1 minute", "5 minutes", "15 minutes", "1 hour", "1 day")],
    "/plants/{plantId}/sub-devices/{externalId}/telemetry": [{}],
    "/trading/plants/{id}/meters": [{}, {"bucketMinutes": "7"}],
    "/vcp/sites/{siteId}/telemetry/meter": [{}],
    "/vcp/sites/{siteId}/adherence": [{}],
    "/telemetry/columns": [{"metrics": "GRID.energy_imported"}, {"metrics": "GRID.energy_imported", "bucket": "30 days"}],
    "/fleet/energy": [{}, {"bucket": "1 month", "timeZone": "Pacific/Kiritimati"}],
    "/plants/{plantId}/energy": [{}, {"bucket": "1 month", "timeZone": "Pacific/Pago_Pago"}],
    "/audit-events": [{}],
    "/notifications/deliveries": [{}],
    "/alerts": [{}, {"status": "ACTIVE"}],
    "/alerts/counts": [{}],
    "/commands": [{}],
    "/fleet/refused-messages": [{}],
    "/fleet/unregistered-devices": [{}],
    "/svc-esm/plants/{externalPlantId}/meters": [{}],
}
"""Each with the further parameters that lead another way through the code."""


async def sandbox_client(fleet: Fleet) -> dict[str, str]:
    """Headers of a client of the sandbox ESM that has the plant P1."""
    _, made = await fleet.call("POST", f"/svc-esm/admin/enable?orgId={fleet.admin['x-org-id']}", None, fleet.super_admin)
    body = {"clientId": made["clientId"], "externalPlantId": "P1", "name": "Roof"}
    assert (await fleet.call("POST", "/svc-esm/admin/plants", body, fleet.super_admin))[0] == 201
    basic = base64.b64encode(f"{made['clientId']}:{made['clientSecret']}".encode()).decode()
    answer = await fleet.service.client.post(
        "/api/v1/svc-esm/oauth/token",
        data={"grant_type": "client_credentials"},
        headers={"authorization": f"Basic {basic}"},
    )
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


async def metered(fleet: Fleet) -> RecordedPlant:
    """A plant with a meter."""
    plant = await fleet.plant()
    body = {"externalId": "GRID", "name": "Grid", "type": "METER"}
    assert (await fleet.call("POST", f"/plants/{plant['id']}/sub-devices", body))[0] == 201
    recorded = RecordedPlant(fleet.service.state.database, UUID(fleet.admin["x-org-id"]), UUID(plant["id"]))
    frames = {START + timedelta(minutes=number): [float(number)] for number in range(90)}
    await recorded.write("GRID", [Metric("energy_imported", "kWh", counter=True)], frames)
    return recorded


def ranges(**more: str) -> list[str]:
    """The query strings."""
    return [
        urlencode({**more, **{name: value for name, value in (("from", start), ("to", end)) if value is not None}})
        for start, end in RANGES
    ]


async def wrong_answers(fleet: Fleet, path: str, queries: list[str], headers: dict[str, str]) -> list[tuple[str, Any]]:
    """What is neither an answer nor a refusal of the input."""
    wrong: list[tuple[str, Any]] = []
    for query in queries:
        for accept in ("application/json", "text/csv"):
            answer = await fleet.service.client.get(f"/api/v1{path}?{query}", headers={**headers, "accept": accept})
            refused = answer.status_code == 400 and answer.json()["code"] in ("VALIDATION_ERROR", "BAD_REQUEST")
            if answer.status_code != 200 and not refused:
                wrong.append((f"{path}?{query}", answer.text[:200]))
    return wrong


@pytest.mark.parametrize("template", ENDPOINTS)
async def test_every_range_is_answered_or_refused(fleet: Fleet, template: str) -> None:
    plant = await metered(fleet)
    names = {"plantId": plant.id, "id": plant.id, "siteId": plant.id, "externalId": "GRID", "externalPlantId": "P1"}
    path = template.format(**names)
    headers = await sandbox_client(fleet) if template.startswith("/svc-esm") else fleet.admin
    for more in ENDPOINTS[template]:
        if template in ("/telemetry", "/telemetry/columns"):
            more = {**more, "plantId": str(plant.id)}
        assert await wrong_answers(fleet, path, ranges(**more), headers) == []


async def test_every_endpoint_with_a_range_is_tried(fleet: Fleet) -> None:
    _, described = await fleet.call("GET", "/openapi.json")
    with_range = {
        path.removeprefix("/api/v1")
        for path, methods in described["paths"].items()
        for parameter in methods.get("get", {}).get("parameters", [])
        if parameter["name"] in ("from", "to")
    }
    assert with_range == set(ENDPOINTS)


async def test_a_range_over_all_years_has_all_values(fleet: Fleet) -> None:
    plant = await metered(fleet)
    for more, count in ((f"plantId={plant.id}", 90), (f"plantId={plant.id}&bucket=1+minute", 90)):
        for end in (LAST, "9999-12-31T23:59:59.999Z"):
            status, points = await fleet.call("GET", f"/telemetry?{more}&from={FIRST}&to={end}")
            assert (status, len(points)) == (200, count)
    path = f"/plants/{plant.id}/sub-devices/GRID/telemetry?from={FIRST}&to={LAST}"
    ((status, rows),) = [await fleet.call("GET", path)]
    assert (status, [row["count"] for row in rows]) == (200, [90])


async def test_a_preview_takes_or_refuses_every_range(fleet: Fleet) -> None:
    await metered(fleet)
    rule = {"name": "Rule", "metric": "energy_imported", "condition": "LT", "threshold": 10}
    for start, end in RANGES:
        status, answer = await fleet.call("POST", "/alert-rules/preview", {"rule": rule, "from": start, "to": end})
        assert status == 200 or answer["code"] == "VALIDATION_ERROR", (start, end)


async def test_an_esms_meters_are_answered_for_every_range(fleet: Fleet, stand_in: StandIn) -> None:
    plant = await fleet.plant()
    settings = {"esmApiUrl": stand_in.url, "esmClientId": CLIENT_ID, "esmClientSecret": SECRET}
    assert (await fleet.call("POST", "/trading/config", settings))[0] == 200
    assert (await fleet.call("PATCH", f"/plants/{plant['id']}", {"externalPlantId": "P1"}))[0] == 200
    stand_in.readings["P1"] = [{"time": FIRST, "meter_id": "M1", "interval": 1, "energy": 1}]
    queries = ranges(bucketMinutes="7")
    assert await wrong_answers(fleet, f"/trading/plants/{plant['id']}/meters", queries, fleet.admin) == []
