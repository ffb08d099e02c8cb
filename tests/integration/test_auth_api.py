"""Login, refresh, logout and me, as a browser and as a script see them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from gridfleet.domains.identity.bootstrap import ensure_first_super_admin
from gridfleet.kernel.caller import OrgRole
from support.builders.accounts import add_member, add_organization, add_user, session_of
from support.servers.api_service import ApiService, api_service, bearer

EMAIL, PASSWORD = "ada@example.com", "Correct horse 1!"


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home) as running:
        await add_admin(running)
        yield running


async def add_admin(service: ApiService, password: str = PASSWORD) -> None:
    async with service.state.database.transaction() as db:
        await ensure_first_super_admin(db, EMAIL, password)


async def log_in(service: ApiService, email: Any = EMAIL, password: Any = PASSWORD) -> httpx.Response:
    return await service.client.post("/api/v1/auth/login", json={"email": email, "password": password})


def refused(answer: httpx.Response, status: int, code: str) -> bool:
    body = answer.json()
    assert set(body) == {"statusCode", "error", "message", "code", "details"}
    assert (answer.status_code, body["statusCode"], body["code"]) == (status, status, code), body
    return True


def cookies_of(answer: httpx.Response) -> dict[str, str]:
    return {line.split("=", 1)[0]: line for line in answer.headers.get_list("set-cookie")}


async def test_login_answers_token_user_and_cookies(service: ApiService) -> None:
    answer = await log_in(service, " Ada@Example.com ")
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"access_token", "user"}
    assert body["user"] == {
        "id": body["user"]["id"],
        "email": EMAIL,
        "name": "Administrator",
        "role": "ADMIN",
        "isSuperAdmin": True,
        "defaultOrganizationId": None,
        "currentOrganization": None,
        "organizations": [],
        "featureFlags": {"svcEsmEnabled": False},
    }
    assert answer.headers["cache-control"] == "no-store"
    cookies = cookies_of(answer)
    assert cookies["gridfleet_refresh"].endswith("; Path=/api/v1/auth; Max-Age=2592000; HttpOnly; SameSite=Strict")
    assert cookies["gridfleet_session"] == (
        f"gridfleet_session={body['access_token']}; Path=/; Max-Age=900; HttpOnly; SameSite=Strict"
    )


async def test_cookies_are_secure_behind_https(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, public_url="https://fleet.example.com") as service:
        await add_admin(service)
        assert all(line.endswith("; Secure") for line in cookies_of(await log_in(service)).values())


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"email", "password"}),
        ({"email": "no address", "password": "short"}, {"email", "password"}),
        ({"email": None, "password": 12345678}, {"email", "password"}),
        ({"email": "a\x00b@example.com", "password": PASSWORD}, {"email"}),
        ({"email": EMAIL, "password": PASSWORD, "remember": True}, {"remember"}),
        ({"email": EMAIL, "password": "x" * 73}, {"password"}),
        ({"email": EMAIL, "password": "x" * 5000}, {"password"}),
        ([], {"body"}),
    ],
)
async def test_bad_bodies_are_validation_errors(service: ApiService, body: Any, fields: set[str]) -> None:
    answer = await service.client.post("/api/v1/auth/login", json=body)
    assert refused(answer, 400, "VALIDATION_ERROR")
    assert {complaint.split(":")[0] for complaint in answer.json()["details"]} == fields


async def test_a_right_password_over_the_limit_logs_in(database_url: str, home: Path) -> None:
    long = "Long-pass-1 " * 12
    async with api_service(database_url, home) as service:
        await add_admin(service, long)
        assert (await log_in(service, password=long)).status_code == 200
        assert refused(await log_in(service, password=long.strip()), 400, "VALIDATION_ERROR")


async def test_failures_are_counted_although_their_requests_fail(service: ApiService) -> None:
    for email in (EMAIL, "nobody@example.com"):
        for _ in range(10):
            assert refused(await log_in(service, email, "wrong password"), 401, "INVALID_CREDENTIALS")
        assert refused(await log_in(service, email, "wrong password"), 403, "ACCOUNT_LOCKED")
        assert refused(await log_in(service, email), 403, "ACCOUNT_LOCKED")


async def test_known_unknown_and_locked_addresses_cost_the_same_hash(
    database_url: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it takes in time is measured by `bench.accounts`; a busy machine's clock proves nothing here."""
    hashed: list[str] = []
    real = PasswordHasher.verify

    def noted(hasher: PasswordHasher, stored: str, password: str) -> bool:
        hashed.append(stored[: len("$argon2id$v=19$m=19456,t=2,p=1$")])
        return real(hasher, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", noted)
    async with api_service(database_url, home, rate_limits="off") as service:
        await add_admin(service)
        for _ in range(10):
            await log_in(service, "locked@example.com", "wrong password")
        hashed.clear()
        for email in (EMAIL, "nobody@example.com", "locked@example.com"):
            await log_in(service, email, "wrong password")
    assert hashed == ["$argon2id$v=19$m=19456,t=2,p=1$"] * 3


async def test_logins_are_limited_by_account_and_by_address(database_url: str, home: Path) -> None:
    limits = {"login_per_account_per_minute": 2, "login_per_address_per_minute": 4}
    async with api_service(database_url, home, **limits) as service:
        for _ in range(2):
            assert refused(await log_in(service), 401, "INVALID_CREDENTIALS")
        answer = await log_in(service, EMAIL.upper())
        assert refused(answer, 429, "TOO_MANY_REQUESTS")
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert refused(await log_in(service, "another@example.com"), 401, "INVALID_CREDENTIALS")
        assert refused(await log_in(service, "third@example.com"), 429, "TOO_MANY_REQUESTS")


async def test_refreshing_is_limited_by_address(database_url: str, home: Path) -> None:
    async with api_service(database_url, home, account_per_address_per_minute=1) as service:
        assert refused(await service.client.post("/api/v1/auth/refresh"), 400, "REFRESH_TOKEN_INVALID")
        assert refused(await service.client.post("/api/v1/auth/refresh"), 429, "TOO_MANY_REQUESTS")


async def test_a_browser_refreshes_and_logs_out_by_its_cookies(service: ApiService) -> None:
    client = service.client
    first = (await log_in(service)).json()
    refreshed = await client.post("/api/v1/auth/refresh")
    assert refreshed.status_code == 200
    assert refreshed.json()["user"] == first["user"]
    assert refreshed.json()["access_token"] == client.cookies["gridfleet_session"]
    assert (await client.get("/api/v1/auth/me")).json() == {"user": first["user"]}
    assert refused(await client.post("/api/v1/auth/logout"), 401, "UNAUTHORIZED"), "a cookie needs a same-origin request"
    refresh_token = client.cookies["gridfleet_refresh"]
    answer = await client.post("/api/v1/auth/logout", headers={"sec-fetch-site": "same-origin"})
    assert (answer.status_code, answer.json()) == (200, {"message": "You are logged out."})
    assert not dict(client.cookies)
    for token in (first["access_token"], refreshed.json()["access_token"]):
        assert refused(await client.get("/api/v1/auth/me", headers=bearer(token)), 401, "UNAUTHORIZED")
    again = await client.post("/api/v1/auth/refresh", headers={"cookie": f"gridfleet_refresh={refresh_token}"})
    assert refused(again, 401, "REFRESH_TOKEN_INVALID")


@pytest.mark.parametrize("cookie", [None, "gridfleet_refresh=", "gridfleet_refresh=short", "other=x"])
async def test_a_missing_or_malformed_refresh_cookie_is_a_bad_request(service: ApiService, cookie: str | None) -> None:
    answer = await service.client.post("/api/v1/auth/refresh", headers={"cookie": cookie} if cookie else {})
    assert refused(answer, 400, "REFRESH_TOKEN_INVALID")
    assert answer.json()["error"] == "Bad Request"


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer x", "Basic abc", "Bearer " + "x" * 5000])
async def test_me_needs_a_valid_session(service: ApiService, authorization: str) -> None:
    headers = {"authorization": authorization} if authorization else {}
    assert refused(await service.client.get("/api/v1/auth/me", headers=headers), 401, "UNAUTHORIZED")


async def test_the_current_organization_is_the_default_one_else_the_first_joined(service: ApiService) -> None:
    database, tokens = service.state.database, service.state.access_tokens
    first, second, foreign = [await add_organization(database) for _ in range(3)]

    async def current(*roles: OrgRole, default: Any = None, super_admin: bool = False) -> tuple[Any, list[Any]]:
        user = await add_user(database, super_admin=super_admin, default_organization_id=default)
        for organization, role in zip((first, second), roles, strict=False):
            await add_member(database, organization.id, user.id, role)
        answer = await service.client.get("/api/v1/auth/me", headers=bearer(await session_of(database, tokens, user)))
        shown = answer.json()["user"]
        return shown["currentOrganization"], shown["organizations"]

    def shown(organization: Any, role: str) -> dict[str, str]:
        names = {"name": organization.name, "slug": organization.slug}
        return {"id": str(organization.id), **names, "role": role, "timeZone": "UTC"}

    both = [shown(first, "VIEWER"), shown(second, "OPERATOR")]
    assert await current() == (None, [])
    assert await current(OrgRole.VIEWER, OrgRole.OPERATOR) == (both[0], both)
    assert await current(OrgRole.VIEWER, OrgRole.OPERATOR, default=second.id) == (both[1], both)
    assert await current(OrgRole.VIEWER, default=foreign.id) == (both[0], both[:1])
    assert await current(OrgRole.VIEWER, default=foreign.id, super_admin=True) == (shown(foreign, "ORG_ADMIN"), both[:1])
