"""Organisations over HTTP, and the right to act in one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from gridfleet.domains.organizations.membership import scope_of
from gridfleet.kernel.caller import OrgRole, OrgScope
from gridfleet.kernel.errors import Forbidden
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_organization, add_user, session_of
from support.servers.api_service import ApiService, api_service, bearer

URL = "/api/v1/organizations"


@pytest.fixture
async def service(database_url: str, home: Path) -> AsyncIterator[ApiService]:
    async with api_service(database_url, home) as running:
        yield running


async def test_an_organization_is_created_found_and_listed(service: ApiService) -> None:
    admin = await service.super_admin()
    created = await service.client.post(URL, headers=admin, json={"name": " Sun & Söhne ", "slug": "sun-2"})
    assert created.status_code == 201
    record = created.json()
    assert set(record) == {"id", "name", "slug", "description", "timeZone", "createdAt", "updatedAt"}
    assert (record["name"], record["slug"], record["description"]) == ("Sun & Söhne", "sun-2", None)
    assert record["timeZone"] == "UTC"
    assert record["createdAt"].endswith("Z")
    found = await service.client.get(f"{URL}/{record['id']}", headers=admin)
    assert (found.status_code, found.json()) == (200, record)
    listed = await service.client.get(URL, headers=admin)
    assert listed.json() == {
        "data": [{**record, "memberCount": 0, "plantCount": 0}],
        "meta": {"page": 1, "limit": 20, "total": 1, "totalPages": 1},
    }


async def test_pages_show_every_organization_once_newest_first(service: ApiService) -> None:
    admin = await service.super_admin()
    assert (await service.client.get(URL, headers=admin)).json() == {
        "data": [],
        "meta": {"page": 1, "limit": 20, "total": 0, "totalPages": 0},
    }
    made = [str((await add_organization(service.state.database)).id) for _ in range(5)]
    pages = [(await service.client.get(f"{URL}?page={page}&limit=2", headers=admin)).json() for page in (1, 2, 3, 4)]
    assert [item["id"] for page in pages for item in page["data"]] == made[::-1]
    assert [len(page["data"]) for page in pages] == [2, 2, 1, 0]
    assert pages[2]["meta"] == {"page": 3, "limit": 2, "total": 5, "totalPages": 3}


@pytest.mark.parametrize(
    "query", ["page=0", "limit=0", "limit=101", "page=x", "page=1.5", "unknown=1", "page=99999999999999999999"]
)
async def test_bad_paging_is_a_validation_error(service: ApiService, query: str) -> None:
    answer = await service.client.get(f"{URL}?{query}", headers=await service.super_admin())
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")


async def test_a_page_far_behind_the_end_is_empty(service: ApiService) -> None:
    answer = await service.client.get(f"{URL}?page=1000&limit=100", headers=await service.super_admin())
    assert (answer.status_code, answer.json()["data"]) == (200, [])


@pytest.mark.parametrize("slug", ["a-b-c", "ab", "0x", "a" * 50])
async def test_good_slugs(service: ApiService, slug: str) -> None:
    answer = await service.client.post(URL, headers=await service.super_admin(), json={"name": "Name", "slug": slug})
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"slug": "a"}, "slug"),
        ({"slug": "a" * 51}, "slug"),
        ({"slug": "a--b"}, "slug"),
        ({"slug": "-ab"}, "slug"),
        ({"slug": "ab-"}, "slug"),
        ({"slug": "Ab"}, "slug"),
        ({"slug": "a_b"}, "slug"),
        ({"slug": "ä-b"}, "slug"),
        ({"slug": "٣٣"}, "slug"),
        ({"slug": None}, "slug"),
        ({"timeZone": "Europe/Atlantis"}, "timeZone"),
        ({"timeZone": "europe/prague"}, "timeZone"),
        ({"timeZone": None}, "timeZone"),
        ({"name": " x "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"description": "x" * 501}, "description"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_bad_fields_are_named(service: ApiService, change: dict[str, Any], field: str) -> None:
    body = {"name": "Name", "slug": "slug", **change}
    answer = await service.client.post(URL, headers=await service.super_admin(), json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert [complaint.split(":")[0] for complaint in answer.json()["details"]] == [field]


async def test_a_slug_belongs_to_one_organization_even_in_a_race(service: ApiService) -> None:
    admin = await service.super_admin()
    body = {"name": "Name", "slug": "same"}
    answers = await asyncio.gather(*(service.client.post(URL, headers=admin, json=body) for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"CONFLICT"}


async def test_ids_are_checked_before_existence(service: ApiService) -> None:
    admin = await service.super_admin()
    answer = await service.client.get(f"{URL}/nonsense", headers=admin)
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_UUID")
    answer = await service.client.get(f"{URL}/{new_id()}", headers=admin)
    assert (answer.status_code, answer.json()["code"]) == (404, "ORGANIZATION_NOT_FOUND")


@pytest.mark.parametrize(("method", "path"), [("GET", URL), ("POST", URL), ("GET", f"{URL}/nonsense")])
async def test_only_super_admins_may(service: ApiService, method: str, path: str) -> None:
    anonymous = await service.client.request(method, path)
    assert (anonymous.status_code, anonymous.json()["code"]) == (401, "UNAUTHORIZED")
    database, tokens = service.state.database, service.state.access_tokens
    user = await session_of(database, tokens, await add_user(database))
    answer = await service.client.request(method, path, headers=bearer(user))
    assert (answer.status_code, answer.json()["code"]) == (403, "SUPER_ADMIN_REQUIRED")


async def test_members_act_with_their_role_super_admins_everywhere_and_strangers_nowhere(service: ApiService) -> None:
    database, tokens = service.state.database, service.state.access_tokens
    home, other = await add_organization(database), await add_organization(database)
    member, admin = await add_user(database), await add_user(database, super_admin=True)
    await add_member(database, home.id, member.id, OrgRole.OPERATOR)
    await add_member(database, home.id, admin.id, OrgRole.VIEWER)

    async def scope(access_token: str, organization_id: UUID) -> OrgScope:
        access = service.state.access
        caller = await access.caller(database, access_token, "203.0.113.7")
        return scope_of(caller, organization_id, await access.role(database, caller, organization_id))

    as_member, as_admin = await session_of(database, tokens, member), await session_of(database, tokens, admin)
    entered = await scope(as_member, home.id)
    assert (entered.organization_id, entered.role, entered.actor.user_id) == (home.id, OrgRole.OPERATOR, member.id)
    assert {(await scope(as_admin, organization.id)).role for organization in (home, other)} == {OrgRole.ORG_ADMIN}
    for token, organization_id in ((as_member, other.id), (as_member, new_id()), (as_admin, new_id())):
        with pytest.raises(Forbidden):
            await scope(token, organization_id)
