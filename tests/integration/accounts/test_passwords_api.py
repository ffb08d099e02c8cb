"""Changing the own password, and getting back in without it."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from gridfleet.domains.identity.accounts import password_reset
from gridfleet.domains.identity.accounts.passwords import MOST_A_DAY
from support.clients.people import PASSWORD, People, refused
from support.servers.api_service import api_service
from support.servers.postbox import mails_to, text_of, token_in

NEW = "quite another password"
URL = "/auth/change-password"


async def test_a_changed_password_counts_at_once_and_ends_other_sessions(people: People) -> None:
    ada, elsewhere = await people.with_password("ada@example.com"), await people.log_in("ada@example.com")
    if elsewhere.status_code != 200:
        raise AssertionError(elsewhere.text)
    other = {"authorization": f"Bearer {elsewhere.json()['access_token']}"}
    changed = await people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": NEW}, who=ada)
    assert (changed.status_code, set(changed.json())) == (200, {"message"})
    assert (await people.call("GET", "/auth/me", who=ada)).status_code == 200
    refused(await people.call("GET", "/auth/me", headers=other), 401, "UNAUTHORIZED")
    refused(await people.call("POST", "/auth/refresh", headers={"cookie": cookie_of(elsewhere)}), 401, "REFRESH_TOKEN_INVALID")
    refused(await people.log_in("ada@example.com"), 401, "INVALID_CREDENTIALS")
    assert (await people.log_in("ada@example.com", NEW)).status_code == 200
    [notice] = await mails_to(people.service.state, "ada@example.com")
    assert notice["Subject"] == "Your password has changed"
    assert "user.password_changed" in [event["event"] for event in await people.events(of=ada.id)]


def cookie_of(answer: object) -> str:
    """The refresh cookie that a login set."""
    lines = answer.headers.get_list("set-cookie")  # type: ignore[attr-defined]
    return next(line.split(";")[0] for line in lines if line.startswith("gridfleet_refresh="))


async def test_what_a_change_refuses(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    wrong = {"currentPassword": "wrong", "newPassword": NEW}
    refused(await people.call("POST", URL, wrong, who=ada), 401, "UNAUTHORIZED")
    refused(await people.call("POST", URL, wrong), 401, "UNAUTHORIZED")
    for body in (
        {},
        {"currentPassword": PASSWORD, "newPassword": "x" * 11},
        {"currentPassword": PASSWORD, "newPassword": "x" * 257},
        {"currentPassword": "", "newPassword": NEW},
        {"currentPassword": PASSWORD, "newPassword": None},
        {"currentPassword": PASSWORD, "newPassword": f"{NEW}\n"},
        {"currentPassword": PASSWORD, "newPassword": PASSWORD},
    ):
        refused(await people.call("POST", URL, body, who=ada), 400, "VALIDATION_ERROR")
    assert (await people.log_in("ada@example.com")).status_code == 200


@pytest.mark.parametrize("new", ["x" * 12, " spaces at both ends ", "ü" * 256])
async def test_a_new_password_need_only_be_long_and_is_kept_as_typed(people: People, new: str) -> None:
    ada = await people.with_password("ada@example.com")
    changed = await people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": new}, who=ada)
    assert changed.status_code == 200
    assert (await people.log_in("ada@example.com", new)).status_code == 200
    assert (await people.log_in("ada@example.com", new[:-1])).status_code in (400, 401)


async def test_a_user_sends_few_mails_by_changing_the_password_to_and_fro(people: People) -> None:
    ada, bob = [await people.with_password(f"{name}@example.com") for name in ("ada", "bob")]
    both = [PASSWORD, NEW]
    for number in range(MOST_A_DAY + 1):
        body = {"currentPassword": both[number % 2], "newPassword": both[(number + 1) % 2]}
        changed = await people.call("POST", URL, body, who=ada)
        assert changed.status_code == (200 if number < MOST_A_DAY else 429), number
    refused(changed, 429, "TOO_MANY_REQUESTS")
    assert int(changed.headers["retry-after"]) > 86_000
    assert len(await mails_to(people.service.state, "ada@example.com")) == MOST_A_DAY
    assert (await people.log_in("ada@example.com", both[MOST_A_DAY % 2])).status_code == 200
    assert (await people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": NEW}, who=bob)).status_code == 200


async def test_wrong_passwords_in_a_session_are_limited_to_ten_and_lock_no_account(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    wrong = {"currentPassword": "wrong", "newPassword": NEW}
    answers = await asyncio.gather(*(people.call("POST", URL, wrong, who=ada) for _ in range(13)))
    assert sorted(answer.status_code for answer in answers) == [*([401] * 10), *([429] * 3)]
    right = await people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": NEW}, who=ada)
    refused(right, 429, "TOO_MANY_REQUESTS")
    assert right.headers["retry-after"] == "900"
    change_email = {"email": "b@example.com", "currentPassword": PASSWORD}
    refused(await people.call("PATCH", "/auth/me", change_email, who=ada), 429, "TOO_MANY_REQUESTS")
    assert (await people.log_in("ada@example.com")).status_code == 200, "the owner still logs in"


async def test_two_changes_at_once_leave_one_password(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    bodies = [{"currentPassword": PASSWORD, "newPassword": f"{NEW} {number}"} for number in range(2)]
    answers = await asyncio.gather(*(people.call("POST", URL, body, who=ada) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 401]


async def test_a_login_with_the_old_password_that_overlaps_the_change_opens_nothing(people: People) -> None:
    for _ in range(5):
        ada = await people.with_password(f"ada{_}@example.com")
        change = people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": NEW}, who=ada)
        _changed, *logins = await asyncio.gather(change, *(people.log_in(ada.email) for _ in range(4)))
        for login in logins:
            if login.status_code == 200:
                headers = {"authorization": f"Bearer {login.json()['access_token']}"}
                refused(await people.call("GET", "/auth/me", headers=headers), 401, "UNAUTHORIZED")


async def test_a_forgotten_password_is_replaced_by_mail(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    for _ in range(11):
        await people.log_in("ada@example.com", "wrong password")
    asked = await people.call("POST", "/auth/forgot-password", {"email": " ADA@example.com"})
    assert (asked.status_code, set(asked.json())) == (200, {"message"})
    [mail] = await mails_to(people.service.state, "ada@example.com")
    assert "/account/reset-password#token=" in text_of(mail)
    body = {"token": token_in(mail), "newPassword": NEW}
    assert (await people.call("POST", "/auth/reset-password", body)).status_code == 200
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")
    assert (await people.log_in("ada@example.com", NEW)).status_code == 200, "also unlocked"
    refused(await people.call("POST", "/auth/reset-password", body), 400, "VALIDATION_ERROR")
    assert [mail["Subject"] for mail in await mails_to(people.service.state, "ada@example.com")] == [
        "Set a new password",
        "Your password has changed",
    ]
    events = [event["event"] for event in await people.events(of=ada.id)]
    assert {"user.password_reset_requested", "user.password_reset"} <= set(events)


async def test_a_reset_that_fails_once_is_tried_again(people: People) -> None:
    await people.with_password("ada@example.com")
    state = people.service.state
    await people.execute("ALTER TABLE password_reset RENAME TO away")
    await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    assert await mails_to(state, "ada@example.com") == []
    await people.execute("ALTER TABLE away RENAME TO password_reset")
    await people.execute("UPDATE procrastinate_jobs SET scheduled_at = now() WHERE scheduled_at > now()")
    [mail] = await mails_to(state, "ada@example.com")
    assert mail["Subject"] == "Set a new password"


async def test_no_response_shows_whether_an_address_has_an_account(people: People) -> None:
    await people.with_password("ada@example.com")
    answers = [
        await people.call("POST", "/auth/forgot-password", {"email": who}) for who in ("ada@example.com", "x@example.com")
    ]
    assert answers[0].json() == answers[1].json()
    assert await people.execute(
        "SELECT count(*) FROM procrastinate_jobs WHERE task_name = 'identity.start_password_reset'"
    ) == [(2,)]
    assert await mails_to(people.service.state, "x@example.com") == []


async def test_reset_mails_are_limited_and_the_newest_counts(people: People) -> None:
    await people.with_password("ada@example.com")
    state = people.service.state
    for _ in range(4):
        await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    [first] = await mails_to(state, "ada@example.com")
    await pass_time(people, password_reset.PAUSE)
    await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    _, second = await mails_to(state, "ada@example.com")
    reset = {"newPassword": NEW}
    refused(await people.call("POST", "/auth/reset-password", {"token": token_in(first), **reset}), 400, "VALIDATION_ERROR")
    assert (await people.call("POST", "/auth/reset-password", {"token": token_in(second), **reset})).status_code == 200


async def test_requests_of_others_do_not_end_the_link_that_was_mailed(people: People) -> None:
    await people.with_password("ada@example.com")
    state = people.service.state
    await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    for _ in range(14):
        await pass_time(people, timedelta(minutes=1))
        await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
        [mail] = await mails_to(state, "ada@example.com")
    body = {"token": token_in(mail), "newPassword": NEW}
    assert (await people.call("POST", "/auth/reset-password", body)).status_code == 200


async def test_an_hour_of_requests_sends_four_reset_mails(people: People) -> None:
    await people.with_password("ada@example.com")
    state = people.service.state
    for _ in range(20):
        await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
        mails = await mails_to(state, "ada@example.com")
        await pass_time(people, timedelta(minutes=3))
    assert len(mails) == 4


async def pass_time(people: People, interval: timedelta) -> None:
    """Makes every request by mail lie further back."""
    for table in ("password_reset", "email_change"):
        await people.execute(
            f"UPDATE {table} SET requested_at = requested_at - %s, expires_at = expires_at - %s", interval, interval
        )


@pytest.mark.parametrize("end", ["time", "password change", "e-mail change"])
async def test_what_makes_a_reset_worthless(people: People, end: str) -> None:
    ada = await people.with_password("ada@example.com")
    state = people.service.state
    await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    [mail] = await mails_to(state, "ada@example.com")
    if end == "time":
        await pass_time(people, password_reset.LIFETIME)
    elif end == "password change":
        await people.call("POST", URL, {"currentPassword": PASSWORD, "newPassword": NEW}, who=ada)
    else:
        await people.call("PATCH", "/auth/me", {"email": "new@example.com", "currentPassword": PASSWORD}, who=ada)
        [proof] = await mails_to(state, "new@example.com")
        assert (await people.call("POST", "/auth/email/confirm", {"token": token_in(proof)})).status_code == 200
    body = {"token": token_in(mail), "newPassword": f"{NEW}!"}
    refused(await people.call("POST", "/auth/reset-password", body), 400, "VALIDATION_ERROR")


async def test_one_reset_wins_of_many_at_once(people: People) -> None:
    await people.with_password("ada@example.com")
    await people.call("POST", "/auth/forgot-password", {"email": "ada@example.com"})
    [mail] = await mails_to(people.service.state, "ada@example.com")
    bodies = [{"token": token_in(mail), "newPassword": f"{NEW} {number}"} for number in range(5)]
    answers = await asyncio.gather(*(people.call("POST", "/auth/reset-password", body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400, 400]


@pytest.mark.parametrize("token", ["", "x", "a" * 63, "a" * 64, "A" * 64, "a" * 65, None, 5])
async def test_dead_and_malformed_tokens(people: People, token: object) -> None:
    refused(await people.call("POST", "/auth/reset-password", {"token": token, "newPassword": NEW}), 400, "VALIDATION_ERROR")
    refused(await people.call("POST", "/auth/email/confirm", {"token": token}), 400, "VALIDATION_ERROR")


async def test_account_endpoints_are_limited_by_address(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, account_per_address_per_minute=2) as service:
        people = People(service)
        calls = [
            ("POST", "/auth/forgot-password", {"email": "a@example.com"}),
            ("POST", "/auth/email/confirm", {"token": "a" * 64}),
            ("POST", "/auth/reset-password", {"token": "a" * 64, "newPassword": NEW}),
            ("GET", f"/auth/confirm-accept?token={'a' * 64}", None),
            ("POST", "/auth/register/invite", {"name": "Ada", "password": PASSWORD, "token": "a" * 64}),
        ]
        for method, path, body in calls[:2]:
            assert (await people.call(method, path, body)).status_code in (200, 400)
        for method, path, body in calls:
            answer = await people.call(method, path, body)
            refused(answer, 429, "TOO_MANY_REQUESTS")
            assert 0 < int(answer.headers["retry-after"]) <= 60
