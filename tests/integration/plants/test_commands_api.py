"""Commands over HTTP: what may be asked of whom, with which words it is refused, and what the list shows."""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from gridfleet.domains.device_templates.catalogue import seed_system_templates
from gridfleet.domains.plants.commands import dispatch
from gridfleet.domains.plants.sub_devices.models import SubDevice
from gridfleet.domains.plants.sub_devices.registry import get_sub_device
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_organization, add_user, session_of
from support.servers.api_service import ApiService, api_service, bearer

BATTERY = "00000000-0000-7000-8000-000000000005"


@dataclass
class Site:
    """An ACTIVE plant with a battery `BAT1`, and people of its organisation and of another."""

    service: ApiService
    operator: dict[str, str]
    operator_id: UUID
    viewer: dict[str, str]
    stranger: dict[str, str]
    plant_id: UUID
    devices: str

    async def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        answer = await self.service.client.request(
            method, f"/api/v1{path}", headers=headers or self.operator, **({} if body is None else {"json": body})
        )
        return answer.status_code, answer.json()

    async def send(self, action: str, params: Any = None, device: str = "BAT1", **more: Any) -> tuple[int, Any]:
        body = {"action": action} | ({} if params is None else {"params": params})
        return await self.call("POST", f"{self.devices}/{device}/commands", body, **more)

    async def commands(self, query: str = "", **more: Any) -> tuple[int, Any]:
        return await self.call("GET", f"{self.devices}/BAT1/commands{query}", **more)

    async def sql(self, query: str, *parameters: object) -> None:
        async with self.service.state.database.transaction() as db:
            await db.execute(query.encode(), parameters)


@pytest.fixture
async def site(database_url: str, home: Path) -> AsyncIterator[Site]:
    async with api_service(database_url, home) as service:
        database, tokens = service.state.database, service.state.access_tokens

        async def member(organization: Any, role: OrgRole) -> tuple[UUID, dict[str, str]]:
            user = await add_user(database)
            await add_member(database, organization.id, user.id, role)
            return user.id, bearer(await session_of(database, tokens, user)) | {"x-org-id": str(organization.id)}

        async with database.transaction() as db:
            await seed_system_templates(db)
        ours, theirs = await add_organization(database), await add_organization(database)
        operator_id, operator = await member(ours, OrgRole.OPERATOR)
        plant_id = new_id()
        found = Site(
            service,
            operator,
            operator_id,
            (await member(ours, OrgRole.VIEWER))[1],
            (await member(theirs, OrgRole.ORG_ADMIN))[1],
            plant_id,
            f"/plants/{plant_id}/sub-devices",
        )
        await found.sql(
            "INSERT INTO plant (id, organization_id, name, serial_number, type, auth_method, lifecycle_status)"
            " VALUES (%s, %s, 'Plant', 'SN', 'GATEWAY', 'PASSWORD', 'ACTIVE')",
            plant_id,
            ours.id,
        )
        body = {"externalId": "BAT1", "name": "Battery", "type": "BATTERY", "templateId": BATTERY}
        assert (await found.call("POST", found.devices, body))[0] == 201
        yield found


async def test_a_command_is_issued_and_listed(site: Site) -> None:
    status, answer = await site.send("set_power", {"power_kw": -2.5})

    assert status == 200
    assert answer == {"message": "set_power was issued to BAT1.", "commandId": answer["commandId"]}
    assert UUID(answer["commandId"]).version == 7
    status, page = await site.commands(headers=site.viewer)
    assert status == 200
    assert page["meta"] == {"page": 1, "limit": 20, "total": 1, "totalPages": 1}
    [command] = page["data"]
    issued, expires = (datetime.fromisoformat(command.pop(name)) for name in ("issuedAt", "expiresAt"))
    assert expires - issued == timedelta(seconds=30)
    assert command == {
        "id": answer["commandId"],
        "plantId": str(site.plant_id),
        "externalId": "BAT1",
        "action": "set_power",
        "params": {"power_kw": -2.5},
        "status": "PENDING",
        "sentAt": None,
        "receivedAt": None,
        "finishedAt": None,
        "reason": None,
        "requestedBy": {"type": "USER", "id": str(site.operator_id)},
    }


async def test_newest_first_in_pages(site: Site) -> None:
    ids = [(await site.send(action))[1]["commandId"] for action in ("stop", "start", "reset_fault")]

    _, first = await site.commands("?limit=2")
    _, second = await site.commands("?limit=2&page=2")

    assert [one["id"] for one in first["data"] + second["data"]] == ids[::-1]
    assert first["data"][0]["params"] == {}
    assert (await site.commands("?limit=0"))[1]["code"] == "VALIDATION_ERROR"


