"""Commands to all plants over HTTP: filters and pages against a plain model, one command with its steps, and who sees which."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from gridfleet.domains.plants.commands.models import OPEN, CommandStatus, CommandType
from gridfleet.kernel.ids import new_id
from support.builders.api_keys import key_headers
from support.clients.plants_over_http import Fleet, fleet_over_http

NOW = datetime.now(UTC).replace(microsecond=123456)
STATUSES, TYPES = list(CommandStatus), list(CommandType)


@dataclass(frozen=True)
class Issued:
    """A stored command."""

    id: UUID
    plant: UUID
    status: CommandStatus
    type: CommandType
    issued_by: UUID | None
    issued_at: datetime
    passed: bool
    """Whether its time has passed although no process has recorded that."""

    @property
    def shown(self) -> CommandStatus:
        return CommandStatus.EXPIRED if self.passed else self.status


@dataclass
class Commands:
    """An organisation with commands to its plants, and another one."""

    fleet: Fleet
    plants: list[UUID] = field(default_factory=list)
    authors: list[UUID] = field(default_factory=list)
    issued: list[Issued] = field(default_factory=list)

    @property
    def organization(self) -> UUID:
        return UUID(self.fleet.admin["x-org-id"])

    async def add_plant(self, organization: str) -> UUID:
        plant_id = new_id()
        await self.fleet.sql(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
            " VALUES (%s, %s, %s, %s, 'GATEWAY', 'PASSWORD', 'ACTIVE')",
            plant_id,
            organization,
            f"Plant {plant_id}",
            plant_id.hex,
        )
        return plant_id

    async def add(self, plant: UUID, chosen: random.Random, author: tuple[str, UUID | None]) -> Issued:
        status, kind = chosen.choice(STATUSES), chosen.choice(TYPES)
        # Equal issue times, so that the order of ids decides.
        issued = NOW - timedelta(hours=chosen.randrange(6))
        passed = status in OPEN and chosen.random() < 0.5
        expires = NOW - timedelta(minutes=1) if passed else NOW + timedelta(days=1)
        final = status not in OPEN
        found = Issued(uuid4(), plant, status, kind, author[1], issued, passed)
        await self.fleet.sql(
            "INSERT INTO plant_command (id, plant_id, type, target, instruction, status, requester_type, requester_id,"
            " issued_at, expires_at, finished_at, due_at)"
            " VALUES (%s, %s, %s, 'BAT1', %s, %s, %s, %s, %s, %s, %s, %s)",
            found.id,
            plant,
            kind,
            Jsonb({"action": "stop", "params": {"why": "test"}}),
            status,
            author[0],
            None if author[1] is None else str(author[1]),
            issued,
            expires,
            NOW if final else None,
            NOW if status in ("PENDING", "SENT") else None,
        )
        return found

    async def pages(self, query: list[tuple[str, str]], limit: int, headers: dict[str, str]) -> tuple[list[Any], set[int]]:
        """Return the records of all pages, and the totals that they name."""
        found: list[Any] = []
        totals: set[int] = set()
        cursor: list[tuple[str, str]] = []
        for _ in range(200):
            answer = await self.fleet.service.client.get(
                "/api/v1/commands", params=[*query, ("limit", str(limit)), *cursor], headers=headers
            )
            assert answer.status_code == 200, answer.text
            body = answer.json()
            assert body["meta"]["limit"] == limit
            assert len(body["data"]) <= limit
            found += body["data"]
            totals.add(body["meta"]["total"])
            if body["meta"]["nextCursor"] is None:
                return found, totals
            assert len(body["data"]) == limit
            cursor = [("cursor", body["meta"]["nextCursor"])]
        raise AssertionError("the list does not end")


@pytest.fixture
async def commands(database_url: str, home: Path) -> AsyncIterator[Commands]:
    async with fleet_over_http(database_url, home, rate_limits="off") as fleet:
        found = Commands(fleet)
        found.plants = [await found.add_plant(fleet.admin["x-org-id"]) for _ in range(4)]
        foreign = await found.add_plant(fleet.stranger["x-org-id"])
        found.authors = [uuid4(), uuid4()]
        key_id, _ = await key_headers(fleet.service.state.database, found.organization, ["plants:read"])
        chosen = random.Random(15)
        authors = [("USER", found.authors[0]), ("USER", found.authors[1]), ("API_KEY", key_id), ("SYSTEM", None)]
        found.authors.append(key_id)
        for plant in (*found.plants, foreign):
            for _ in range(30):
                issued = await found.add(plant, chosen, chosen.choice(authors))
                if plant != foreign:
                    found.issued.append(issued)
        yield found


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(data=st.data())
async def test_filters_and_pages_are_those_of_a_model(commands: Commands, data: st.DataObject) -> None:
    draw = data.draw
    plant = draw(st.none() | st.sampled_from(range(5)))
    statuses = draw(st.sets(st.sampled_from(STATUSES)))
    types = draw(st.sets(st.sampled_from(TYPES)))
    author = draw(st.none() | st.sampled_from(range(3)))
    hours = draw(st.none() | st.tuples(st.integers(-1, 5), st.integers(1, 7)))
    allowed = draw(st.none() | st.sets(st.sampled_from(range(4))))
    many = draw(st.booleans())
    limit = draw(st.sampled_from([1, 7, 100]))
    query: list[tuple[str, str]] = [("status", one) for one in statuses] + [("type", one) for one in types]
    wanted = commands.issued
    if plant is not None:
        plant_id = commands.plants[plant] if plant < 4 else uuid4()
        query.append(("plantId", str(plant_id)))
        wanted = [one for one in wanted if one.plant == plant_id]
    if statuses:
        wanted = [one for one in wanted if one.shown in statuses]
    if types:
        wanted = [one for one in wanted if one.type in types]
    if author is not None:
        query.append(("issuedBy", str(commands.authors[author])))
        wanted = [one for one in wanted if one.issued_by == commands.authors[author]]
    if hours is not None:
        until = NOW - timedelta(hours=hours[0])
        since = until - timedelta(hours=hours[1])
        query += [("from", since.isoformat()), ("to", until.isoformat())]
        wanted = [one for one in wanted if since <= one.issued_at < until]
    headers = commands.fleet.viewer
    if allowed is not None:
        # A key of many plants is served from another index than a key of few.
        ids = {commands.plants[number] for number in allowed}
        others = {uuid4() for _ in range(150)} if many else set[UUID]()
        _, headers = await key_headers(
            commands.fleet.service.state.database, commands.organization, ["commands:read"], ids | others
        )
        wanted = [one for one in wanted if one.plant in ids]

    found, totals = await commands.pages(query, limit, headers)

    ordered = sorted(wanted, key=lambda one: (one.issued_at, one.id), reverse=True)
    assert [(one["id"], one["status"]) for one in found] == [(str(one.id), one.shown) for one in ordered]
    assert totals == {len(ordered)}


async def test_a_command_is_read_with_its_author_its_instruction_and_its_steps(commands: Commands) -> None:
    fleet = commands.fleet
    plant = commands.plants[0]
    device = {"externalId": "BAT9", "name": "B", "type": "BATTERY", "templateId": "00000000-0000-7000-8000-000000000005"}
    assert (await fleet.call("POST", f"/plants/{plant}/sub-devices", device))[0] == 201
    body = {"action": "set_power", "params": {"power_kw": -2.5}}
    _, answer = await fleet.call("POST", f"/plants/{plant}/sub-devices/BAT9/commands", body, fleet.operator)
    [(issued, expires)] = await fleet.sql(
        "SELECT issued_at, expires_at FROM plant_command WHERE id = %s", UUID(answer["commandId"])
    )
    sent, received = issued + timedelta(milliseconds=40), issued + timedelta(seconds=1)
    for status, at, late in (
        ("RECEIVED", received, False),
        ("SENT", sent, False),
        ("APPLIED", expires + received.resolution, True),
    ):
        await fleet.sql(
            "INSERT INTO plant_command_transition (command_id, status, at, late, reported_at, reason)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            UUID(answer["commandId"]),
            status,
            at,
            late,
            received if status == "RECEIVED" else None,
            Jsonb({"code": "LATE", "message": "m"}) if late else None,
        )

    status, found = await fleet.call("GET", f"/commands/{answer['commandId']}", headers=fleet.viewer)

    assert status == 200
    assert {name: found[name] for name in ("plantId", "plantName", "type", "externalId", "action", "params", "status")} == {
        "plantId": str(plant),
        "plantName": f"Plant {plant}",
        "type": "DEVICE_COMMAND",
        "externalId": "BAT9",
        "action": "set_power",
        "params": {"power_kw": -2.5},
        "status": "PENDING",
    }
    assert found["instruction"] == body
    assert (found["requestedBy"]["type"], found["requestedByName"]) == ("USER", "Test User")
    assert [(step["status"], step["late"]) for step in found["steps"]] == [
        ("PENDING", False),
        ("SENT", False),
        ("RECEIVED", False),
        ("APPLIED", True),
    ]
    assert datetime.fromisoformat(found["steps"][2]["reportedAt"]) == received.replace(
        microsecond=received.microsecond // 1000 * 1000
    )
    assert found["steps"][3]["reason"] == {"code": "LATE", "message": "m"}
    _, page = await fleet.call("GET", f"/commands?plantId={plant}&limit=1", headers=fleet.viewer)
    assert page["data"] == [{name: value for name, value in found.items() if name not in ("instruction", "steps")}]


async def test_a_command_whose_time_has_passed_is_expired_before_that_is_recorded(commands: Commands) -> None:
    passed = next(one for one in commands.issued if one.passed)

    _, found = await commands.fleet.call("GET", f"/commands/{passed.id}")

    assert (found["status"], found["finishedAt"]) == ("EXPIRED", found["expiresAt"])
    assert found["steps"][-1]["status"] == "EXPIRED"
    assert found["steps"][-1]["reason"] == found["reason"]


async def test_names_are_those_of_members_and_keys_of_the_organisation(commands: Commands) -> None:
    fleet, plant = commands.fleet, commands.plants[1]
    [(admin_id,)] = await fleet.sql(
        "SELECT user_id FROM membership WHERE organization_id = %s AND role = 'ORG_ADMIN'", commands.organization
    )
    [(stranger_id,)] = await fleet.sql(
        "SELECT user_id FROM membership WHERE organization_id = %s", UUID(fleet.stranger["x-org-id"])
    )
    key_id, key = await key_headers(fleet.service.state.database, commands.organization, ["commands:read"])
    foreign_key, _ = await key_headers(fleet.service.state.database, UUID(fleet.stranger["x-org-id"]), ["commands:read"])
    [(super_admin,)] = await fleet.sql("SELECT id FROM user_account WHERE is_super_admin")
    chosen = random.Random(1)
    cases = {
        admin_id: ("USER", "Test User"),
        super_admin: ("USER", "Test User"),
        key_id: ("API_KEY", "Key"),
        stranger_id: ("USER", None),
        foreign_key: ("API_KEY", None),
        uuid4(): ("USER", None),
    }
    for author, (kind, name) in cases.items():
        issued = await commands.add(plant, chosen, (kind, author))
        _, found = await fleet.call("GET", f"/commands/{issued.id}", headers=fleet.viewer)
        assert (found["requestedBy"], found["requestedByName"]) == ({"type": kind, "id": str(author)}, name)
        _, by_key = await fleet.call("GET", f"/commands/{issued.id}", headers=key)
        assert by_key["requestedByName"] is None


async def test_commands_of_another_organisation_and_of_other_plants_do_not_exist(commands: Commands) -> None:
    fleet, one = commands.fleet, commands.issued[0]
    _, limited = await key_headers(fleet.service.state.database, commands.organization, ["commands:read"], {commands.plants[3]})
    assert one.plant != commands.plants[3]

    absent = await fleet.call("GET", f"/commands/{uuid4()}", headers=fleet.viewer)

    assert (absent[0], absent[1]["code"]) == (404, "NOT_FOUND")
    for headers in (fleet.stranger, limited):
        assert await fleet.call("GET", f"/commands/{one.id}", headers=headers) == absent
    assert (await fleet.call("GET", "/commands/x"))[1]["code"] == "INVALID_UUID"


async def test_a_plant_that_moves_leaves_its_commands(commands: Commands) -> None:
    fleet, plant = commands.fleet, commands.plants[2]
    moved = [one for one in commands.issued if one.plant == plant]
    before = (await fleet.call("GET", "/commands", headers=fleet.viewer))[1]["meta"]["total"]

    status, _ = await fleet.call("PATCH", f"/plants/{plant}", {"organizationId": fleet.stranger["x-org-id"]}, fleet.super_admin)

    assert status == 200
    assert (await fleet.call("GET", "/commands", headers=fleet.viewer))[1]["meta"]["total"] == before - len(moved)
    for headers in (fleet.viewer, fleet.stranger):
        assert (await fleet.call("GET", f"/commands?plantId={plant}", headers=headers))[1]["data"] == []
        assert (await fleet.call("GET", f"/commands/{moved[0].id}", headers=headers))[0] == 404


@pytest.mark.parametrize(
    ("query", "details"),
    [
        (
            "plantId=1&status=DONE&type=X&issuedBy=me&from=now&limit=101&cursor=x&page=2",
            ["cursor", "from", "issuedBy", "limit", "page", "plantId", "status.0", "type.0"],
        ),
        ("from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", ["from"]),
        ("cursor=WzEsMl0", ["cursor"]),
        ("cursor=" + "A" * 501, ["cursor"]),
        ("&".join(["status=SENT"] * 8), ["status"]),
        ("limit=0", ["limit"]),
    ],
)
async def test_every_error_of_a_query_is_named(commands: Commands, query: str, details: list[str]) -> None:
    status, answer = await commands.fleet.call("GET", f"/commands?{query}")

    assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
    assert sorted({line.split(":")[0] for line in answer["details"]}) == details
