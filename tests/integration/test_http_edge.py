"""The HTTP edge with a database behind it: one transaction a request, cookies, repeated creations, health."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_user, session_of
from support.builders.interleaving import until_blocked
from support.servers.api_service import ApiService, api_service, bearer
from support.servers.free_ports import free_ports

URL = "/api/v1/organizations"


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home, amqp_port=free_ports(1)[0]) as running:
        yield running


def organization(**fields: Any) -> dict[str, Any]:
    return {"name": "Sun", "slug": f"sun-{new_id().hex}", **fields}


async def count(service: ApiService, table: str) -> int:
    async with service.state.database.transaction() as db:
        row = await (await db.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_repeated_creation_gets_its_first_answer(service: ApiService) -> None:
    headers = {**await service.super_admin(), "idempotency-key": "order-1"}
    first = await service.client.post(URL, headers=headers, json=(body := organization()))
    again = await service.client.post(URL, headers=headers, json=body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await count(service, "organization") == 1


async def test_a_key_is_not_used_for_another_body(service: ApiService) -> None:
    headers = {**await service.super_admin(), "idempotency-key": "order-1"}
    await service.client.post(URL, headers=headers, json=organization())
    other = await service.client.post(URL, headers=headers, json=organization())
    assert (other.status_code, other.json()["code"]) == (400, "VALIDATION_ERROR")
    assert other.json()["details"] == ["Idempotency-Key: must not be used again with another body"]


async def test_a_refused_creation_does_not_use_up_its_key(service: ApiService) -> None:
    headers = {**await service.super_admin(), "idempotency-key": "order-1"}
    taken = organization(slug="taken")
    await service.client.post(URL, headers=await service.super_admin(), json=taken)
    assert (await service.client.post(URL, headers=headers, json=taken)).json()["code"] == "CONFLICT"
    assert (await service.client.post(URL, headers=headers, json=organization())).status_code == 201


async def test_a_key_belongs_to_its_user_and_ends_after_a_day(service: ApiService) -> None:
    mine, theirs = await service.super_admin(), await service.super_admin()
    key = {"idempotency-key": "order-1"}
    bodies = [organization() for _ in range(3)]
    assert (await service.client.post(URL, headers={**mine, **key}, json=bodies[0])).status_code == 201
    assert (await service.client.post(URL, headers={**theirs, **key}, json=bodies[1])).status_code == 201
    async with service.state.database.transaction() as db:
        await db.execute("UPDATE idempotent_answer SET created_at = created_at - interval '25 hours'")
    later = await service.client.post(URL, headers={**mine, **key}, json=bodies[2])
    assert (later.status_code, later.json()["slug"]) == (201, bodies[2]["slug"])
    assert await count(service, "idempotent_answer") == 1, "the other user's old answer is forgotten on the way"


async def test_an_organisation_has_an_hour_to_store_64_mib_of_responses(service: ApiService) -> None:
    headers = await service.super_admin()
    user_id = (await service.client.get("/api/v1/auth/me", headers=headers)).json()["user"]["id"]
    service.state.kept_bytes.add(user_id, 64 * 1024 * 1024 - 10)
    body = organization()
    refused = await service.client.post(URL, headers={**headers, "idempotency-key": "order-1"}, json=body)
    assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
    assert 0 < int(refused.headers["retry-after"]) <= 3_600
    assert await count(service, "organization") == await count(service, "idempotent_answer") == 0
    assert (await service.client.post(URL, headers=headers, json=body)).status_code == 201


async def test_the_row_of_a_kept_response_counts_too(service: ApiService) -> None:
    """A short response with a long key takes ten times its own size."""
    headers = await service.super_admin()
    user_id = (await service.client.get("/api/v1/auth/me", headers=headers)).json()["user"]["id"]
    size = len((await service.client.post(URL, headers=headers, json=organization())).content)
    service.state.kept_bytes.add(user_id, 64 * 1024 * 1024 - size - 700)
    refused = await service.client.post(URL, headers={**headers, "idempotency-key": "k" * 255}, json=organization())
    assert refused.status_code == 429
    assert (await service.client.post(URL, headers={**headers, "idempotency-key": "k"}, json=organization())).status_code == 201


async def test_a_malformed_key_is_refused(service: ApiService) -> None:
    for key in ("", "two words", "x" * 256):
        answer = await service.client.post(
            URL, headers={**await service.super_admin(), "idempotency-key": key}, json=organization()
        )
        assert answer.json()["code"] == "VALIDATION_ERROR"


async def test_two_equal_creations_at_once_make_one_record(service: ApiService) -> None:
    headers = {**await service.super_admin(), "idempotency-key": "order-1"}
    body = organization()
    answers = await asyncio.gather(*(service.client.post(URL, headers=headers, json=body) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert await count(service, "organization") == 1


async def test_a_repetition_during_a_slow_creation_is_refused_until_it_ends(service: ApiService) -> None:
    headers = {**await service.super_admin(), "idempotency-key": "order-1"}
    body = organization()
    first = await service.client.post(URL, headers=headers, json=body)
    async with service.state.database.transaction() as slow:
        await slow.execute("SELECT FROM idempotent_answer FOR UPDATE")  # as the first request, until it ends
        early = await service.client.post(URL, headers=headers, json=body)
    assert (early.status_code, early.json()["code"], early.headers["retry-after"]) == (429, "TOO_MANY_REQUESTS", "5")
    assert (await service.client.post(URL, headers=headers, json=body)).content == first.content


async def test_a_request_that_ends_a_deadlock_is_refused_as_too_early(service: ApiService) -> None:
    headers = await service.super_admin()
    first = (await service.client.post(URL, headers=headers, json=organization())).json()["id"]
    second = (await service.client.post(URL, headers=headers, json=organization())).json()["id"]
    async with service.state.database.transaction() as db:
        await db.execute(
            "CREATE FUNCTION lock_second() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" PERFORM FROM organization WHERE id = '{second}' FOR UPDATE; RETURN NULL; END $$".encode()
        )
        await db.execute(
            f"CREATE TRIGGER lock_second AFTER UPDATE ON organization FOR EACH ROW WHEN (NEW.id = '{first}')"
            " EXECUTE FUNCTION lock_second()".encode()
        )
    async with service.state.database.transaction() as other:
        # The server searches for deadlocks in the request's connection first, after a second, and ends its statement.
        await other.execute("SET LOCAL deadlock_timeout = '30s'")
        await other.execute("SELECT FROM organization WHERE id = %s FOR UPDATE", (second,))
        changing = asyncio.create_task(service.client.patch(f"{URL}/{first}", headers=headers, json={"name": "Moon"}))
        await until_blocked(service.state.database)
        await other.execute("SELECT FROM organization WHERE id = %s FOR UPDATE", (first,))
    refused = await changing
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, "TOO_MANY_REQUESTS", "5")
    assert (await service.client.patch(f"{URL}/{first}", headers=headers, json={"name": "Moon"})).status_code == 200


async def test_kept_answers_are_unreadable_in_the_table(service: ApiService) -> None:
    body = organization()
    await service.client.post(URL, headers={**await service.super_admin(), "idempotency-key": "order-1"}, json=body)
    async with service.state.database.transaction() as db:
        row = await (await db.execute("SELECT answer FROM idempotent_answer")).fetchone()
    assert row is not None
    assert body["slug"].encode() not in row[0]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"sec-fetch-site": "cross-site"}, 401),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost:8080"}, 401),
        ({"sec-fetch-site": "none"}, 401),
        ({"origin": "https://evil.example.com"}, 401),
        ({"origin": "null"}, 401),
        ({"origin": "http://["}, 401),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"origin": "http://localhost:8080"}, 200),
    ],
)
async def test_a_cookie_session_changes_things_from_its_own_pages_only(
    service: ApiService, headers: dict[str, str], status: int
) -> None:
    token = await session_of(service.state.database, service.state.access_tokens, await add_user(service.state.database))
    cookie = {"cookie": f"gridfleet_session={token}"}
    assert (await service.client.get("/api/v1/auth/me", headers=cookie)).status_code == 200
    assert (await service.client.post("/api/v1/auth/logout", headers={**cookie, **headers})).status_code == status


async def test_a_bad_authorization_header_is_not_saved_by_a_good_cookie(service: ApiService) -> None:
    token = await session_of(service.state.database, service.state.access_tokens, await add_user(service.state.database))
    cookie = {"cookie": f"gridfleet_session={token}"}
    for value in ("Basic YTpi", "Bearer", "Bearer x", token):
        answer = await service.client.get("/api/v1/auth/me", headers={**cookie, "authorization": value})
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")


async def test_checks_come_in_their_promised_order(service: ApiService) -> None:
    client, admin = service.client, await service.super_admin()
    anonymous = await client.post("/api/v1/plants/5/provision")
    assert anonymous.json()["code"] == "UNAUTHORIZED"
    no_organization = await client.get("/api/v1/plants/5", headers=admin)
    assert no_organization.json()["code"] == "FORBIDDEN"
    user = await add_user(service.state.database)
    member = bearer(await session_of(service.state.database, service.state.access_tokens, user))
    assert (await client.get(f"{URL}/5", headers=member)).json()["code"] == "SUPER_ADMIN_REQUIRED"
    assert (await client.get(f"{URL}/5", headers=admin)).json()["code"] == "INVALID_UUID"
    assert (await client.get(f"{URL}/{new_id()}", headers=admin)).json()["code"] == "ORGANIZATION_NOT_FOUND"


async def test_readiness_names_what_is_missing(service: ApiService) -> None:
    answer = await service.client.get("/api/v1/health/ready")  # no broker listens on the fixture's port
    assert answer.status_code == 503
    assert answer.json()["status"] == "unhealthy"
    assert answer.json()["checks"] == {"database": "ok", "broker": "unavailable", "cache": "ok", "migrations": "ok"}
    assert answer.headers["cache-control"] == "no-store"
    async with service.state.database.transaction() as db:
        await db.execute("UPDATE alembic_version SET version_num = '0001'")
    assert (await service.client.get("/api/v1/health/ready")).json()["checks"]["migrations"] == "behind"
    async with service.state.database.transaction() as db:
        await db.execute("UPDATE alembic_version SET version_num = 'next'")  # a later release's, while we are replaced
    assert (await service.client.get("/api/v1/health/ready")).json()["checks"]["migrations"] == "ok"
    for path in ("/api/v1/health", "/api/v1/health/live"):
        assert (await service.client.get(path)).json()["status"] == "ok"


async def test_without_a_database_answers_are_envelopes_still(service: ApiService) -> None:
    admin = await service.super_admin()
    await service.state.database.close()
    answer = await service.client.get(URL, headers=admin)
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL_SERVER_ERROR")
    ready = await service.client.get("/api/v1/health/ready")
    assert ready.json()["checks"]["database"] == "unavailable"
    assert (await service.client.get("/api/v1/health")).status_code == 200


@pytest.mark.parametrize("external_id", ["%00", "a%00b", "%C2%85", "%0A", "..", "%2e%2e%2f", "x" * 5000, "%F0%9F%94%8B"])
async def test_a_name_in_the_path_that_no_record_can_have_is_found_nowhere(service: ApiService, external_id: str) -> None:
    admin = await service.super_admin()
    created = await service.client.post(URL, headers=admin, json=organization())
    headers = {**admin, "x-org-id": created.json()["id"]}
    answer = await service.client.get(f"/api/v1/plants/{new_id()}/sub-devices/{external_id}", headers=headers)
    assert answer.status_code == 404
