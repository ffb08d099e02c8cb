"""What a process remembers of its callers: nothing is asked twice, nothing outlives its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from gridfleet.api.access.cache import AccessCache
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db.notifications import listen
from support.builders.accounts import add_member, add_organization
from support.builders.api_keys import key_headers
from support.clients.people import PASSWORD, People, refused
from support.servers.api_service import ApiService, api_service
from support.servers.running_task import running


@asynccontextmanager
async def listening(service: ApiService) -> AsyncIterator[AccessCache]:
    """The application's cache, in use."""
    cache = service.state.access
    async with running(cache.keep_listening(service.state.database)):
        await until_open(cache)
        yield cache


async def until_open(cache: AccessCache) -> None:
    async with asyncio.timeout(10):
        while not cache.is_open():
            await asyncio.sleep(0.01)


@pytest.fixture
async def people(database_url: str, home: Path) -> AsyncIterator[People]:
    async with api_service(database_url, home, rate_limits="off") as service, listening(service):
        yield People(service)


@pytest.fixture
def asked(people: People, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the cache had to look up in the database, as it happens."""
    found: list[str] = []
    for name in ("live_session", "role_in"):
        watch(monkeypatch, name, found)
    return found


def watch(monkeypatch: pytest.MonkeyPatch, name: str, found: list[str]) -> None:
    from gridfleet.api.access import cache
    from gridfleet.domains.identity import sessions
    from gridfleet.domains.partners import rest_access

    place = {"live_session": sessions, "find_live": rest_access}.get(name, cache)
    real: Callable[..., Awaitable[Any]] = getattr(place, name)

    async def noted(*arguments: Any) -> Any:
        found.append(name)
        return await real(*arguments)

    monkeypatch.setattr(place, name, noted)


async def test_a_known_caller_costs_no_query(people: People, asked: list[str]) -> None:
    ada = await people.person()
    org = await people.organization(VIEWER=ada)
    await asyncio.sleep(0.3)  # the listening connection repeats notifications that are applied already
    for _ in range(5):
        assert (await people.call("GET", "/plants", who=ada, org=org.id)).status_code == 200
    assert asked == ["live_session", "role_in"]


async def test_strangers_and_inventions_are_never_remembered(people: People, asked: list[str]) -> None:
    ada = await people.person()
    for _ in range(3):
        refused(await people.call("GET", "/plants", who=ada, org=uuid4()), 403, "FORBIDDEN")
    assert asked == ["live_session", *(["role_in"] * 3)]


ENDS: dict[str, str] = {
    "logout": "401",
    "logout-all": "401",
    "session ended elsewhere": "401",
    "password changed elsewhere": "401",
    "password reset": "401",
    "role lowered": "403",
    "member removed": "403",
    "account deleted by hand": "401",
    "no SuperAdmin any more": "403",
}


@pytest.mark.parametrize(("end", "status"), ENDS.items())
async def test_an_end_counts_for_the_very_next_call(people: People, end: str, status: str) -> None:
    """Each time after the answer that ended it, with no pause; several times over, for what is only likely."""
    for number in range(4):
        ada = (
            await people.with_password(f"ada{number}@example.com")
            if "password" in end or "else" in end
            else await people.person()
        )
        boss = await people.person(super_admin=True)
        org = await people.organization(OPERATOR=ada)
        if end == "no SuperAdmin any more":
            await people.execute("UPDATE user_account SET is_super_admin = true WHERE id = %s", ada.id)
            await people.execute("DELETE FROM membership WHERE user_id = %s", ada.id)
        members = (await people.call("GET", f"/organizations/{org.id}/members", who=boss)).json()["data"]
        other = {"authorization": f"Bearer {(await people.log_in(ada.email)).json().get('access_token')}"}
        url = f"/organizations/{org.id}/members"
        for _ in range(2):
            assert (await people.call("GET", url, who=ada)).status_code == 200
        match end:
            case "logout" | "logout-all":
                await people.call("POST", f"/auth/{end}", who=ada)
            case "session ended elsewhere":
                sessions = (await people.call("GET", "/auth/sessions", who=ada)).json()
                [own] = [session["id"] for session in sessions if session["current"]]
                assert (await people.call("DELETE", f"/auth/sessions/{own}", headers=other)).status_code == 200
            case "password changed elsewhere":
                body = {"currentPassword": PASSWORD, "newPassword": "quite another password"}
                assert (await people.call("POST", "/auth/change-password", body, headers=other)).status_code == 200
            case "password reset":
                await reset(people, ada.email)
            case "role lowered":
                await people.call("PATCH", f"{url}/{members[0]['id']}", {"role": "VIEWER"}, who=boss)
            case "member removed":
                await people.call("DELETE", f"{url}/{members[0]['id']}", who=boss)
            case "account deleted by hand":
                await people.execute("DELETE FROM user_account WHERE id = %s", ada.id)
            case "no SuperAdmin any more":
                await people.execute("UPDATE user_account SET is_super_admin = false WHERE id = %s", ada.id)
        assert str((await people.call("GET", url, who=ada)).status_code) == status


async def reset(people: People, email: str) -> None:
    from gridfleet.domains.identity.accounts import password_reset, tokens

    token = tokens.make_token()
    await people.execute(
        "INSERT INTO password_reset SELECT id, %s, now(), now() + interval '1 hour' FROM user_account WHERE email = %s",
        token.digest,
        email,
    )
    body = {"token": token.text, "newPassword": "quite another password"}
    assert (await people.call("POST", "/auth/reset-password", body)).status_code == 200
    assert password_reset.LIFETIME


async def test_a_new_role_counts_for_the_very_next_call(people: People) -> None:
    ada, boss = await people.person(), await people.person(super_admin=True)
    org = await people.organization()
    refused(await people.call("GET", "/plants", who=ada, org=org.id), 403, "FORBIDDEN")
    await add_member(people.service.state.database, org.id, ada.id, OrgRole.VIEWER)
    assert (await people.call("GET", "/plants", who=ada, org=org.id)).status_code == 200
    [member] = (await people.call("GET", f"/organizations/{org.id}/members", who=boss)).json()["data"]
    url = f"/organizations/{org.id}/members"
    refused(await people.call("GET", url, who=ada), 403, "FORBIDDEN")
    await people.call("PATCH", f"{url}/{member['id']}", {"role": "OPERATOR"}, who=boss)
    assert (await people.call("GET", url, who=ada)).status_code == 200


async def test_a_deleted_organisation_is_gone_for_super_admins_at_once(people: People) -> None:
    boss, org = await people.person(super_admin=True), await people.organization()
    assert (await people.call("GET", "/plants", who=boss, org=org.id)).status_code == 200
    await people.call("DELETE", f"/organizations/{org.id}", who=boss)
    refused(await people.call("GET", "/plants", who=boss, org=org.id), 403, "FORBIDDEN")


async def test_a_session_is_not_remembered_beyond_its_own_end(people: People) -> None:
    ada = await people.person()
    await people.execute("UPDATE user_session SET expires_at = now() + interval '1 second' WHERE user_id = %s", ada.id)
    assert (await people.call("GET", "/auth/me", who=ada)).status_code == 200
    await asyncio.sleep(1.1)
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")


async def test_while_the_connection_is_down_the_database_is_asked(people: People, asked: list[str]) -> None:
    ada = await people.person()
    cache = people.service.state.access
    await people.call("GET", "/auth/me", who=ada)
    await people.call("GET", "/auth/me", who=ada)
    assert asked == ["live_session"]
    await people.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gridfleet-access'")
    async with asyncio.timeout(5):
        while cache.is_open():
            await asyncio.sleep(0.01)
    for _ in range(3):
        await people.call("GET", "/auth/me", who=ada)
    assert len(asked) == 4


async def test_a_process_that_hangs_delays_no_change_for_long(people: People) -> None:
    from gridfleet.api.access import invalidation

    ada = await people.person()
    async with await psycopg.AsyncConnection.connect(
        people.service.state.database.url, autocommit=True, application_name=invalidation.LISTENER
    ) as hanging:
        for channel in invalidation.BARRIER_CHANNELS:
            await hanging.execute(f"LISTEN {channel}".encode())
        async with asyncio.timeout(20):
            assert (await people.call("POST", "/auth/logout", who=ada)).status_code == 200
        received = [notice.channel async for notice in hanging.notifies(timeout=20, stop_after=1)]
        assert received == ["access_barrier"], "it was waited for"
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")


async def test_a_silent_connection_is_not_relied_on_for_long(people: People) -> None:
    now = [0.0]
    state = people.service.state
    cache = AccessCache(state.access_tokens, clock=lambda: now[0])
    assert not cache.is_open()
    async with running(cache.keep_listening(state.database)):
        await until_open(cache)
        now[0] = 2.9
        assert cache.is_open()
        now[0] = 3.1
        assert not cache.is_open()
        await until_open(cache)  # by the next answer of the connection


async def test_a_load_that_overlaps_an_end_is_not_remembered(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session is read, ends before it is noted down, and must not be found afterwards."""
    from gridfleet.domains.identity import sessions

    ada = await people.person()
    real, read, ended = sessions.live_session, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any) -> Any:
        found = await real(*arguments)
        read.set()
        await ended.wait()
        return found

    monkeypatch.setattr(sessions, "live_session", slow)
    caught = asyncio.create_task(people.call("GET", "/auth/me", who=ada))
    await read.wait()
    await people.execute("UPDATE user_session SET revoked_at = now() WHERE user_id = %s", ada.id)
    ended.set()
    await caught
    monkeypatch.setattr(sessions, "live_session", real)
    refused(await people.call("GET", "/auth/me", who=ada), 401, "UNAUTHORIZED")


