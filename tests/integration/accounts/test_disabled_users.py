"""Users that a SuperAdmin disables: what ends, what stays, and who cannot be disabled."""

import asyncio
from uuid import uuid4

import pytest

from gridfleet.domains.notifications.logs import list_deliveries
from gridfleet.domains.notifications.models import Channel
from gridfleet.domains.notifications.queue import NotificationContent
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.clock import utc_now
from gridfleet.kernel.pagination import Paging
from support.builders.accounts import add_member, add_user
from support.builders.notifications import notify_members
from support.builders.telemetry_records import RecordedPlant
from support.clients.open_stream import OpenStream
from support.clients.people import PASSWORD, People, refused
from support.servers.postbox import mails_to


async def test_a_disabled_user_is_out_at_once_and_in_again_when_enabled(people: People) -> None:
    root, ada = await people.person(super_admin=True), await people.with_password("ada@example.com")
    login = await people.call("POST", "/auth/login", {"email": ada.email, "password": PASSWORD})
    cookie = {"cookie": f"gridfleet_refresh={login.cookies['gridfleet_refresh']}"}
    people.service.client.cookies.clear()
    disabled = await people.call("POST", f"/users/{ada.id}/disable", who=root)
    assert disabled.status_code == 200
    assert disabled.json()["disabledAt"] is not None
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")
    refused(await people.call("POST", "/auth/refresh", headers=cookie), 401, "REFRESH_TOKEN_INVALID")
    right = await people.log_in(ada.email)
    refused(right, 403, "ACCOUNT_LOCKED")
    assert "disabled" in right.json()["message"]
    refused(await people.log_in(ada.email, "another password"), 401, "INVALID_CREDENTIALS")
    again = await people.call("POST", f"/users/{ada.id}/disable", who=root)
    assert again.json() == disabled.json()
    assert (await people.call("GET", "/users?disabled=true", who=root)).json()["meta"]["total"] == 1
    enabled = await people.call("POST", f"/users/{ada.id}/enable", who=root)
    assert enabled.json()["disabledAt"] is None
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")
    assert (await people.log_in(ada.email)).status_code == 200
    assert (await people.call("POST", f"/users/{ada.id}/enable", who=root)).json() == enabled.json()
    events = [event["event"] for event in await people.events(of=ada.id) if event["actorId"] == str(root.id)]
    assert events == ["user.disabled", "user.enabled"]


async def test_who_may_disable_whom(people: People) -> None:
    root, boss, ada = await people.person(super_admin=True), await people.person(), await people.person()
    await people.organization(ORG_ADMIN=boss, VIEWER=ada)
    for action in ("disable", "enable"):
        refused(await people.call("POST", f"/users/{ada.id}/{action}", who=boss), 403, "SUPER_ADMIN_REQUIRED")
        refused(await people.call("POST", f"/users/{ada.id}/{action}"), 401, "UNAUTHORIZED")
        refused(await people.call("POST", f"/users/{uuid4()}/{action}", who=root), 404, "NOT_FOUND")
        refused(await people.call("POST", f"/users/5/{action}", who=root), 400, "INVALID_UUID")
    refused(await people.call("POST", f"/users/{root.id}/disable", who=root), 403, "FORBIDDEN")
    other = await people.person(super_admin=True)
    assert (await people.call("POST", f"/users/{other.id}/disable", who=root)).status_code == 200
    refused(await people.call("POST", f"/users/{root.id}/disable", who=root), 403, "FORBIDDEN")
    assert (await people.call("GET", "/auth/me", who=root)).status_code == 200


async def test_two_super_admins_who_disable_each_other_leave_one(people: People) -> None:
    one, two = await people.person(super_admin=True), await people.person(super_admin=True)
    answers = await asyncio.gather(
        people.call("POST", f"/users/{two.id}/disable", who=one), people.call("POST", f"/users/{one.id}/disable", who=two)
    )
    assert sorted(answer.status_code for answer in answers) == [200, 401]
    left = await people.execute("SELECT id FROM user_account WHERE is_super_admin AND disabled_at IS NULL")
    assert len(left) == 1


async def test_a_stream_of_a_disabled_user_ends(people: People) -> None:
    database, ada = people.service.state.database, await people.person()
    plant = await RecordedPlant.create(database)
    await plant.write(None, ["a"], {utc_now().replace(microsecond=0): [1.0]})
    await add_member(database, plant.organization_id, ada.id, OrgRole.VIEWER)
    headers = {**ada.headers, "x-org-id": str(plant.organization_id)}
    stream = OpenStream(people.service, f"/api/v1/plants/{plant.id}/live", headers)
    assert await stream.event() == [("a", 1.0)]
    await people.call("POST", f"/users/{ada.id}/disable", who=await people.person(super_admin=True))
    assert await stream.event() is None
    await stream.task


async def test_a_disabled_user_gets_no_mail(people: People) -> None:
    """Neither notifications nor a link to set a new password; a link that was mailed before is dead."""
    state, root = people.service.state, await people.person(super_admin=True)
    ada, ben = await people.with_password("ada@example.com"), await people.person()
    org = await people.organization(OPERATOR=ada, ORG_ADMIN=ben)
    await people.call("POST", "/auth/forgot-password", {"email": ada.email})
    before = len(await mails_to(state, ada.email))
    await people.call("POST", f"/users/{ada.id}/disable", who=root)
    assert await people.execute("SELECT user_id FROM password_reset") == []
    await people.call("POST", "/auth/forgot-password", {"email": ada.email})
    assert len(await mails_to(state, ada.email)) == before
    async with state.database.transaction() as db:
        await notify_members(db, org.id, [Channel.EMAIL], NotificationContent("Low", "bat1.soc is 9 %", {}))
        assert [log.user_id for log in (await list_deliveries(db, Paging())).data] == [ben.id]


