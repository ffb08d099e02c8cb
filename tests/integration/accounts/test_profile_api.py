"""What people change about themselves: name, address, where they start."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from gridfleet.domains.identity.accounts import admins, email_change, password_reset
from gridfleet.kernel.caller import OrgRole, UserCaller
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member
from support.builders.interleaving import until_blocked
from support.clients.people import PASSWORD, People, Person, refused
from support.servers.postbox import mails_to, text_of, token_in


async def test_the_name_changes_at_once(people: People) -> None:
    ada = await people.person()
    before = (await people.call("GET", "/auth/me", who=ada)).json()
    assert (await people.call("PATCH", "/auth/me", {}, who=ada)).json() == before
    changed = await people.call("PATCH", "/auth/me", {"name": " Ada "}, who=ada)
    assert changed.json() == {"user": {**before["user"], "name": "Ada"}}
    assert (await people.call("GET", "/auth/me", who=ada)).json() == changed.json()


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 121},
        {"name": None},
        {"email": "nonsense"},
        {"email": None},
        {"currentPassword": ""},
        {"currentPassword": "x" * 201},
        {"role": "ADMIN"},
        {"isSuperAdmin": True},
        [],
    ],
)
async def test_bad_changes_are_validation_errors(people: People, body: object) -> None:
    refused(await people.call("PATCH", "/auth/me", body, who=await people.person()), 400, "VALIDATION_ERROR")


async def test_a_new_address_counts_once_it_is_confirmed(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    state = people.service.state
    body = {"email": " New@Example.com", "currentPassword": PASSWORD, "name": "Ada"}
    asked = await people.call("PATCH", "/auth/me", body, who=ada)
    assert (asked.status_code, asked.json()["user"]["email"], asked.json()["user"]["name"]) == (200, "ada@example.com", "Ada")
    [proof], [notice] = await mails_to(state, "new@example.com"), await mails_to(state, "ada@example.com")
    assert "/account/confirm-email#token=" in text_of(proof)
    assert "new@example.com" in text_of(notice)
    assert "token=" not in text_of(notice)
    token = token_in(proof)
    assert (await people.call("POST", "/auth/email/confirm", {"token": token})).status_code == 200
    assert (await people.call("GET", "/auth/me", who=ada)).json()["user"]["email"] == "new@example.com"
    refused(await people.call("POST", "/auth/email/confirm", {"token": token}), 400, "VALIDATION_ERROR")
    refused(await people.log_in("ada@example.com"), 401, "INVALID_CREDENTIALS")
    assert (await people.log_in("NEW@example.com")).status_code == 200
    assert len(await mails_to(state, "ada@example.com")) == 2
    events = [event for event in await people.events(of=ada.id) if "email" in event["event"]]
    assert [event["event"] for event in events] == ["user.email_change_requested", "user.email_changed"]
    assert events[1]["details"] == {"from": "ada@example.com", "to": "new@example.com"}


async def test_a_new_address_needs_the_password_and_changes_nothing_without(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    for proof in ({}, {"currentPassword": "wrong"}):
        body = {"email": "new@example.com", "name": "Somebody else", **proof}
        refused(await people.call("PATCH", "/auth/me", body, who=ada), 401, "UNAUTHORIZED")
    assert (await people.call("GET", "/auth/me", who=ada)).json()["user"]["name"] == "Test User"
    assert await mails_to(people.service.state, "new@example.com") == []


async def test_a_new_address_is_refused_if_the_password_changes_meanwhile(people: People) -> None:
    """Otherwise a client with the old password would get a token that is valid after the change."""
    ada, database = await people.with_password("ada@example.com"), people.service.state.database
    async with database.transaction() as db:
        await admins.set_password(db, "ada@example.com", "another hash")
        body = {"email": "new@example.com", "currentPassword": PASSWORD}
        asking = asyncio.create_task(people.call("PATCH", "/auth/me", body, who=ada))
        waiting = asyncio.create_task(until_blocked(database))
        await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    refused(await asking, 401, "UNAUTHORIZED")
    assert await mails_to(people.service.state, "new@example.com") == []
    async with database.transaction() as db:
        assert await (await db.execute("SELECT FROM email_change")).fetchall() == []


async def test_a_reset_at_the_moment_of_a_new_address_does_not_go_to_the_former_one(people: People) -> None:
    ada, database = await people.with_password("ada@example.com"), people.service.state.database
    mail = people.service.state.mail
    async with database.transaction() as db:
        await db.execute("UPDATE user_account SET email = 'new@example.com' WHERE id = %s", (ada.id,))

        async def start() -> None:
            async with database.transaction() as other:
                await password_reset.start(other, mail, "ada@example.com", "192.0.2.1")

        starting = asyncio.create_task(start())
        waiting = asyncio.create_task(until_blocked(database))
        await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    await starting
    assert await mails_to(people.service.state, "ada@example.com") == []
    async with database.transaction() as db:
        assert await (await db.execute("SELECT FROM password_reset")).fetchall() == []


async def test_a_taken_address_is_refused_now_and_when_it_is_taken_meanwhile(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    await people.person("taken@example.com")
    body = {"email": "Taken@example.com", "currentPassword": PASSWORD, "name": "Other"}
    refused(await people.call("PATCH", "/auth/me", body, who=ada), 409, "EMAIL_ALREADY_REGISTERED")
    assert (await people.call("GET", "/auth/me", who=ada)).json()["user"]["name"] == "Test User"
    await people.call("PATCH", "/auth/me", {"email": "new@example.com", "currentPassword": PASSWORD}, who=ada)
    [proof] = await mails_to(people.service.state, "new@example.com")
    await people.person("new@example.com")
    refused(await people.call("POST", "/auth/email/confirm", {"token": token_in(proof)}), 400, "VALIDATION_ERROR")


async def test_a_user_requests_ten_new_addresses_a_day(people: People) -> None:
    """Each request is a mail with the user's name to an address that the user chooses."""
    ada, ben = await people.with_password("ada@example.com"), await people.with_password("ben@example.com")
    state = people.service.state
    [(password_hash,)] = await people.execute("SELECT password_hash FROM user_account WHERE id = %s", ada.id)
    caller = UserCaller(ada.id, new_id(), ada.email, "Ada", False, None)
    for number in range(10):
        async with state.database.transaction() as db:
            await email_change.request(db, state.mail, caller, f"new{number}@example.com", password_hash)
    body = {"email": "eleventh@example.com", "currentPassword": PASSWORD}
    answer = await people.call("PATCH", "/auth/me", body, who=ada)
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 80_000 < int(answer.headers["retry-after"]) <= 86_400
    assert await mails_to(state, "eleventh@example.com") == []
    assert (await people.call("PATCH", "/auth/me", body, who=ben)).status_code == 200


