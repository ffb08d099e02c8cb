"""Accounts as SuperAdmins see them, registration, and who reads which audit events."""

from uuid import uuid4

import pytest

from support.clients.people import PASSWORD, People, refused

NEW = {"email": " New.User@Example.com ", "name": " New User ", "password": PASSWORD}


async def test_a_super_admin_registers_finds_and_lists(people: People) -> None:
    admin = await people.person(super_admin=True)
    made = await people.call("POST", "/auth/register", NEW, who=admin)
    assert made.status_code == 201
    user = made.json()["user"]
    assert user == {"id": user["id"], "email": "new.user@example.com", "name": "New User", "role": "USER"}
    assert (await people.log_in("new.user@example.com")).status_code == 200
    found = (await people.call("GET", f"/users/{user['id']}", who=admin)).json()
    assert set(found) == {"id", "email", "name", "role", "disabledAt", "createdAt", "updatedAt", "organizations"}
    assert found.pop("organizations") == []
    listed = (await people.call("GET", "/users?limit=1", who=admin)).json()
    assert (listed["data"], listed["meta"]["total"]) == ([{**found, "organizationCount": 0}], 2)
    assert (await people.call("GET", f"/users/{admin.id}", who=admin)).json()["role"] == "ADMIN"
    event = (await people.events(of=user["id"]))[0]
    assert (event["event"], event["actorId"]) == ("user.registered", str(admin.id))


async def test_what_registration_and_users_refuse(people: People) -> None:
    admin, user = await people.person(super_admin=True), await people.person("taken@example.com")
    refused(
        await people.call("POST", "/auth/register", {**NEW, "email": "TAKEN@example.com"}, who=admin),
        409,
        "EMAIL_ALREADY_REGISTERED",
    )
    refused(await people.call("POST", "/auth/register", NEW, who=user), 403, "SUPER_ADMIN_REQUIRED")
    refused(await people.call("GET", f"/users/{uuid4()}", who=admin), 404, "NOT_FOUND")
    refused(await people.call("GET", "/users/me", who=admin), 400, "INVALID_UUID")
    refused(await people.call("GET", "/users?page=0", who=admin), 400, "VALIDATION_ERROR")
    refused(await people.call("GET", "/users", who=user), 403, "SUPER_ADMIN_REQUIRED")


@pytest.mark.parametrize(
    ("password", "lacks"),
    [
        ("ABCDEFG1!", "a lowercase letter"),
        ("abcdefg1!", "an uppercase letter"),
        ("Abcdefgh!", "a digit"),
        ("Abcdefgh1", "a special character"),
        ("Abc defg1", "a special character"),
        ("Abcdefgé1", "a special character"),
        ("Abc1!", "8 to 72"),
        ("Abc1!" * 15, "8 to 72"),
    ],
)
async def test_a_refused_password_lists_what_it_lacks(people: People, password: str, lacks: str) -> None:
    admin = await people.person(super_admin=True)
    [detail] = refused(
        await people.call("POST", "/auth/register", {**NEW, "password": password}, who=admin), 400, "VALIDATION_ERROR"
    )
    assert detail.startswith("password: ")
    assert lacks in detail


async def test_a_repeated_registration_gets_its_first_answer(people: People) -> None:
    admin = await people.person(super_admin=True)
    key = {"idempotency-key": "once"}
    first = await people.call("POST", "/auth/register", NEW, who=admin, headers=key)
    second = await people.call("POST", "/auth/register", NEW, who=admin, headers=key)
    assert (first.status_code, second.status_code, first.json()) == (201, 201, second.json())


