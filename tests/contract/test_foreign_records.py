"""Another organisation, and whatever belongs to it, answers exactly like one that does not exist.

Every endpoint that works in an organisation is called by every role with the ids of another organisation's records and
with ids that no record has; the answers are compared byte for byte, request id and time aside.
"""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx
import pytest

from contract.rows import ABSENT_IS_FORBIDDEN, Row, built
from gridfleet.api.access.guards import CallerKind
from gridfleet.api.http.endpoint import Endpoint
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.ids import new_id
from support.clients.open_stream import begun
from support.clients.people import People, Person
from support.servers.api_service import api_service

ROWS: Final[dict[Row, Endpoint]] = {
    row: endpoint for row, endpoint in built().items() if endpoint.caller.kind is CallerKind.ORG_MEMBER
}
ROLES = [*(role.name for role in OrgRole), "SUPER_ADMIN"]

KINDS: Final = {
    "/api/v1/plants/{": "plant",
    "/api/v1/telemetry/{": "plant",
    "/api/v1/plant-groups/{": "group",
    "/api/v1/alerts/{": "alert",
    "/api/v1/alert-rules/{": "rule",
    "/api/v1/commands/{": "command",
    "/api/v1/device-templates/{": "template",
    "/api/v1/invitations/{": "invitation",
    "/api/v1/trading/plants/{": "plant",
    "/api/v1/partner/api-keys/{": "key",
    "/api/v1/vcp/sites/{": "plant",
}
"""What the first id of a path names."""

OF_NO_ORGANIZATION: Final = {("GET", "/api/v1/device-templates/{templateId}/usage"): "every user reads the templates"}
"""Rows whose id names a record that belongs to no organisation, with the reason."""

RULE: Final = {"name": "High", "metric": "p", "condition": "GT", "threshold": 1, "plantId": "{plant}"}
BLOCK: Final = {"from": "00:00", "to": "24:00", "pBatMin": -5, "pBatMax": 5, "socMin": 10, "socMax": 90}
SPAN: Final = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
BODIES: Final[dict[Row, Any]] = {
    ("POST", "/api/v1/plants"): {"name": "P", "serialNumber": "S", "type": "GATEWAY"},
    ("PATCH", "/api/v1/plants/{id}"): {"name": "Mine"},
    ("POST", "/api/v1/plants/{plantId}/sub-devices"): {"externalId": "NEW", "name": "N", "type": "METER"},
    ("PATCH", "/api/v1/plants/{plantId}/sub-devices/{externalId}"): {"name": "Mine"},
    ("POST", "/api/v1/plants/{plantId}/sub-devices/{externalId}/commands"): {"action": "start"},
    ("POST", "/api/v1/plant-groups"): {"name": "G"},
    ("PATCH", "/api/v1/plant-groups/{id}"): {"name": "Mine"},
    ("POST", "/api/v1/plant-groups/{id}/plants"): {"plantIds": ["{plant}"]},
    ("DELETE", "/api/v1/plant-groups/{id}/plants"): {"plantIds": ["{plant}"]},
    ("POST", "/api/v1/alerts/acknowledge"): {"alertIds": ["{alert}"]},
    ("POST", "/api/v1/alerts/resolve"): {"alertIds": ["{alert}"]},
    ("POST", "/api/v1/alert-rules"): RULE,
    ("POST", "/api/v1/alert-rules/preview"): {"rule": RULE, **SPAN},
    ("PATCH", "/api/v1/alert-rules/{id}"): {"plantId": "{plant}"},
    ("POST", "/api/v1/invitations"): {"email": "new@example.com"},
    ("PATCH", "/api/v1/organizations/{orgId}/members/{memberId}"): {"role": "VIEWER"},
    ("POST", "/api/v1/trading/config"): {"queuePrefix": "ours"},
    ("POST", "/api/v1/trading/plants/{id}/config"): {"timeConfigs": [BLOCK]},
    ("POST", "/api/v1/trading/plants/{id}/config/validate"): {"timeConfigs": [BLOCK]},
    ("POST", "/api/v1/partner/api-keys"): {
        "name": "K",
        "partnerId": "p",
        "scopes": ["plants:read"],
        "allowedPlantIds": ["{plant}"],
    },
    ("POST", "/api/v1/partner/api-keys/{id}/test-connection"): {"key": "gf_live_"},
}
"""A body that would be accepted, with records in braces."""