@pytest.mark.parametrize("end", ["another request", "the own address", "password change", "time"])
async def test_the_last_request_wins(people: People, end: str) -> None:
    ada = await people.with_password("ada@example.com")
    await people.call("PATCH", "/auth/me", {"email": "first@example.com", "currentPassword": PASSWORD}, who=ada)
    [proof] = await mails_to(people.service.state, "first@example.com")
    if end == "another request":
        await people.call("PATCH", "/auth/me", {"email": "second@example.com", "currentPassword": PASSWORD}, who=ada)
    elif end == "the own address":
        assert (await people.call("PATCH", "/auth/me", {"email": "ADA@example.com"}, who=ada)).status_code == 200
    elif end == "password change":
        body = {"currentPassword": PASSWORD, "newPassword": "quite another password"}
        await people.call("POST", "/auth/change-password", body, who=ada)
    else:
        await people.execute(
            "UPDATE email_change SET expires_at = expires_at - %s", email_change.LIFETIME + timedelta(seconds=1)
        )
    refused(await people.call("POST", "/auth/email/confirm", {"token": token_in(proof)}), 400, "VALIDATION_ERROR")
    assert (await people.call("GET", "/auth/me", who=ada)).json()["user"]["email"] == "ada@example.com"


async def test_the_organization_that_a_session_starts_in(people: People) -> None:
    ada = await people.person()
    first, second, foreign = await people.organization(OPERATOR=ada), await people.organization(), await people.organization()
    await add_member(people.service.state.database, second.id, ada.id, OrgRole.VIEWER)
    user = (await people.call("GET", "/auth/me", who=ada)).json()["user"]
    assert (user["defaultOrganizationId"], user["currentOrganization"]["id"]) == (None, str(first.id))
    chosen = await people.call("PATCH", "/auth/default-org", {"organizationId": str(second.id)}, who=ada)
    assert chosen.json()["user"]["currentOrganization"] == {
        "id": str(second.id),
        "name": second.name,
        "role": "VIEWER",
        "slug": second.slug,
        "timeZone": "UTC",
    }
    for unknown in (foreign.id, uuid4()):
        body = {"organizationId": str(unknown)}
        refused(await people.call("PATCH", "/auth/default-org", body, who=ada), 403, "ORG_MEMBERSHIP_REQUIRED")
    for wrong in ({}, {"organizationId": None}, {"organizationId": "5"}):
        refused(await people.call("PATCH", "/auth/default-org", wrong, who=ada), 400, "VALIDATION_ERROR")


async def test_a_super_admin_starts_anywhere_that_exists(people: People) -> None:
    admin, org = await people.person(super_admin=True), await people.organization()
    chosen = await people.call("PATCH", "/auth/default-org", {"organizationId": str(org.id)}, who=admin)
    assert chosen.json()["user"]["currentOrganization"]["role"] == "ORG_ADMIN"
    body = {"organizationId": str(uuid4())}
    refused(await people.call("PATCH", "/auth/default-org", body, who=admin), 404, "ORGANIZATION_NOT_FOUND")


async def test_feature_flags_are_those_of_the_organisation_that_is_asked_about(people: People) -> None:
    ada, root = await people.person(), await people.person(super_admin=True)
    first, second, foreign = [await people.organization(**who) for who in ({"VIEWER": ada}, {"ORG_ADMIN": ada}, {})]
    for org in (second, foreign):
        await people.call("POST", f"/svc-esm/admin/enable?orgId={org.id}", who=root)

    async def seen(who: Person, org: object = None, method: str = "GET", body: Any = None) -> tuple[str | None, bool]:
        user = (await people.call(method, "/auth/me", body, who=who, org=None if org is None else str(org))).json()["user"]
        current = user["currentOrganization"]
        return current and current["id"], user["featureFlags"]["svcEsmEnabled"]

    assert await seen(ada) == (str(first.id), False)
    assert await seen(ada, second.id) == (str(second.id), True)
    assert await seen(ada, second.id, "PATCH", {"name": "Ada"}) == (str(second.id), True)
    await people.call("PATCH", "/auth/default-org", {"organizationId": str(second.id)}, who=ada)
    assert await seen(ada) == (str(second.id), True)
    assert await seen(ada, first.id) == (str(first.id), False)
    for strange in (foreign.id, uuid4(), "5", "x" * 5000):
        assert await seen(ada, strange) == (str(second.id), True), "no word about organisations of others"
    assert await seen(root) == (None, False)
    assert await seen(root, foreign.id) == (str(foreign.id), True)
    assert await seen(root, first.id) == (str(first.id), False)
    assert await seen(root, uuid4()) == (None, False)
