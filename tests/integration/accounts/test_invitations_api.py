"""Invitations: sent, listed, revoked, accepted with and without an account, used once, too late."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from gridfleet.domains.organizations.invitations import registry
from gridfleet.kernel.caller import OrgRole
from support.builders.accounts import add_member
from support.builders.interleaving import until_blocked
from support.clients.people import PASSWORD, People, Person, refused
from support.servers.postbox import mails_to, text_of, token_in

EMAIL = "new@example.com"


class Inviting:
    """An organisation whose ORG_ADMIN invites."""

    def __init__(self, people: People, boss: Person, org: Any) -> None:
        self.people, self.boss, self.org = people, boss, org

    async def invite(self, email: str = EMAIL, **more: Any) -> dict[str, Any]:
        answer = await self.people.call("POST", "/invitations", {"email": email, **more}, who=self.boss, org=self.org.id)
        assert answer.status_code == 201, answer.text
        invitation: dict[str, Any] = answer.json()
        return invitation

    async def token(self, email: str = EMAIL) -> str:
        return token_in((await mails_to(self.people.service.state, email))[-1])

    async def accept(self, token: str) -> Any:
        return await self.people.call("GET", f"/auth/confirm-accept?token={token}")

    async def check(self, token: str) -> Any:
        return await self.people.call("POST", "/auth/check-invitation", {"token": token})

    async def register(self, with_token: str, **changes: Any) -> Any:
        body = {"name": "New User", "password": PASSWORD, "token": with_token, **changes}
        answer = await self.people.call("POST", "/auth/register/invite", body)
        self.people.service.client.cookies.clear()
        return answer

    async def revoke(self, invitation: dict[str, Any], *, after: float = 0.0) -> Any:
        await asyncio.sleep(after)
        return await self.people.call("DELETE", f"/invitations/{invitation['id']}", who=self.boss, org=self.org.id)

    async def listed(self) -> list[dict[str, Any]]:
        answer = await self.people.call("GET", "/invitations", who=self.boss, org=self.org.id)
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    async def roles(self) -> dict[str, str]:
        answer = await self.people.call("GET", f"/organizations/{self.org.id}/members", who=self.boss)
        return {member["user"]["email"]: member["role"] for member in answer.json()["data"]}

    async def pass_time(self, interval: timedelta) -> None:
        await self.people.execute("UPDATE invitation SET expires_at = expires_at - %s", interval)


@pytest.fixture
async def inviter(people: People) -> Inviting:
    boss = await people.person("boss@example.com")
    return Inviting(people, boss, await people.organization(ORG_ADMIN=boss))


async def test_an_invitation_is_mailed_and_listed(inviter: Inviting) -> None:
    made = await inviter.invite(" New@Example.com", role="OPERATOR")
    assert set(made) == {
        *("id", "organizationId", "email", "role", "status", "invitedBy", "expiresAt", "acceptedAt", "createdAt", "updatedAt")
    }
    assert (made["email"], made["role"], made["status"], made["acceptedAt"]) == (EMAIL, "OPERATOR", "PENDING", None)
    assert (made["organizationId"], made["invitedBy"]) == (str(inviter.org.id), str(inviter.boss.id))
    assert await inviter.listed() == [{**made, "joinedAt": None}]
    [mail] = await mails_to(inviter.people.service.state, EMAIL)
    assert "Test User invites you to join Test Organisation on Gridfleet as an operator" in text_of(mail).replace("\n", " ")
    assert mail["Subject"] == "Test User invites you to Test Organisation"
    token = token_in(mail)
    assert token not in str(await inviter.people.execute("SELECT invitation::text FROM invitation"))
    assert [event["event"] for event in await inviter.people.events(of=made["id"])] == ["invitation.created"]


async def test_a_person_without_an_account_accepts_registers_and_is_a_member(inviter: Inviting) -> None:
    made = await inviter.invite()
    token = await inviter.token()
    accepted = await inviter.accept(token)
    assert accepted.status_code == 200
    assert set(accepted.json()) == {"message", "redirectPath"}
    assert accepted.json()["redirectPath"] == f"/complete-registration?token={token}"
    [shown] = await inviter.listed()
    assert (shown["status"], shown["acceptedAt"] is not None, shown["joinedAt"]) == ("ACCEPTED", True, None)
    refused(await inviter.accept(token), 409, "INVITATION_ALREADY_ACCEPTED")
    registered = await inviter.register(token)
    assert registered.status_code == 201
    assert set(registered.json()) == {"access_token", "user"}
    user = registered.json()["user"]
    assert (user["email"], user["name"], user["role"]) == (EMAIL, "New User", "USER")
    assert user["defaultOrganizationId"] == user["currentOrganization"]["id"] == str(inviter.org.id)
    assert user["currentOrganization"]["role"] == "VIEWER"
    assert {line.split("=")[0] for line in registered.headers.get_list("set-cookie")} == {
        "gridfleet_refresh",
        "gridfleet_session",
    }
    refused(await inviter.register(token), 409, "INVITATION_ALREADY_ACCEPTED")
    assert (await inviter.listed())[0]["joinedAt"] is not None
    assert (await inviter.people.log_in(EMAIL)).status_code == 200
    events = [event["event"] for event in await inviter.people.events(of=made["id"])]
    assert events == ["invitation.created", "invitation.accepted"]


async def test_registering_accepts_by_itself(inviter: Inviting) -> None:
    await inviter.invite(role="ORG_ADMIN")
    token = await inviter.token()
    assert (await inviter.register(token)).status_code == 201
    assert (await inviter.listed())[0]["status"] == "ACCEPTED"
    assert (await inviter.roles())[EMAIL] == "ORG_ADMIN"
    refused(await inviter.accept(token), 409, "INVITATION_ALREADY_ACCEPTED")


async def test_a_person_with_an_account_joins_at_once(inviter: Inviting) -> None:
    member = await inviter.people.person(EMAIL)
    await inviter.invite(role="OPERATOR")
    token = await inviter.token()
    refused(await inviter.register(token), 409, "EMAIL_ALREADY_REGISTERED")
    accepted = await inviter.accept(token)
    assert (accepted.status_code, accepted.json()["redirectPath"]) == (200, "/login")
    assert (await inviter.roles())[EMAIL] == "OPERATOR"
    user = (await inviter.people.call("GET", "/auth/me", who=member)).json()["user"]
    assert user["defaultOrganizationId"] == str(inviter.org.id)
    refused(await inviter.accept(token), 409, "INVITATION_ALREADY_ACCEPTED")
    refused(await inviter.register(token), 409, "INVITATION_ALREADY_ACCEPTED")


async def test_joining_another_organisation_leaves_the_first_as_the_start(inviter: Inviting) -> None:
    member = await inviter.people.person(EMAIL)
    home = await inviter.people.organization(VIEWER=member)
    await inviter.people.call("PATCH", "/auth/default-org", {"organizationId": str(home.id)}, who=member)
    await inviter.invite()
    await inviter.accept(await inviter.token())
    user = (await inviter.people.call("GET", "/auth/me", who=member)).json()["user"]
    assert user["defaultOrganizationId"] == str(home.id)
    assert len(user["organizations"]) == 2


async def test_what_an_invitation_conflicts_with(inviter: Inviting) -> None:
    people, org = inviter.people, inviter.org.id
    await inviter.invite()
    for email in (EMAIL, "NEW@example.com", "boss@example.com"):
        refused(await people.call("POST", "/invitations", {"email": email}, who=inviter.boss, org=org), 409, "CONFLICT")
    elsewhere = await people.organization(ORG_ADMIN=inviter.boss)
    assert (await people.call("POST", "/invitations", {"email": EMAIL}, who=inviter.boss, org=elsewhere.id)).status_code == 201
    for body in ({}, {"email": "x"}, {"email": EMAIL, "role": "BOSS"}, {"email": EMAIL, "role": None}):
        refused(await people.call("POST", "/invitations", body, who=inviter.boss, org=org), 400, "VALIDATION_ERROR")
    assert len(await mails_to(people.service.state, EMAIL)) == 2, "a refused invitation mails nothing"


async def test_of_many_invitations_at_once_one_is_sent(inviter: Inviting) -> None:
    calls = [
        inviter.people.call("POST", "/invitations", {"email": EMAIL}, who=inviter.boss, org=inviter.org.id) for _ in range(6)
    ]
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status_code for answer in answers) == [201, *([409] * 5)]
    assert len(await mails_to(inviter.people.service.state, EMAIL)) == 1


async def test_a_revoked_invitation_is_gone_for_its_holder(inviter: Inviting) -> None:
    made = await inviter.invite()
    token = await inviter.token()
    revoked = await inviter.revoke(made)
    assert (revoked.status_code, set(revoked.json())) == (200, {"message"})
    assert (await inviter.listed())[0]["status"] == "REVOKED"
    refused(await inviter.accept(token), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.register(token), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.revoke(made), 400, "BAD_REQUEST")
    for unknown, status, code in ((uuid4(), 404, "INVITATION_NOT_FOUND"), ("5", 400, "BAD_REQUEST")):
        answer = await inviter.people.call("DELETE", f"/invitations/{unknown}", who=inviter.boss, org=inviter.org.id)
        refused(answer, status, code)
    await inviter.invite()
    assert [one["status"] for one in await inviter.listed()] == ["PENDING", "REVOKED"]


async def test_checking_an_invitation_uses_nothing_and_names_a_used_one(inviter: Inviting) -> None:
    made = await inviter.invite()
    token = await inviter.token()
    assert (await inviter.check(token)).status_code == 200
    assert (await inviter.listed())[0]["status"] == "PENDING"
    await inviter.accept(token)
    assert (await inviter.check(token)).status_code == 200, "the registration is still to come"
    await inviter.register(token)
    refused(await inviter.check(token), 409, "INVITATION_ALREADY_ACCEPTED")
    assert [event["event"] for event in await inviter.people.events(of=made["id"])][2:] == []


async def test_checking_an_invitation_that_cannot_be_used(inviter: Inviting) -> None:
    made = await inviter.invite()
    token = await inviter.token()
    await inviter.revoke(made)
    refused(await inviter.check(token), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.check("a" * 64), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.check("a"), 400, "VALIDATION_ERROR")
    await inviter.invite()
    await inviter.pass_time(registry.LIFETIME)
    refused(await inviter.check(await inviter.token()), 403, "INVITATION_EXPIRED")


async def test_an_address_is_invited_ten_times_a_day_at_most(inviter: Inviting) -> None:
    people = inviter.people
    for _ in range(10):
        await inviter.revoke(await inviter.invite())
    late = await people.call("POST", "/invitations", {"email": EMAIL}, who=inviter.boss, org=inviter.org.id)
    refused(late, 429, "TOO_MANY_REQUESTS")
    assert 86_000 < int(late.headers["retry-after"]) <= 86_400
    assert len(await mails_to(people.service.state, EMAIL)) == 10
    await inviter.invite("another@example.com")
    await people.execute("UPDATE invitation SET created_at = created_at - interval '1 day'")
    await inviter.revoke(await inviter.invite())
    # Invitations of a clock that was a year ahead counted for a year.
    await people.execute("UPDATE invitation SET created_at = now() + interval '1 year'")
    await inviter.invite()


async def test_an_organisation_cannot_keep_others_from_inviting_an_address(inviter: Inviting) -> None:
    people = inviter.people
    for _ in range(10):
        await inviter.revoke(await inviter.invite())
    other = Inviting(people, inviter.boss, await people.organization(ORG_ADMIN=inviter.boss))
    for _ in range(registry.SHARE_A_DAY):
        await other.revoke(await other.invite())
    late = await people.call("POST", "/invitations", {"email": EMAIL}, who=other.boss, org=other.org.id)
    refused(late, 429, "TOO_MANY_REQUESTS")
    assert 86_000 < int(late.headers["retry-after"]) <= 86_400
    assert len(await mails_to(people.service.state, EMAIL)) == 10 + registry.SHARE_A_DAY


async def test_invitations_at_the_same_moment_do_not_exceed_the_maximum(inviter: Inviting) -> None:
    people = inviter.people
    others = [Inviting(people, inviter.boss, await people.organization(ORG_ADMIN=inviter.boss)) for _ in range(4)]
    for one in others:
        for _ in range(registry.SHARE_A_DAY):
            await one.revoke(await one.invite())
    calls = [people.call("POST", "/invitations", {"email": EMAIL}, who=one.boss, org=one.org.id) for one in others]
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [429] * 2
    assert len(await mails_to(people.service.state, EMAIL)) == registry.MOST_A_DAY


async def test_an_accepted_invitation_is_revocable_until_it_is_used(inviter: Inviting) -> None:
    made = await inviter.invite(role="ORG_ADMIN")
    token = await inviter.token()
    await inviter.accept(token)
    revoked = await inviter.revoke(made)
    assert revoked.status_code == 200, revoked.text
    assert [one["status"] for one in await inviter.listed()] == ["REVOKED"]
    refused(await inviter.register(token), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.accept(token), 404, "INVITATION_NOT_FOUND")
    assert EMAIL not in await inviter.roles()
    events = [event["event"] for event in await inviter.people.events(of=made["id"])]
    assert events == ["invitation.created", "invitation.accepted", "invitation.revoked"]


async def test_a_used_invitation_is_not_revocable(inviter: Inviting) -> None:
    made = await inviter.invite()
    assert (await inviter.register(await inviter.token())).status_code == 201
    refused(await inviter.revoke(made), 400, "BAD_REQUEST")
    assert (await inviter.listed())[0]["status"] == "ACCEPTED"
    assert (await inviter.roles())[EMAIL] == "VIEWER"


async def test_revocation_and_registration_at_once_exclude_each_other(inviter: Inviting) -> None:
    outcomes = set()
    for round_number in range(6):
        email = f"candidate{round_number}@example.com"
        made = await inviter.invite(email)
        token = await inviter.token(email)
        await inviter.accept(token)
        revoked, registered = await asyncio.gather(inviter.revoke(made, after=round_number * 0.04), inviter.register(token))
        assert (revoked.status_code, registered.status_code) in {(200, 404), (400, 201)}
        assert (email in await inviter.roles()) == (registered.status_code == 201)
        outcomes.add(registered.status_code)
    assert 404 in outcomes, "the first round revokes while the password is hashed"


@pytest.mark.parametrize("accepted", [False, True])
async def test_an_expired_invitation(inviter: Inviting, accepted: bool) -> None:
    made = await inviter.invite()
    token = await inviter.token()
    if accepted:
        await inviter.accept(token)
    await inviter.pass_time(registry.LIFETIME)
    refused(await inviter.register(token), 403, "INVITATION_EXPIRED")
    answer = await inviter.accept(token)
    refused(answer, *((409, "INVITATION_ALREADY_ACCEPTED") if accepted else (403, "INVITATION_EXPIRED")))
    refused(await inviter.revoke(made), 400, "BAD_REQUEST")
    assert (await inviter.listed())[0]["status"] == ("ACCEPTED" if accepted else "EXPIRED")
    again = await inviter.invite()
    assert again["status"] == "PENDING", "an expired one does not stand in the way"


async def test_an_organisation_cannot_fill_the_queue_of_mails(inviter: Inviting) -> None:
    """Otherwise the mails of other organisations, such as those with new passwords, would wait behind its own."""
    await inviter.invite()
    await inviter.people.execute(
        "INSERT INTO invitation SELECT (jsonb_populate_record(i, jsonb_build_object('id', gen_random_uuid(), 'email',"
        " n || '@example.com', 'token_hash', sha256(n::text::bytea), 'status', 'REVOKED'))).* FROM invitation i,"
        " generate_series(2, 500) n RETURNING 1"
    )
    body = {"email": "further@example.com"}
    answer = await inviter.people.call("POST", "/invitations", body, who=inviter.boss, org=inviter.org.id)
    refused(answer, 429, "TOO_MANY_REQUESTS")
    assert 86_000 < int(answer.headers["retry-after"]) <= 86_400
    assert not await mails_to(inviter.people.service.state, "further@example.com")

    await inviter.people.execute("UPDATE invitation SET created_at = created_at - interval '1 day' RETURNING 1")
    await inviter.invite("further@example.com")


async def test_the_sweep_writes_down_what_has_expired(inviter: Inviting) -> None:
    await inviter.invite()
    await inviter.pass_time(registry.LIFETIME)

    async with inviter.people.service.state.database.transaction() as db:
        await registry.sweep_expired(db)
    assert await inviter.people.execute("SELECT status FROM invitation") == [("EXPIRED",)]


@pytest.mark.parametrize("token", ["x", "a" * 63, "a" * 64, "A" * 64, "a" * 65, "%C3%A9" * 64, "a" * 5000])
async def test_tokens_that_were_never_sent(inviter: Inviting, token: str) -> None:
    refused(await inviter.accept(token), 404, "INVITATION_NOT_FOUND")


@pytest.mark.parametrize("query", ["", "?token=", "?token=%20", "?Token=x", "?token=a&token=b", "?token=%00"])
async def test_a_link_without_its_token(people: People, query: str) -> None:
    refused(await people.call("GET", f"/auth/confirm-accept{query}"), 400, "INVITATION_TOKEN_MISSING")


@pytest.mark.parametrize(
    "changes", [{"token": "x"}, {"token": "A" * 64}, {"token": None}, {"name": "x"}, {"password": "abcdefgh"}, {"email": EMAIL}]
)
async def test_bad_registrations(inviter: Inviting, changes: dict[str, Any]) -> None:
    refused(await inviter.register("a" * 64, **changes), 400, "VALIDATION_ERROR")


async def test_an_unknown_token_creates_no_account(inviter: Inviting) -> None:
    refused(await inviter.register("a" * 64), 404, "INVITATION_NOT_FOUND")


async def test_one_registration_wins_of_many_at_once(inviter: Inviting) -> None:
    await inviter.invite()
    token = await inviter.token()
    answers = await asyncio.gather(*(inviter.register(token) for _ in range(5)))
    codes = sorted(answer.json().get("code", "") for answer in answers)
    assert codes[0] == ""
    assert set(codes[1:]) <= {"INVITATION_ALREADY_ACCEPTED", "EMAIL_ALREADY_REGISTERED"}
    assert len(await inviter.people.execute("SELECT id FROM user_account WHERE email = %s", EMAIL)) == 1


async def test_who_may_see_and_send_invitations(inviter: Inviting) -> None:
    people = inviter.people
    operator, viewer = await people.person(), await people.person()
    org = await people.organization(OPERATOR=operator, VIEWER=viewer)
    assert (await people.call("GET", "/invitations", who=operator, org=org.id)).status_code == 200
    refused(await people.call("GET", "/invitations", who=viewer, org=org.id), 403, "FORBIDDEN")
    refused(await people.call("POST", "/invitations", {"email": EMAIL}, who=operator, org=org.id), 403, "FORBIDDEN")
    made = await inviter.invite()
    refused(await people.call("DELETE", f"/invitations/{made['id']}", who=operator, org=org.id), 403, "FORBIDDEN")
    foreign = await people.call("DELETE", f"/invitations/{made['id']}", who=await boss_of(people, org.id), org=org.id)
    refused(foreign, 404, "INVITATION_NOT_FOUND")


async def boss_of(people: People, organization_id: Any) -> Person:
    """A new ORG_ADMIN of an organisation."""
    boss = await people.person()
    await add_member(people.service.state.database, organization_id, boss.id, OrgRole.ORG_ADMIN)
    return boss


@pytest.mark.parametrize("opened", [False, True])
async def test_who_joined_and_was_removed_cannot_return_with_another_invitation(inviter: Inviting, opened: bool) -> None:
    await inviter.invite()
    first = await inviter.token()
    assert (await inviter.accept(first)).is_success
    other = await inviter.invite(role="ORG_ADMIN")
    second = await inviter.token()
    if opened:
        assert (await inviter.accept(second)).is_success
    assert (await inviter.register(first)).status_code == 201
    path = f"/organizations/{inviter.org.id}/members"
    members = (await inviter.people.call("GET", path, who=inviter.boss)).json()["data"]
    [member] = [member for member in members if member["user"]["email"] == EMAIL]
    assert (await inviter.people.call("DELETE", f"{path}/{member['id']}", who=inviter.boss)).is_success
    refused(await inviter.accept(second), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.register(second), 404, "INVITATION_NOT_FOUND")
    assert await inviter.roles() == {"boss@example.com": "ORG_ADMIN"}
    assert [event["event"] for event in await inviter.people.events(of=other["id"])][-1] == "invitation.revoked"


async def other_admin(inviter: Inviting) -> Inviting:
    """A second ORG_ADMIN of the organisation."""
    return Inviting(inviter.people, await boss_of(inviter.people, inviter.org.id), inviter.org)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("how", ["demote", "remove", "disable"])
async def test_an_admin_who_loses_the_right_cannot_return_with_an_own_invitation(
    inviter: Inviting, how: str, opened: bool
) -> None:
    people, second, root = inviter.people, await other_admin(inviter), await inviter.people.person(super_admin=True)
    made = await second.invite("private@example.com", role="ORG_ADMIN")
    token = await second.token("private@example.com")
    if opened:
        assert (await inviter.accept(token)).is_success
    await inviter.invite()
    path = f"/organizations/{inviter.org.id}/members"
    members = (await people.call("GET", path, who=root)).json()["data"]
    [member] = [one["id"] for one in members if one["userId"] == str(second.boss.id)]
    if how == "demote":
        ended = await people.call("PATCH", f"{path}/{member}", {"role": "OPERATOR"}, who=root)
    elif how == "remove":
        ended = await people.call("DELETE", f"{path}/{member}", who=root)
    else:
        ended = await people.call("POST", f"/users/{second.boss.id}/disable", who=root)
    assert ended.is_success, ended.text
    refused(await inviter.accept(token), 404, "INVITATION_NOT_FOUND")
    refused(await inviter.register(token), 404, "INVITATION_NOT_FOUND")
    assert {one["email"]: one["status"] for one in await inviter.listed()} == {
        "private@example.com": "REVOKED",
        EMAIL: "PENDING",
    }
    [*_, event] = await people.events(of=made["id"])
    assert (event["event"], event["actorId"]) == ("invitation.revoked", str(root.id))
    assert (await inviter.register(await inviter.token())).status_code == 201


async def test_an_admin_who_is_removed_meanwhile_invites_no_one(inviter: Inviting) -> None:
    second, database = await other_admin(inviter), inviter.people.service.state.database
    async with database.transaction() as db:
        await db.execute("DELETE FROM membership WHERE user_id = %s", (second.boss.id,))
        call = inviter.people.call("POST", "/invitations", {"email": EMAIL}, who=second.boss, org=inviter.org.id)
        inviting = asyncio.create_task(call)
        await until_blocked(database)
    refused(await inviting, 403, "FORBIDDEN")
    assert await inviter.listed() == []


async def test_joining_ends_no_invitation_of_another_organisation(inviter: Inviting) -> None:
    await inviter.invite()
    first = await inviter.token()
    elsewhere = Inviting(inviter.people, inviter.boss, await inviter.people.organization(ORG_ADMIN=inviter.boss))
    await elsewhere.invite()
    assert (await inviter.register(first)).status_code == 201
    assert (await elsewhere.accept(await elsewhere.token())).is_success
    assert EMAIL in await elsewhere.roles()


async def test_a_link_that_was_opened_before_the_account_existed_still_adds_its_owner(inviter: Inviting) -> None:
    await inviter.invite()
    first = await inviter.token()
    elsewhere = Inviting(inviter.people, inviter.boss, await inviter.people.organization(ORG_ADMIN=inviter.boss))
    made = await elsewhere.invite(role="OPERATOR")
    second = await elsewhere.token()
    assert (await inviter.accept(first)).is_success
    assert (await elsewhere.accept(second)).is_success
    assert (await inviter.register(first)).status_code == 201
    refused(await elsewhere.register(second), 409, "EMAIL_ALREADY_REGISTERED")
    accepted = await elsewhere.accept(second)
    assert (accepted.status_code, accepted.json().get("redirectPath")) == (200, "/login")
    assert (await elsewhere.roles())[EMAIL] == "OPERATOR"
    refused(await elsewhere.accept(second), 409, "INVITATION_ALREADY_ACCEPTED")
    events = [event["event"] for event in await inviter.people.events(of=made["id"])]
    assert events == ["invitation.created", "invitation.accepted"]


async def test_two_invitations_of_an_address_are_used_at_once(inviter: Inviting) -> None:
    await inviter.invite()
    first = await inviter.token()
    assert (await inviter.accept(first)).is_success
    await inviter.invite()
    second = await inviter.token()
    database = inviter.people.service.state.database
    async with database.transaction() as db:
        await db.execute("SELECT FROM invitation ORDER BY created_at LIMIT 1 FOR UPDATE")
        uses = [asyncio.create_task(inviter.register(first))]
        await until_blocked(database)
        uses.append(asyncio.create_task(inviter.register(second)))
        await until_blocked(database, 2)
    assert sorted([(await use).status_code for use in uses]) == [201, 404]