async def test_an_organisations_last_org_admin_is_one_who_can_log_in(people: People) -> None:
    root, ada, ben = await people.person(super_admin=True), await people.person(), await people.person()
    org = await people.organization(ORG_ADMIN=ada)
    await add_member(people.service.state.database, org.id, ben.id, OrgRole.ORG_ADMIN)
    await people.call("POST", f"/users/{ben.id}/disable", who=root)
    members = (await people.call("GET", f"/organizations/{org.id}/members", who=ada)).json()["data"]
    [own] = [member["id"] for member in members if member["userId"] == str(ada.id)]
    assert [member["user"]["disabledAt"] is None for member in members] == [False, True]
    refused(await people.call("DELETE", f"/organizations/{org.id}/members/{own}", who=ada), 403, "FORBIDDEN")


async def test_users_are_searched_and_counted(people: People) -> None:
    root, database = await people.person("root@example.com", super_admin=True), people.service.state.database
    users = {name: await add_user(database, f"{name}@example.com") for name in ("ada", "a_a", "100%", "back\\slash")}
    orgs = [await people.organization() for _ in range(2)]
    for org in orgs:
        await add_member(database, org.id, users["ada"].id, OrgRole.VIEWER)

    async def found(**query: str) -> list[str]:
        answer = await people.call("GET", "/users", who=root, params=query)
        assert answer.json()["meta"]["total"] == len(answer.json()["data"])
        return [user["email"].partition("@")[0] for user in answer.json()["data"]][::-1]

    assert await found() == ["root", *users]
    assert await found(q="ADA") == ["ada"]
    assert await found(q="a_a") == ["a_a"]
    assert await found(q="%") == ["100%"]
    assert await found(q="\\") == ["back\\slash"]
    assert await found(q="test user") == ["root", *users]
    assert await found(q="no record at all") == []
    assert await found(role="ADMIN") == ["root"]
    assert await found(role="USER", q="a") == list(users)
    assert await found(disabled="false", q="ada") == ["ada"]
    assert await found(disabled="true") == []
    listed = (await people.call("GET", "/users?q=ada", who=root)).json()["data"]
    assert [user["organizationCount"] for user in listed] == [2]
    single = (await people.call("GET", f"/users/{users['ada'].id}", who=root)).json()
    assert single["organizations"] == [
        {"id": str(org.id), "name": org.name, "role": "VIEWER", "slug": org.slug} for org in orgs
    ]
    for query in ("q=", f"q={'x' * 101}", "role=OWNER", "disabled=1", "search=a"):
        refused(await people.call("GET", f"/users?{query}", who=root), 400, "VALIDATION_ERROR")


async def test_organisations_and_members_are_searched_and_counted(people: People) -> None:
    root, boss = await people.person(super_admin=True), await people.person("boss@example.com")
    org, other = await people.organization(ORG_ADMIN=boss), await people.organization()
    for number in range(3):
        user = await add_user(people.service.state.database, f"viewer{number}@example.com")
        await add_member(people.service.state.database, org.id, user.id, OrgRole.VIEWER)
    await people.call("POST", "/plants", {"name": "P", "serialNumber": "S", "type": "GATEWAY"}, who=boss, org=org.id)
    listed = (await people.call("GET", "/organizations", who=root)).json()["data"]
    assert [(one["slug"], one["memberCount"], one["plantCount"]) for one in listed] == [(other.slug, 0, 0), (org.slug, 4, 1)]
    by_slug = (await people.call("GET", "/organizations", who=root, params={"q": other.slug[-8:].upper()})).json()
    assert ([one["id"] for one in by_slug["data"]], by_slug["meta"]["total"]) == ([str(other.id)], 1)

    async def members(query: str) -> tuple[list[str], int]:
        answer = (await people.call("GET", f"/organizations/{org.id}/members?{query}", who=boss)).json()
        return [member["user"]["email"] for member in answer["data"]], answer["meta"]["total"]

    assert await members("role=VIEWER&limit=1") == (["viewer2@example.com"], 3)
    assert await members("q=VIEWER1") == (["viewer1@example.com"], 1)
    assert await members("q=boss&role=VIEWER") == ([], 0)
    for path in (f"/organizations/{org.id}/members?role=USER", f"/organizations/{org.id}/members?q="):
        refused(await people.call("GET", path, who=boss), 400, "VALIDATION_ERROR")
    refused(await people.call("GET", f"/organizations/{org.id}/members?q=a", who=await people.person()), 403, "FORBIDDEN")


@pytest.mark.parametrize("action", ["disable", "enable"])
async def test_an_api_key_disables_no_user(people: People, action: str) -> None:
    root, ada = await people.person(super_admin=True), await people.person()
    org = await people.organization()
    body = {"name": "K", "partnerId": "p", "scopes": ["plants:read", "plants:write"]}
    key = (await people.call("POST", "/partner/api-keys", body, who=root, org=org.id)).json()["key"]
    answer = await people.call("POST", f"/users/{ada.id}/{action}", headers={"x-api-key": key})
    refused(answer, 403, "SUPER_ADMIN_REQUIRED")
