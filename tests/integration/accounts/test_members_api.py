"""Members of an organisation: seen, promoted, demoted, removed, and what of it can never happen."""

import asyncio
from uuid import uuid4

import pytest

from support.clients.people import People, refused


async def test_members_are_listed_newest_first_with_their_accounts(people: People) -> None:
    boss, viewer = await people.person("boss@example.com"), await people.person("viewer@example.com")
    org = await people.organization(ORG_ADMIN=boss, VIEWER=viewer)
    answer = await people.call("GET", f"/organizations/{org.id}/members", who=boss)
    assert answer.status_code == 200
    assert answer.json()["meta"] == {"page": 1, "limit": 20, "total": 2, "totalPages": 1}
    newest, oldest = answer.json()["data"]
    assert set(newest) == {"id", "organizationId", "userId", "role", "user", "createdAt", "updatedAt"}
    assert (newest["userId"], newest["role"], newest["organizationId"]) == (str(viewer.id), "VIEWER", str(org.id))
    assert set(newest["user"]) == {"id", "email", "name", "role", "disabledAt", "createdAt", "updatedAt"}
    assert (newest["user"]["email"], newest["user"]["role"]) == ("viewer@example.com", "USER")
    assert oldest["userId"] == str(boss.id)
    second = await people.call("GET", f"/organizations/{org.id}/members?page=2&limit=1", who=boss)
    assert [member["id"] for member in second.json()["data"]] == [oldest["id"]]


async def test_what_the_organisation_in_the_path_answers(people: People) -> None:
    boss, stranger = await people.person(), await people.person(super_admin=False)
    admin = await people.person(super_admin=True)
    org = await people.organization(ORG_ADMIN=boss)
    url = f"/organizations/{org.id}/members"
    assert refused(await people.call("GET", f"{url}?limit=0", who=boss), 400, "VALIDATION_ERROR")
    for who in (boss, stranger, admin):
        refused(await people.call("GET", "/organizations/5/members", who=who), 400, "INVALID_UUID")
        refused(await people.call("DELETE", f"/organizations/5/members/{uuid4()}", who=who), 400, "INVALID_UUID")
        refused(await people.call("PATCH", f"/organizations/5/members/{uuid4()}", {}, who=who), 400, "BAD_REQUEST")
    unknown = f"/organizations/{uuid4()}/members"
    for who in (boss, stranger):
        refused(await people.call("GET", unknown, who=who), 403, "FORBIDDEN")
    assert (await people.call("GET", unknown, who=admin)).json()["data"] == []
    refused(await people.call("DELETE", f"{unknown}/{uuid4()}", who=admin), 404, "MEMBER_NOT_FOUND")
    refused(await people.call("PATCH", f"{unknown}/{uuid4()}", {"role": "VIEWER"}, who=admin), 404, "MEMBER_NOT_FOUND")
    assert (await people.call("GET", url, who=admin, org=uuid4())).status_code == 200, "the path names the organisation"


async def test_roles_change_at_once_and_are_recorded(people: People) -> None:
    boss, other = await people.person(), await people.person()
    org = await people.organization(ORG_ADMIN=boss, VIEWER=other)
    member = (await people.call("GET", f"/organizations/{org.id}/members", who=boss)).json()["data"][0]
    url = f"/organizations/{org.id}/members/{member['id']}"
    refused(await people.call("GET", f"/organizations/{org.id}/members", who=other), 403, "FORBIDDEN")
    changed = await people.call("PATCH", url, {"role": "OPERATOR"}, who=boss)
    assert (changed.status_code, changed.json()["role"]) == (200, "OPERATOR")
    assert changed.json()["updatedAt"] > member["updatedAt"]
    assert (await people.call("GET", f"/organizations/{org.id}/members", who=other)).status_code == 200
    refused(await people.call("PATCH", url, {"role": "VIEWER"}, who=other), 403, "FORBIDDEN")
    for body in ({}, {"role": "BOSS"}, {"role": None}, {"role": "VIEWER", "x": 1}, []):
        refused(await people.call("PATCH", url, body, who=boss), 400, "BAD_REQUEST")
    refused(await people.call("PATCH", url[:-1], {"role": "VIEWER"}, who=boss), 400, "BAD_REQUEST")
    [event] = [event for event in await people.events() if event["event"] == "member.role_changed"]
    assert event["details"] == {"userId": str(other.id), "from": "VIEWER", "to": "OPERATOR"}
    assert (event["organizationId"], event["actorType"], event["actorId"]) == (str(org.id), "USER", str(boss.id))
    assert (event["subjectType"], event["subjectId"]) == ("MEMBER", member["id"])
    again = await people.call("PATCH", url, {"role": "OPERATOR"}, who=boss)
    assert again.json() == changed.json(), "the same role changes nothing"