QUERIES: Final[dict[Row, dict[str, str]]] = {
    ("GET", "/api/v1/telemetry"): {"plantId": "{plant}", **SPAN},
    ("GET", "/api/v1/telemetry/columns"): {"plantId": "{plant}", "metrics": "a", **SPAN},
    ("GET", "/api/v1/plants/{plantId}/sub-devices/{externalId}/telemetry"): SPAN,
    ("GET", "/api/v1/vcp/sites/{siteId}/telemetry/meter"): SPAN,
    ("GET", "/api/v1/plants/{plantId}/energy"): SPAN,
    ("GET", "/api/v1/fleet/energy"): SPAN,
    ("GET", "/api/v1/vcp/sites/{siteId}/adherence"): SPAN,
    ("GET", "/api/v1/alerts"): {"plantId": "{plant}"},
    ("GET", "/api/v1/alerts/counts"): {"plantId": "{plant}"},
    ("GET", "/api/v1/alert-rules"): {"plantId": "{plant}"},
    ("GET", "/api/v1/commands"): {"plantId": "{plant}"},
    ("GET", "/api/v1/fleet/refused-messages"): {"plantId": "{plant}"},
    ("GET", "/api/v1/fleet/unregistered-devices"): {"plantId": "{plant}"},
}
"""A query that would be accepted, likewise."""


@dataclass
class World:
    """Our organisation with people of every role, another one with a record of every kind."""

    people: People
    ours: UUID
    theirs: UUID
    who: dict[str, Person]
    records: dict[str, str] = field(default_factory=dict)

    async def answer(self, row: Row, role: str, ids: dict[str, str], org: UUID | str) -> httpx.Response:
        """One call with these records' ids."""
        path = path_with(row, ids, str(org))
        if ROWS[row].response_content_types == ("text/event-stream",):
            return await begun(self.people.service, path, {**self.who[role].headers, "x-org-id": str(org)})
        body, query = (filled(source.get(row), ids) for source in (BODIES, QUERIES))
        return await self.people.call(
            row[0], path.removeprefix("/api/v1"), body, who=self.who[role], headers={"x-org-id": str(org)}, params=query
        )

    async def state(self) -> list[tuple[Any, ...]]:
        """Everything that the other organisation has."""
        found = []
        for table in (
            "plant",
            "sub_device",
            "plant_group",
            "plant_group_member",
            "alert",
            "alert_rule",
            "plant_command",
            "invitation",
            "membership",
            "trading_config",
            "trading_config_change",
            "partner_key",
        ):
            [(exists, column)] = await self.people.execute(
                "SELECT to_regclass(%s) IS NOT NULL, EXISTS (SELECT FROM information_schema.columns"
                " WHERE table_name = %s AND column_name = 'organization_id')",
                table,
                table,
            )
            if exists:
                where = f" WHERE organization_id = '{self.theirs}'" if column else ""
                found += await self.people.execute(f"SELECT '{table}', t::text FROM {table} t{where} ORDER BY 2")
        return found


def path_with(row: Row, ids: dict[str, str], org: str) -> str:
    """The path with its parameters filled in."""
    path = row[1]
    if "{orgId}" in path:
        return path.replace("{orgId}", org).replace("{memberId}", ids["member"])
    kind = next((kind for prefix, kind in KINDS.items() if path.startswith(prefix)), None)
    first = re.search(r"\{\w+\}", path)
    if first is None:
        return path
    assert kind is not None, f"say in KINDS what the id of {row} names, and make such a record in `world`"
    return path.replace(first[0], ids[kind], 1).replace("{externalId}", ids["device"])