async def test_a_path_longer_than_an_entry_of_an_index_is_that_of_no_device(site: Site) -> None:
    headers = {**site.operator, "idempotency-key": "order-1"}
    status, answer = await site.call(
        "POST", f"{site.devices}/{secrets.token_urlsafe(3_000)}/commands", {"action": "stop"}, headers=headers
    )
    assert (status, answer["code"]) == (404, "SUB_DEVICE_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ({}, ["action: is required"]),
        ({"action": 5}, None),
        ({"action": "x" * 65}, None),
        ({"action": "stop", "params": []}, None),
        ({"action": "stop", "params": None}, None),
        ({"action": "stop", "param": {}}, None),
        ({"action": "fly"}, ["action: is not one of the template's (set_power, start, stop, reset_fault)"]),
        ({"action": ""}, ["action: is not one of the template's (set_power, start, stop, reset_fault)"]),
        ({"action": "set_power"}, ["params.power_kw: is required"]),
        ({"action": "set_power", "params": {"power_kw": "2", "x": 1, "y": None}}, 3),
        ({"action": "stop", "params": {"now": True}}, ["params.now: is no parameter of stop"]),
    ],
)
async def test_a_wrong_order_is_refused_with_every_complaint(site: Site, body: Any, details: list[str] | int | None) -> None:
    status, answer = await site.call("POST", f"{site.devices}/BAT1/commands", body)

    assert (status, answer["code"]) == (400, "COMMAND_ACTION_NOT_IN_TEMPLATE")
    if isinstance(details, list):
        assert answer["details"] == details
    else:
        assert len(answer["details"]) == (details or 1)
    assert (await site.commands())[1]["data"] == []


async def test_parameters_have_a_size(site: Site) -> None:
    await site.sql(
        "UPDATE device_template SET actions = %s::jsonb WHERE id = %s",
        '[{"action": "show", "params": [{"name": "text", "type": "string"}]}]',
        BATTERY,
    )
    assert (await site.send("show", {"text": "x" * 65_000}))[0] == 200

    status, answer = await site.send("show", {"text": "x" * 70_000})

    assert (status, answer["details"]) == (400, ["params: must have at most 65536 bytes"])


async def test_a_request_that_is_repeated_with_its_key_is_one_command(site: Site) -> None:
    headers = site.operator | {"idempotency-key": "press-1"}

    first, second = await site.send("stop", headers=headers), await site.send("stop", headers=headers)
    third = await site.send("stop")

    assert first == second
    assert third[1]["commandId"] != first[1]["commandId"]
    assert (await site.commands())[1]["meta"]["total"] == 2


@pytest.mark.parametrize(("commands", "letters"), [(999, 0), (8, 1 << 20)])
async def test_a_plant_is_not_buried_in_commands(site: Site, commands: int, letters: int) -> None:
    await site.send("stop")
    await site.sql(
        "INSERT INTO plant_command (id, plant_id, type, instruction, requester_type, issued_at, expires_at, due_at)"
        " SELECT gen_random_uuid(), plant_id, type, instruction || jsonb_build_object('params', repeat('x', %s)),"
        " requester_type, issued_at, expires_at, due_at FROM plant_command, generate_series(1, %s)",
        letters,
        commands,
    )

    status, answer = await site.send("stop")
    assert (status, answer["code"]) == (429, "TOO_MANY_REQUESTS")

    await site.sql(
        "UPDATE plant_command SET status = 'RECEIVED', due_at = NULL"
        " WHERE id = (SELECT id FROM plant_command WHERE sub_device_id IS NULL LIMIT 1)"
    )
    assert (await site.send("stop"))[0] == 200


async def test_a_device_without_a_template_has_no_actions(site: Site) -> None:
    await site.call("POST", site.devices, {"externalId": "M", "name": "Meter", "type": "METER"})

    status, answer = await site.send("stop", device="M")

    assert (status, answer["code"]) == (400, "COMMAND_ACTION_NOT_IN_TEMPLATE")
    assert answer["details"] == ["action: the sub-device has no template, so it has no actions"]


