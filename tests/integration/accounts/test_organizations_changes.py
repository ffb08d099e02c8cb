"""Organisations changed and deleted."""

import asyncio
from uuid import uuid4

import pytest

from support.builders.interleaving import until_blocked
from support.clients.fleet_under_test import JsonObject
from support.clients.people import PASSWORD, People, refused
from support.servers.postbox import mails_to, token_in


async def test_a_change_touches_what_it_names(people: People) -> None:
    admin = await people.person(super_admin=True)
    org = (await people.call("POST", "/organizations", {"name": "Sun", "slug": "sun", "description": "old"}, who=admin)).json()
    url = f"/organizations/{org['id']}"
    unchanged = await people.call("PATCH", url, {}, who=admin)
    assert (unchanged.status_code, unchanged.json()) == (200, org)
    changed = (await people.call("PATCH", url, {"name": " Sonne "}, who=admin)).json()
    assert (changed["name"], changed["slug"], changed["description"]) == ("Sonne", "sun", "old")
    assert changed["updatedAt"] > org["updatedAt"]
    changed = (await people.call("PATCH", url, {"slug": "sonne-2", "description": ""}, who=admin)).json()
    assert (changed["slug"], changed["description"]) == ("sonne-2", "")
    events = await people.events(of=org["id"])
    assert [event["event"] for event in events] == ["organization.created", "organization.changed", "organization.changed"]
    assert events[1]["details"] == {"name": ["Sun", "Sonne"]}
    assert events[1]["organizationId"] == org["id"]


async def test_what_a_change_refuses(people: People) -> None:
    admin, user = await people.person(super_admin=True), await people.person()
    taken, org = await people.organization(), await people.organization()
    url = f"/organizations/{org.id}"
    refused(await people.call("PATCH", url, {"slug": taken.slug}, who=admin), 409, "CONFLICT")
    assert (await people.call("PATCH", url, {"slug": org.slug}, who=admin)).status_code == 200
    for body in ({"slug": "Not-a-slug"}, {"name": "x"}, {"name": None}, {"description": None}, {"id": str(uuid4())}):
        refused(await people.call("PATCH", url, body, who=admin), 400, "VALIDATION_ERROR")
    refused(await people.call("PATCH", "/organizations/5", {}, who=admin), 400, "VALIDATION_ERROR")
    refused(await people.call("PATCH", f"/organizations/{uuid4()}", {}, who=admin), 404, "ORGANIZATION_NOT_FOUND")
    refused(await people.call("PATCH", url, {"name": "Sun"}, who=user), 403, "SUPER_ADMIN_REQUIRED")


async def test_only_an_empty_organisation_is_deleted(people: People) -> None:
    admin, member = await people.person(super_admin=True), await people.person()
    empty, full = await people.organization(), await people.organization(VIEWER=member)
    await people.call("POST", "/invitations", {"email": "new@example.com"}, who=admin, org=empty.id)
    await people.call("PATCH", "/auth/default-org", {"organizationId": str(empty.id)}, who=admin)
    refused(await people.call("DELETE", f"/organizations/{full.id}", who=admin), 409, "CONFLICT")
    deleted = await people.call("DELETE", f"/organizations/{empty.id}", who=admin)
    assert (deleted.status_code, set(deleted.json())) == (200, {"message"})
    refused(await people.call("GET", f"/organizations/{empty.id}", who=admin), 404, "ORGANIZATION_NOT_FOUND")
    refused(await people.call("DELETE", f"/organizations/{empty.id}", who=admin), 404, "ORGANIZATION_NOT_FOUND")
    refused(await people.call("DELETE", "/organizations/5", who=admin), 400, "INVALID_UUID")
    refused(await people.call("GET", "/plants", who=admin, org=empty.id), 403, "FORBIDDEN")
    assert (await people.call("GET", "/auth/me", who=admin)).json()["user"]["defaultOrganizationId"] is None
    assert [event["event"] for event in await people.events(of=empty.id)] == ["organization.created", "organization.deleted"]


async def test_an_organisation_with_plants_stays(people: People) -> None:
    admin, org = await people.person(super_admin=True), await people.organization()
    plant = {"name": "P", "serialNumber": "1", "type": "GATEWAY"}
    assert (await people.call("POST", "/plants", plant, who=admin, org=org.id)).status_code == 201
    refused(await people.call("DELETE", f"/organizations/{org.id}", who=admin), 409, "CONFLICT")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/plants", {"name": "P", "serialNumber": "1", "type": "GATEWAY"}),
        ("/plant-groups", {"name": "G"}),
        ("/invitations", {"email": "new@example.com"}),
        ("/trading/config", {"esmClientId": "esm"}),
        ("/partner/api-keys", {"name": "K", "partnerId": "p", "scopes": ["telemetry:read"]}),
    ],
)
async def test_a_record_is_created_while_its_organisation_is_deleted(people: People, path: str, body: JsonObject) -> None:
    admin, org = await people.person(super_admin=True), await people.organization()
    database = people.service.state.database
    async with database.transaction() as db:
        await db.execute("SELECT FROM organization WHERE id = %s FOR UPDATE", (org.id,))
        deleting = asyncio.create_task(people.call("DELETE", f"/organizations/{org.id}", who=admin))
        await until_blocked(database)
        creating = asyncio.create_task(people.call("POST", path, body, who=admin, org=org.id))
        await until_blocked(database, 2)
    assert (await deleting).status_code == 200
    refused(await creating, 429, "TOO_MANY_REQUESTS")
    refused(await people.call("POST", path, body, who=admin, org=org.id), 403, "FORBIDDEN")


@pytest.mark.parametrize("has_account", [True, False])
async def test_an_invitation_is_used_while_its_organisation_is_deleted(people: People, has_account: bool) -> None:
    admin, org = await people.person(super_admin=True), await people.organization()
    email = "new@example.com"
    if has_account:
        await people.person(email)
    await people.call("POST", "/invitations", {"email": email}, who=admin, org=org.id)
    token = token_in((await mails_to(people.service.state, email))[-1])
    if has_account:
        using = people.call("GET", f"/auth/confirm-accept?token={token}")
    else:
        body = {"name": "New User", "password": PASSWORD, "token": token}
        using = people.call("POST", "/auth/register/invite", body)
    database = people.service.state.database
    async with database.transaction() as db:
        await db.execute("SELECT FROM organization WHERE id = %s FOR UPDATE", (org.id,))
        deleting = asyncio.create_task(people.call("DELETE", f"/organizations/{org.id}", who=admin))
        await until_blocked(database)
        used = asyncio.create_task(using)
        await until_blocked(database, 2)
    assert (await deleting).status_code == 200
    refused(await used, 404, "INVITATION_NOT_FOUND")