def filled(template: Any, ids: dict[str, str]) -> Any:
    """A body or query with its records' ids."""
    if template is None:
        return None
    return json.loads(re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], found[0]), json.dumps(template)))


def shown(answer: httpx.Response, sent: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    """What a caller can see of an answer, but for request id and time, and the ids that the caller sent."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    content = answer.content
    for kind, value in (sent or {}).items():
        content = content.replace(value.encode(), kind.encode()) if len(value) == 36 else content
    return answer.status_code, headers, content


@pytest.fixture
async def world(database_url: str, home: Path) -> AsyncIterator[World]:
    async with api_service(database_url, home, rate_limits="off") as service:
        people = People(service)
        who = {role.name: await people.person() for role in OrgRole} | {"SUPER_ADMIN": await people.person(super_admin=True)}
        ours = await people.organization(**{role.name: who[role.name] for role in OrgRole})
        theirs = await people.organization(ORG_ADMIN=await people.person())
        made = World(people, ours.id, theirs.id, who)
        await fill(made)
        yield made


async def fill(world: World) -> None:
    """Gives the other organisation a record of every kind."""
    people, admin, theirs = world.people, world.who["SUPER_ADMIN"], world.theirs

    async def made(path: str, body: Any) -> str:
        answer = await people.call("POST", path, body, who=admin, org=theirs)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    plant = await made("/plants", {"name": "Theirs", "serialNumber": "T", "type": "GATEWAY"})
    await people.call("POST", f"/plants/{plant}/provision", who=admin, org=theirs)
    await made(f"/plants/{plant}/sub-devices", {"externalId": "INV1", "name": "I", "type": "INVERTER"})
    world.records = {
        "plant": plant,
        "device": "INV1",
        "group": await made("/plant-groups", {"name": "Theirs"}),
        "rule": await made("/alert-rules", filled(RULE, {"plant": plant})),
        "template": await made_template(people),
        "alert": str(new_id()),
        "command": str(new_id()),
        "invitation": await made("/invitations", {"email": "theirs@example.com"}),
        "key": await made_key(people, admin, theirs),
        "member": str((await people.execute("SELECT id FROM membership WHERE organization_id = %s", theirs))[0][0]),
    }
    await people.call("POST", f"/plant-groups/{world.records['group']}/plants", {"plantIds": [plant]}, who=admin, org=theirs)
    await people.call("PATCH", f"/plants/{plant}", {"externalPlantId": "theirs"}, who=admin, org=theirs)
    settings = {"esmApiUrl": "http://192.0.2.1", "esmClientId": "theirs", "esmClientSecret": "s3cret"}
    answer = await people.call("POST", "/trading/config", settings, who=admin, org=theirs)
    assert answer.status_code == 400, "no ESM may be at an address of the documentation range"
    del settings["esmApiUrl"]
    assert (await people.call("POST", "/trading/config", settings, who=admin, org=theirs)).status_code == 200
    await people.execute(
        "INSERT INTO alert (id, organization_id, plant_id, rule_id, severity, message, metric, value, measured_at)"
        " VALUES (%s, %s, %s, %s, 'WARNING', 'High', 'p', 2, now())",
        world.records["alert"],
        theirs,
        plant,
        world.records["rule"],
    )
    await people.execute(
        "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
        " VALUES (%s, %s, 'DEVICE_COMMAND', '{}', 'SYSTEM', now(), now() + interval '1 day', 'infinity')",
        world.records["command"],
        plant,
    )


async def made_template(people: People) -> str:
    """The id of a template."""
    [(template_id,)] = await people.execute(
        "INSERT INTO device_template (id, name, type, level, version, signals, actions)"
        " VALUES (%s, 'T', 'METER', 'PLANT', 1, '[]', '[]') RETURNING id",
        new_id(),
    )
    return str(template_id)


async def made_key(people: People, who: Person, org: UUID) -> str:
    """The id of a key for REST alone, which needs no broker."""
    body = {"name": "Theirs", "partnerId": "them", "scopes": ["plants:read"]}
    answer = await people.call("POST", "/partner/api-keys", body, who=who, org=org)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["apiKey"]["id"])


def nobodys(records: dict[str, str]) -> dict[str, str]:
    """Ids like those, of nothing."""
    return {kind: str(new_id()) if kind != "device" else "NONE" for kind in records}


@pytest.mark.parametrize("role", ROLES)
async def test_foreign_records_answer_like_absent_ones(world: World, role: str) -> None:
    before, wrong = await world.state(), []
    for row in ROWS.keys() - OF_NO_ORGANIZATION.keys():
        foreign = await world.answer(row, role, world.records, world.ours)
        unknown = nobodys(world.records)
        absent = await world.answer(row, role, unknown, world.ours)
        takes_ids = bool(re.search(r"\{\w+\}", path_of(row) + json.dumps([BODIES.get(row), QUERIES.get(row)])))
        if takes_ids and shown(foreign, world.records) != shown(absent, unknown):
            wrong.append(f"{row}: {shown(foreign)} for theirs, {shown(absent)} for an unknown id")
        if "{" in path_of(row) and foreign.status_code < 400:
            wrong.append(f"{row}: {foreign.status_code} for theirs")
    assert wrong == []
    assert await world.state() == before, "nothing of theirs has changed"


@pytest.mark.parametrize("role", ROLES)
async def test_a_foreign_organisation_answers_like_an_absent_one(world: World, role: str) -> None:
    before, wrong = await world.state(), []
    for row, endpoint in ROWS.items():
        if role == "SUPER_ADMIN":
            continue  # acts in every organisation
        foreign = await world.answer(row, role, world.records, world.theirs)
        absent = await world.answer(row, role, world.records, new_id())
        if shown(foreign) != shown(absent) or foreign.json()["code"] != endpoint.caller.refusal:
            wrong.append(f"{row}: {shown(foreign)} for theirs, {shown(absent)} for an unknown id")
    assert wrong == []
    assert await world.state() == before


async def test_the_own_organisation_lets_in_whom_it_should(world: World) -> None:
    """The comparison is not of refusals alone: in the own organisation each role gets as far as its rows say."""
    for row, endpoint in ROWS.items():
        if row in ABSENT_IS_FORBIDDEN:
            continue
        for role in OrgRole:
            answer = await world.answer(row, role.name, nobodys(world.records), world.ours)
            refused = answer.status_code == 403
            assert refused == (endpoint.caller.min_role is not None and role < endpoint.caller.min_role), (
                row,
                role,
                answer.text,
            )
            assert answer.status_code < 500


def path_of(row: Row) -> str:
    """The path without the organisation, which is another test's."""
    return row[1].replace("{orgId}", "")


def test_every_row_that_takes_a_body_is_tried_with_one() -> None:
    # A file names no record by its id, so it can name none of another organisation.
    assert {row for row, endpoint in ROWS.items() if endpoint.body_type not in (None, bytes)} - BODIES.keys() == set()


def test_a_difference_would_be_seen() -> None:
    request = httpx.Request("GET", "http://localhost")
    same = [httpx.Response(404, json={"a": 1}, headers={"x-request-id": str(number)}, request=request) for number in (1, 2)]
    assert shown(same[0]) == shown(same[1])
    for other in (
        httpx.Response(403, json={"a": 1}, request=request),
        httpx.Response(404, json={"a": 2}, request=request),
        httpx.Response(404, json={"a": 1}, headers={"x-hint": "theirs"}, request=request),
    ):
        assert shown(other) != shown(same[0])