async def test_who_reads_which_events(people: People) -> None:
    boss, viewer = await people.person(), await people.person()
    admin = await people.person(super_admin=True)
    org, other = await people.organization(ORG_ADMIN=boss, VIEWER=viewer), await people.organization()
    await people.call("POST", "/auth/logout", who=await people.person())
    own = (await people.call("GET", "/audit-events", who=boss, org=org.id)).json()
    assert {event["organizationId"] for event in own["data"]} == {str(org.id)}
    assert set(own["data"][0]) == {
        *("id", "event", "organizationId", "actorType", "actorId", "subjectType", "subjectId", "plantId", "details"),
        *("ip", "createdAt"),
    }
    for who, where in ((viewer, org.id), (boss, other.id), (boss, None), (boss, uuid4()), (admin, uuid4())):
        refused(await people.call("GET", "/audit-events", who=who, org=where), 403, "FORBIDDEN")
    everything = (await people.call("GET", "/audit-events?limit=100", who=admin)).json()
    assert {str(org.id), str(other.id), None} <= {event["organizationId"] for event in everything["data"]}
    assert [event["createdAt"] for event in everything["data"]] == sorted(
        (event["createdAt"] for event in everything["data"]), reverse=True
    )
    narrowed = (await people.call("GET", "/audit-events", who=admin, org=other.id)).json()
    assert {event["organizationId"] for event in narrowed["data"]} == {str(other.id)}


async def test_events_are_filtered(people: People) -> None:
    admin = await people.person(super_admin=True)
    for _ in range(3):
        await people.organization()
    everything = (await people.call("GET", "/audit-events?event=organization.created", who=admin)).json()
    assert everything["meta"]["total"] == 3
    middle = everything["data"][1]["createdAt"]

    async def count(query: str) -> int:
        answer = await people.call("GET", f"/audit-events?event=organization.created&{query}", who=admin)
        return int(answer.json()["meta"]["total"])

    assert await count(f"from={middle}") in (2, 3), "inclusive, to the millisecond"
    assert await count(f"to={middle}") <= 1, "exclusive"
    assert (await people.call("GET", "/audit-events?event=no.such_event", who=admin)).json()["data"] == []
    for query in ("from=yesterday", f"from={middle}&to={middle}", "event=", "limit=101", "user=5"):
        refused(await people.call("GET", f"/audit-events?{query}", who=admin), 400, "VALIDATION_ERROR")


async def test_logins_failures_locks_and_logouts_are_recorded_with_their_address(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    for _ in range(10):
        await people.log_in("ada@example.com", "wrong password")
    await people.log_in("ada@example.com")
    await people.log_in("nobody@example.com", "wrong password")
    await people.call("POST", "/auth/logout", who=ada)
    events = await people.events()
    mine = [event for event in events if event["subjectId"] == str(ada.id)]
    assert [event["event"] for event in mine] == [
        "user.logged_in",
        *(["user.login_failed"] * 10),
        "user.locked",
        "user.logged_out",
    ]
    assert {event["ip"] for event in mine} == {"127.0.0.1"}
    assert [mine[0]["actorType"], mine[1]["actorType"], mine[1]["actorId"]] == ["USER", "ANONYMOUS", None]
    [unknown] = [event for event in events if event["event"] == "user.login_failed" and event["subjectId"] is None]
    assert unknown["details"] == {"known": False}
    assert "nobody@example.com" not in str(events)


async def test_an_event_is_never_changed_and_forgotten_when_old(people: People) -> None:
    await people.organization()
    with pytest.raises(Exception, match="never changed"):
        await people.execute("UPDATE audit_event SET event = 'nothing'")
    from gridfleet.domains.audit.recorder import delete_old

    await delete_old(people.service.state.database, 1, 1)
    assert len(await people.execute("SELECT 1 FROM audit_event")) == 1
    await people.execute("ALTER TABLE audit_event DISABLE TRIGGER audit_event_unchanged")
    await people.execute("UPDATE audit_event SET created_at = created_at - interval '1 day'")
    await delete_old(people.service.state.database, 1, 1)
    assert await people.execute("SELECT 1 FROM audit_event") == []


async def test_a_refused_change_is_not_recorded(people: People) -> None:
    admin = await people.person(super_admin=True)
    org = await people.organization()
    await people.call("POST", "/organizations", {"name": "Twice", "slug": org.slug}, who=admin)
    assert [event["event"] for event in await people.events()] == ["user.logged_in", "organization.created", "user.logged_in"]
