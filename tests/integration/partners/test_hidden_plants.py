"""A key that is limited to some plants: the others answer like absent ones, whatever the endpoint, and are in no list."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from contract.rows import Row, built
from contract.test_foreign_records import BODIES, KINDS, QUERIES, filled, nobodys, shown
from gridfleet.kernel.ids import new_id
from support.clients.people import People, Person, refused
from support.servers.api_service import api_service

TEMPLATE = str(new_id())
ROWS = [
    (row, endpoint.caller.scope)
    for row, endpoint in built().items()
    if endpoint.caller.scope is not None and endpoint.caller.min_role is not None and not row[1].endswith("/live")
]
SCOPES = sorted({str(scope) for _, scope in ROWS})


@dataclass
class Site:
    """An organisation with a plant that the key may see and one that it may not."""

    people: People
    admin: Person
    org: UUID
    seen: dict[str, str]
    hidden: dict[str, str]
    key: str = ""

    async def by_key(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return await self.people.call(method, path, body, headers={"x-api-key": self.key}, **more)

    async def answer(self, row: Row, ids: dict[str, str]) -> httpx.Response:
        """One call that names these records."""
        path = row[1].removeprefix("/api/v1")
        kind = next((kind for prefix, kind in KINDS.items() if row[1].startswith(prefix)), "plant")
        path = re.sub(r"\{\w+\}", ids[kind], path, count=1).replace("{externalId}", ids["device"])
        return await self.by_key(row[0], path, filled(BODIES.get(row), ids), params=filled(QUERIES.get(row), ids))


@pytest.fixture
async def site(database_url: str, home: Path) -> AsyncIterator[Site]:
    async with api_service(database_url, home, rate_limits="off") as service:
        people = People(service)
        admin = await people.person()
        org = (await people.organization(ORG_ADMIN=admin)).id
        found = Site(people, admin, org, {}, {})
        await people.execute(
            "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
            " VALUES (%s, 'T', 'INVERTER', 'SUB_DEVICE', 1, '[]', '[]')",
            TEMPLATE,
        )
        for name, records in (("Seen", found.seen), ("Hidden", found.hidden)):
            records |= await fill(found, name)
        body = {"name": "K", "partnerId": "p", "scopes": SCOPES, "allowedPlantIds": [found.seen["plant"]]}
        # The scopes for the broker would need one.
        body["scopes"] = [scope for scope in SCOPES if not scope.startswith(("vcp:write", "vcp:connect"))]
        created = await people.call("POST", "/partner/api-keys", body, who=admin, org=org)
        assert created.status_code == 201, created.text
        found.key = created.json()["key"]
        yield found


async def fill(site: Site, name: str) -> dict[str, str]:
    """A plant of that name with whatever hangs off it."""
    people = site.people

    async def made(path: str, body: Any) -> str:
        answer = await people.call("POST", path, body, who=site.admin, org=site.org)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    plant = await made("/plants", {"name": name, "serialNumber": name, "type": "GATEWAY"})
    device = {"externalId": "INV1", "name": "I", "type": "INVERTER", "templateId": TEMPLATE}
    await made(f"/plants/{plant}/sub-devices", device)
    rule = {"name": name, "metric": "p", "condition": "GT", "threshold": 1, "plantId": plant}
    records = {"plant": plant, "device": "INV1", "alert": str(new_id()), "rule": await made("/alert-rules", rule)}
    records["group"] = await made("/plant-groups", {"name": name})
    await people.call("POST", f"/plant-groups/{records['group']}/plants", {"plantIds": [plant]}, who=site.admin, org=site.org)
    await people.execute(
        "INSERT INTO alert (id, organization_id, plant_id, rule_id, severity, message, metric, value, measured_at)"
        " VALUES (%s, %s, %s, %s, 'WARNING', %s, 'p', 2, now())",
        records["alert"],
        site.org,
        plant,
        records["rule"],
        name,
    )
    records["command"] = str(new_id())
    await people.execute(
        "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
        " VALUES (%s, %s, 'DEVICE_COMMAND', '{}', 'USER', now(), now(), now())",
        records["command"],
        plant,
    )
    return records


async def test_hidden_records_answer_like_absent_ones(site: Site) -> None:
    wrong = []
    for row, _ in ROWS:
        if {"group", "template"} & {kind for prefix, kind in KINDS.items() if row[1].startswith(prefix)}:
            continue  # these are not of one plant; which plants they show is another test's
        unknown = nobodys(site.hidden)
        hidden, absent = await site.answer(row, site.hidden), await site.answer(row, unknown)
        names_ids = bool(re.search(r"\{\w+\}", row[1] + json.dumps([BODIES.get(row), QUERIES.get(row)])))
        if names_ids and shown(hidden, site.hidden) != shown(absent, unknown):
            wrong.append(f"{row}: {shown(hidden)} for a hidden one, {shown(absent)} for an unknown id")
        if "{plantId}" in row[1] or row[1].startswith("/api/v1/plants/{id}"):
            assert hidden.status_code in (400, 403, 404), (row, hidden.text)
    assert wrong == []


async def test_hidden_records_are_in_no_list(site: Site) -> None:
    for path in ("/plants", "/plant-groups", "/alerts", "/alert-rules", "/commands", "/plants/certificate-stats"):
        answer = await site.by_key("GET", path)
        assert answer.status_code == 200, answer.text
        for kind in ("plant", "alert", "rule", "command"):
            assert site.hidden[kind] not in answer.text, path
    for path in ("/plants", "/alerts", "/alert-rules", "/commands"):
        assert (await site.by_key("GET", path)).json()["meta"]["total"] == 1, path
    for ending in ("", "/plants", "/available-plants"):
        for group in (site.seen["group"], site.hidden["group"]):
            answer = await site.by_key("GET", f"/plant-groups/{group}{ending}")
            assert site.hidden["plant"] not in answer.text, ending
    usage = (await site.by_key("GET", f"/device-templates/{TEMPLATE}/usage")).json()
    assert (usage["plantCount"], usage["deviceCount"]) == (1, 1), usage
    assert [one["id"] for one in usage["plants"]["data"]] == [site.seen["plant"]]
    added = await site.by_key("POST", f"/plant-groups/{site.seen['group']}/plants", {"plantIds": [site.hidden["plant"]]})
    assert added.status_code == 404


async def test_what_it_may_see_it_sees(site: Site) -> None:
    assert (await site.by_key("GET", f"/plants/{site.seen['plant']}")).status_code == 200
    assert (await site.by_key("GET", f"/plants/{site.seen['plant']}/sub-devices/INV1")).status_code == 200
    assert (await site.by_key("GET", f"/telemetry/{site.seen['plant']}/latest")).status_code == 200
    acknowledged = await site.by_key("PATCH", f"/alerts/{site.seen['alert']}/acknowledge")
    assert acknowledged.status_code == 200, acknowledged.text


async def test_it_makes_no_plants(site: Site) -> None:
    body = {"name": "New", "serialNumber": "New", "type": "GATEWAY"}
    refused(await site.by_key("POST", "/plants", body), 403, "FORBIDDEN")
    rule = {"name": "All", "metric": "p", "condition": "GT", "threshold": 1}
    refused(await site.by_key("POST", "/alert-rules", rule), 403, "FORBIDDEN")


async def test_it_changes_only_groups_of_plants_that_it_sees(site: Site) -> None:
    seen, hidden = (f"/plant-groups/{records['group']}" for records in (site.seen, site.hidden))
    names = {site.seen["group"]: "Changed"}
    groups = (await site.people.call("GET", "/plant-groups", who=site.admin, org=site.org)).json()["data"]
    refused(await site.by_key("PATCH", hidden, {"name": "Changed"}), 403, "FORBIDDEN")
    assert (await site.by_key("PATCH", seen, {"name": "Changed"})).status_code == 200
    changed = (await site.people.call("GET", "/plant-groups", who=site.admin, org=site.org)).json()["data"]
    assert {group["id"]: group["name"] for group in changed} == {group["id"]: group["name"] for group in groups} | names
    assert (await site.people.call("PATCH", hidden, {"name": "Other"}, who=site.admin, org=site.org)).status_code == 200


async def test_it_deletes_only_groups_of_plants_that_it_sees(site: Site) -> None:
    seen, hidden = (f"/plant-groups/{records['group']}" for records in (site.seen, site.hidden))
    refused(await site.by_key("DELETE", hidden), 403, "FORBIDDEN")
    groups = await site.people.call("GET", "/plant-groups", who=site.admin, org=site.org)
    assert {group["id"]: group["plantCount"] for group in groups.json()["data"]} == {
        site.seen["group"]: 1,
        site.hidden["group"]: 1,
    }
    assert (await site.by_key("DELETE", seen)).status_code == 200
    assert (await site.people.call("DELETE", hidden, who=site.admin, org=site.org)).status_code == 200
