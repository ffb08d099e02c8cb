"""The own sessions: seen, ended one by one and all together."""

from uuid import uuid4

from support.clients.people import People, Person, refused


async def further(people: People, ada: Person) -> Person:
    """Another session of the same person."""
    answer = await people.log_in(ada.email)
    return Person(ada.id, ada.email, {"authorization": f"Bearer {answer.json()['access_token']}"})


async def test_sessions_are_listed_with_the_own_one_marked(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    second = await further(people, ada)
    found = (await people.call("GET", "/auth/sessions", who=second)).json()
    assert [session["current"] for session in found] == [True, False], "newest first"
    assert set(found[0]) == {"id", "ip", "userAgent", "createdAt", "lastUsedAt", "expiresAt", "current"}
    assert (found[0]["ip"], found[0]["userAgent"].startswith("python-httpx")) == ("127.0.0.1", True)


async def test_the_newest_thousand_sessions_are_listed(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    await people.execute(
        "INSERT INTO user_session (id, user_id, token_version, created_at, last_used_at, expires_at)"
        " SELECT gen_random_uuid(), id, token_version, now() - n * interval '1 min', now(), now() + interval '1 day'"
        " FROM user_account, generate_series(1, 1000) n WHERE email = %s",
        ada.email,
    )
    found = (await people.call("GET", "/auth/sessions", who=ada)).json()
    assert len(found) == 1_000
    assert found[0]["current"]


async def test_a_login_beyond_a_thousand_sessions_ends_those_that_were_not_used(people: People) -> None:
    """A statement that ends more than a million of them takes too long, and their user could not be disabled."""
    ada = await people.with_password("ada@example.com")
    await people.execute("UPDATE user_session SET created_at = now() - interval '20 days' WHERE user_id = %s", ada.id)
    await people.execute(
        "INSERT INTO user_session (id, user_id, token_version, created_at, last_used_at, expires_at)"
        " SELECT gen_random_uuid(), id, token_version, moment, moment, now() + interval '10 days'"
        " FROM user_account, generate_series(1, 2500) n, LATERAL (SELECT now() - n * interval '1 min' AS moment) AS m"
        " WHERE id = %s",
        ada.id,
    )

    async def live() -> tuple[int, int]:
        query = "SELECT count(*), count(*) FILTER (WHERE last_used_at > now() - interval '998.5 min') FROM user_session"
        [found] = await people.execute(f"{query} WHERE user_id = %s AND revoked_at IS NULL", ada.id)
        return found

    last = await further(people, ada)
    assert await live() == (1_502, 1_000), "a login does not end any number at once"
    last = await further(people, ada)
    assert await live() == (1_000, 1_000)
    for session in (ada, last):
        assert (await people.call("GET", "/auth/me", who=session)).status_code == 200


async def test_one_session_is_ended_from_another(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    second = await further(people, ada)
    [first_id] = [one["id"] for one in (await people.call("GET", "/auth/sessions", who=ada)).json() if one["current"]]
    ended = await people.call("DELETE", f"/auth/sessions/{first_id}", who=second)
    assert (ended.status_code, set(ended.json())) == (200, {"message"})
    assert "set-cookie" not in ended.headers
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")
    assert len((await people.call("GET", "/auth/sessions", who=second)).json()) == 1
    refused(await people.call("DELETE", f"/auth/sessions/{first_id}", who=second), 404, "NOT_FOUND")
    assert [event["event"] for event in await people.events(of=first_id)] == ["session.revoked"]


async def test_ending_the_own_session_is_a_logout(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    [own] = (await people.call("GET", "/auth/sessions", who=ada)).json()
    ended = await people.call("DELETE", f"/auth/sessions/{own['id']}", who=ada)
    assert all("Max-Age=0" in line for line in ended.headers.get_list("set-cookie"))
    assert len(ended.headers.get_list("set-cookie")) == 2
    refused(await people.call("GET", "/auth/sessions", who=ada), 401, "UNAUTHORIZED")


async def test_a_session_of_another_user_cannot_be_ended(people: People) -> None:
    ada, bob = await people.with_password("ada@example.com"), await people.person()
    [session] = (await people.call("GET", "/auth/sessions", who=ada)).json()
    foreign = await people.call("DELETE", f"/auth/sessions/{session['id']}", who=bob)
    absent = await people.call("DELETE", f"/auth/sessions/{uuid4()}", who=bob)
    assert (foreign.status_code, foreign.json()) == (absent.status_code, absent.json())
    refused(foreign, 404, "NOT_FOUND")
    refused(await people.call("DELETE", "/auth/sessions/5", who=bob), 400, "INVALID_UUID")
    assert (await people.call("GET", "/auth/me", who=ada)).status_code == 200


def device(name: str) -> str:
    return f"ExponentPushToken[{name}]"


async def test_logging_out_everywhere_ends_only_the_users_own_sessions(people: People) -> None:
    ada, bob = await people.with_password("ada@example.com"), await people.person()
    second = await further(people, ada)
    refresh = await people.log_in("ada@example.com")
    for who, name in ((ada, "Ada"), (bob, "Bob")):
        assert (await people.call("POST", "/notifications/push-tokens", {"token": device(name)}, who=who)).status_code == 201
    everywhere = await people.call("POST", "/auth/logout-all", who=ada)
    assert (everywhere.status_code, set(everywhere.json())) == (200, {"message"})
    assert len(everywhere.headers.get_list("set-cookie")) == 2
    for who in (ada, second):
        refused(await people.call("GET", "/auth/me", who=who), 401, "UNAUTHORIZED")
    cookie = next(line for line in refresh.headers.get_list("set-cookie") if line.startswith("gridfleet_refresh"))
    answer = await people.call("POST", "/auth/refresh", headers={"cookie": cookie.split(";")[0]})
    refused(answer, 401, "REFRESH_TOKEN_INVALID")
    assert (await people.call("GET", "/auth/me", who=bob)).status_code == 200
    assert await people.execute("SELECT token FROM push_token") == [(device("Bob"),)]
    assert (await people.log_in("ada@example.com")).status_code == 200
    assert await people.execute("SELECT token_version FROM user_account WHERE id = %s", ada.id) == [(2,)]
    assert "user.logged_out_everywhere" in [event["event"] for event in await people.events(of=ada.id)]


async def test_a_stolen_refresh_token_is_recorded(people: People) -> None:
    await people.with_password("ada@example.com")
    login = await people.log_in("ada@example.com")
    cookie = next(line for line in login.headers.get_list("set-cookie") if line.startswith("gridfleet_refresh")).split(";")[0]
    assert (await people.call("POST", "/auth/refresh", headers={"cookie": cookie})).status_code == 200
    people.service.client.cookies.clear()
    await people.execute("UPDATE refresh_token SET rotated_at = rotated_at - interval '1 minute'")
    refused(await people.call("POST", "/auth/refresh", headers={"cookie": cookie}), 401, "REFRESH_TOKEN_INVALID")
    refused(await people.call("POST", "/auth/refresh", headers={"cookie": cookie}), 401, "REFRESH_TOKEN_INVALID")
    assert [event["event"] for event in await people.events()].count("session.token_reused") == 1