async def test_a_removed_member_is_out_at_once_and_starts_elsewhere(people: People) -> None:
    boss, other = await people.person(), await people.person()
    org, elsewhere = await people.organization(ORG_ADMIN=boss, OPERATOR=other), await people.organization(VIEWER=other)
    await people.call("PATCH", "/auth/default-org", {"organizationId": str(org.id)}, who=other)
    member = (await people.call("GET", f"/organizations/{org.id}/members", who=boss)).json()["data"][0]
    url = f"/organizations/{org.id}/members/{member['id']}"
    refused(await people.call("DELETE", url, who=other), 403, "FORBIDDEN")
    removed = await people.call("DELETE", url, who=boss)
    assert (removed.status_code, set(removed.json())) == (200, {"message"})
    refused(await people.call("GET", "/plants", who=other, org=org.id), 403, "FORBIDDEN")
    refused(await people.call("DELETE", url, who=boss), 404, "MEMBER_NOT_FOUND")
    user = (await people.call("GET", "/auth/me", who=other)).json()["user"]
    assert user["defaultOrganizationId"] is None
    assert user["currentOrganization"]["id"] == str(elsewhere.id)
    assert [event["event"] for event in await people.events(of=member["id"])] == ["member.removed"]


async def test_the_last_admin_stays_unless_a_super_admin_says_otherwise(people: People) -> None:
    boss, admin = await people.person(), await people.person(super_admin=True)
    org = await people.organization(ORG_ADMIN=boss)
    [member] = (await people.call("GET", f"/organizations/{org.id}/members", who=boss)).json()["data"]
    url = f"/organizations/{org.id}/members/{member['id']}"
    refused(await people.call("PATCH", url, {"role": "VIEWER"}, who=boss), 403, "FORBIDDEN")
    refused(await people.call("DELETE", url, who=boss), 403, "FORBIDDEN")
    assert (await people.call("PATCH", url, {"role": "ORG_ADMIN"}, who=boss)).status_code == 200
    assert (await people.call("PATCH", url, {"role": "VIEWER"}, who=admin)).status_code == 200
    assert (await people.call("DELETE", url, who=admin)).status_code == 200


@pytest.mark.parametrize("how", ["demote", "remove"])
async def test_two_admins_who_turn_on_each_other_leave_one(people: People, how: str) -> None:
    for _ in range(5):
        first, second = await people.person(), await people.person()
        org = await people.organization(ORG_ADMIN=first)
        admin = await people.person(super_admin=True)
        await people.execute(
            "INSERT INTO membership (id, organization_id, user_id, role) VALUES (gen_random_uuid(), %s, %s, 'ORG_ADMIN')",
            org.id,
            second.id,
        )
        ids = {
            member["userId"]: member["id"]
            for member in (await people.call("GET", f"/organizations/{org.id}/members", who=admin)).json()["data"]
        }
        method, body = ("PATCH", {"role": "VIEWER"}) if how == "demote" else ("DELETE", None)
        answers = await asyncio.gather(
            people.call(method, f"/organizations/{org.id}/members/{ids[str(second.id)]}", body, who=first),
            people.call(method, f"/organizations/{org.id}/members/{ids[str(first.id)]}", body, who=second),
        )
        assert sorted(answer.status_code for answer in answers) == [200, 403]
        rows = await people.execute("SELECT role FROM membership WHERE organization_id = %s", org.id)
        assert [row[0] for row in rows].count("ORG_ADMIN") == 1