async def test_refreshing_and_logging_in_invalidate_nothing(people: People) -> None:
    ada = await people.with_password("ada@example.com")
    await people.call("GET", "/auth/me", who=ada)
    notices: list[str] = []
    ready = asyncio.Event()
    url = people.service.state.database.url
    async with running(listen(url, ["access_changed"], ready.set, lambda _, payload: notices.append(payload))):
        await ready.wait()
        login = await people.log_in("ada@example.com")
        cookies = login.headers.get_list("set-cookie")
        cookie = next(line for line in cookies if line.startswith("gridfleet_refresh")).split(";")[0]
        assert (await people.call("POST", "/auth/refresh", headers={"cookie": cookie})).status_code == 200
        people.service.client.cookies.clear()
        await people.execute("SELECT pg_notify('access_changed', 'end')")
        async with asyncio.timeout(5):
            while "end" not in notices:
                await asyncio.sleep(0.01)
    assert notices == ["end"]


async def test_the_cache_is_bounded(people: People, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridfleet.api.access.cache.MOST_ENTRIES", 3)
    state = people.service.state
    users = [await people.person() for _ in range(6)]
    cache = AccessCache(state.access_tokens)
    async with running(cache.keep_listening(state.database)):
        await until_open(cache)
        for one in (*users, *users[3:], *users):
            token = one.headers["authorization"].removeprefix("Bearer ")
            assert (await cache.caller(state.database, token, "127.0.0.1")).user_id == one.id
    assert len(asked) == 12, "all but those of the three newest entries"


async def test_keys_with_many_plants_do_not_fill_the_memory(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    """An organisation may have any number of them: 10,000 with 2,000 plants and 1,000 networks each took 5 GB."""
    monkeypatch.setattr("gridfleet.api.access.cache.MOST_ENTRIES", 200)  # of keys without plants
    state = people.service.state
    organization = await add_organization(state.database)
    plants = [uuid4() for _ in range(2_000)]
    large = [await key_headers(state.database, organization.id, ["plants:read"], plants) for _ in range(3)]
    small = [await key_headers(state.database, organization.id, ["plants:read"]) for _ in range(50)]
    asked: list[str] = []
    watch(monkeypatch, "find_live", asked)
    cache = AccessCache(state.access_tokens)
    async with running(cache.keep_listening(state.database)):
        await until_open(cache)

        async def times_asked(keys: list[tuple[UUID, dict[str, str]]]) -> int:
            asked.clear()
            for key_id, headers in keys:
                assert (await cache.key(state.database, headers["x-api-key"], "127.0.0.1")).key_id == key_id
            return len(asked)

        assert [await times_asked(large), await times_asked(large[2:]), await times_asked(large[:2])] == [3, 0, 2]
        assert [await times_asked(small), await times_asked(small), await times_asked(large[1:2])] == [50, 0, 0]


async def test_own_notices_come_before_the_commit_returns(database_url: str) -> None:
    """What the whole cache stands on, tried by itself."""
    from gridfleet.kernel.db import open_database

    received: list[str] = []
    async with open_database(database_url, name="test", size=2, channel="c", on_notification=received.append) as database:
        for number in range(500):
            async with database.transaction() as db:
                await db.execute("SELECT pg_notify('c', %s)", (str(number),))
            assert received[-1] == str(number)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await roll_back(database)
        assert received[-1] == "499"


async def roll_back(database: Any) -> None:
    async with database.transaction() as db:
        await db.execute("SELECT pg_notify('c', 'never')")
        await db.execute("SELECT 1/0")