@pytest.mark.parametrize("lifecycle", ["PENDING", "SUSPENDED", "DECOMMISSIONED"])
async def test_only_an_active_plant_is_commanded(site: Site, lifecycle: str) -> None:
    await site.sql("UPDATE plant SET lifecycle_status = %s", lifecycle)

    status, answer = await site.send("stop")

    assert (status, answer["code"]) == (403, "FORBIDDEN")
    assert lifecycle in answer["message"]
    assert (await site.send("fly"))[1]["code"] == "COMMAND_ACTION_NOT_IN_TEMPLATE"


async def test_what_is_not_there_or_not_ours_is_not_found(site: Site) -> None:
    for device in ("BAT2", "%00", "x" * 40):
        assert (await site.send("stop", device=device))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    assert (await site.send("stop", headers=site.stranger))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    assert (await site.commands(headers=site.stranger))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    elsewhere = f"/plants/{uuid4()}/sub-devices/BAT1/commands"
    assert (await site.call("GET", elsewhere))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    assert (await site.call("POST", elsewhere, {"action": "stop"}))[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    malformed = "/plants/5/sub-devices/BAT1/commands"
    assert (await site.call("GET", malformed))[1]["code"] == "INVALID_UUID"
    assert (await site.call("POST", malformed, {"action": "stop"}))[1]["code"] == "INVALID_UUID"


async def test_viewers_read_and_do_not_send(site: Site) -> None:
    assert (await site.send("stop", headers=site.viewer))[0] == 403
    assert (await site.commands(headers=site.viewer))[0] == 200


@pytest.mark.parametrize(("state", "reason"), [("PENDING", "NOT_SENT"), ("SENT", "NOT_RECEIVED"), ("RECEIVED", "NOT_FINISHED")])
async def test_a_command_whose_time_has_passed_reads_as_expired_before_any_sweep(site: Site, state: str, reason: str) -> None:
    await site.send("stop")
    await site.sql(
        "UPDATE plant_command SET status = %s, issued_at = issued_at - interval '1 hour',"
        " expires_at = expires_at - interval '1 hour', due_at = CASE WHEN %s THEN due_at END",
        state,
        state != "RECEIVED",
    )

    [command] = (await site.commands())[1]["data"]

    assert (command["status"], command["reason"]["code"]) == ("EXPIRED", reason)
    assert command["finishedAt"] == command["expiresAt"]


async def test_a_command_stays_readable_when_its_plant_moves_and_goes_with_its_plant(site: Site) -> None:
    await site.send("stop")
    other = await add_organization(site.service.state.database)
    root = await site.service.super_admin()
    await site.call(
        "PATCH",
        f"/plants/{site.plant_id}",
        {"organizationId": str(other.id)},
        headers=root | {"x-org-id": site.operator["x-org-id"]},
    )

    assert (await site.commands())[1]["code"] == "SUB_DEVICE_NOT_FOUND"
    [command] = (await site.commands(headers=root | {"x-org-id": str(other.id)}))[1]["data"]
    assert (command["status"], command["reason"]["code"]) == ("EXPIRED", "PLANT_MOVED")
    await site.sql("DELETE FROM plant")
    async with site.service.state.database.transaction() as db:
        cursor = await db.execute("SELECT count(*) FROM plant_command_transition")
        assert await cursor.fetchone() == (0,)


async def test_a_new_device_of_the_same_name_has_no_past(site: Site) -> None:
    await site.send("stop")
    await site.sql("DELETE FROM sub_device")
    body = {"externalId": "BAT1", "name": "Battery", "type": "BATTERY", "templateId": BATTERY}
    await site.call("POST", site.devices, body)

    assert (await site.commands())[1]["data"] == []


async def test_a_command_keeps_the_id_of_the_call_that_issued_it(site: Site) -> None:
    request_id = str(new_id())
    status, _ = await site.send("stop", headers={**site.operator, "x-request-id": request_id})
    assert status == 200
    async with site.service.state.database.transaction() as db:
        rows = await (await db.execute("SELECT cause->>'request_id' FROM plant_command")).fetchall()
    assert rows == [(request_id,)]


async def test_a_template_that_is_deleted_during_the_request_has_no_actions(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def then_deleted(*arguments: Any) -> SubDevice:
        device = await get_sub_device(*arguments)
        await site.sql("UPDATE sub_device SET template_id = NULL")
        await site.sql("DELETE FROM device_template WHERE id = %s", device.template_id)
        return device

    monkeypatch.setattr(dispatch, "get_sub_device", then_deleted)
    status, answer = await site.send("set_power", {"power_kw": 1})
    assert (status, answer["code"]) == (400, "COMMAND_ACTION_NOT_IN_TEMPLATE")
    assert answer["details"] == ["action: the sub-device's template was deleted in the meantime"]
