"""Kept answers, and what SuperAdmins see of them, as callers notice it; over both places."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridfleet.kernel.ids import new_id
from gridfleet.kernel.redis_link import RedisLink
from support.builders.accounts import add_organization
from support.clients.plants_over_http import new_plant
from support.servers.api_service import ApiService, api_service
from support.servers.redis_server import RedisServer

STATS = "/api/v1/admin/cache/stats"
FLUSH = "/api/v1/admin/cache/flush"
CERTIFICATES = "/api/v1/plants/certificate-stats"


@dataclass
class Site:
    """The service, a SuperAdmin, and the headers of the SuperAdmin in an organisation."""

    service: ApiService
    admin: dict[str, str]
    org: dict[str, str]

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Any:
        answer = await self.service.client.get(path, headers=headers or self.org)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def call(self, method: str, path: str, headers: dict[str, str] | None = None, **content: Any) -> Any:
        answer = await self.service.client.request(method, path, headers=headers or self.org, **content)
        assert answer.is_success, answer.text
        return answer

    async def reads(self) -> tuple[int, int, int]:
        found = await self.get(STATS, self.admin)
        return found["hits"], found["misses"], found["totalKeys"]


@pytest.fixture(params=["memory", "redis"])
async def site(
    request: pytest.FixtureRequest, running_redis: RedisServer, link: RedisLink, database_url: str, home: Path
) -> AsyncIterator[Site]:
    assert not link.is_unavailable  # and it is empty
    settings: dict[str, Any] = {"redis_url": running_redis.url} if request.param == "redis" else {}
    async with api_service(database_url, home, **settings) as service:
        admin = await service.super_admin()
        organization = await add_organization(service.state.database)
        yield Site(service, admin, admin | {"x-org-id": str(organization.id)})


async def test_a_poll_is_answered_from_the_cache_and_counted(site: Site) -> None:
    expected = {"hitRate": "0.0%", "hits": 0, "misses": 0, "totalKeys": 0, "memory": "0 B"}
    assert await site.get(STATS, site.admin) == expected
    answers = [await site.get(CERTIFICATES) for _ in range(4)]
    assert all(answer == answers[0] for answer in answers)
    found = await site.get(STATS, site.admin)
    assert (found["hits"], found["misses"], found["totalKeys"], found["hitRate"]) == (3, 1, 1, "75.0%")
    assert re.fullmatch(r"\d+ B|\d+\.\d (kB|MB|GB)", found["memory"])


async def test_a_writer_reads_its_own_write(site: Site) -> None:
    group = (await site.call("POST", "/api/v1/plant-groups", json={"name": "G"})).json()
    available = f"/api/v1/plant-groups/{group['id']}/available-plants"
    assert await site.get(available) == []
    plant = await new_plant(site.service.client, site.org)
    energy = f"/api/v1/plants/{plant['id']}/energy/today"
    assert [each["id"] for each in await site.get(available)] == [plant["id"]]
    await site.get(energy)
    await site.call("PATCH", f"/api/v1/plants/{plant['id']}", json={"name": "Renamed"})
    assert [each["name"] for each in await site.get(available)] == ["Renamed"]
    await site.call("POST", f"/api/v1/plant-groups/{group['id']}/plants", json={"plantIds": [plant["id"]]})
    assert await site.get(available) == []
    await site.get(energy)
    for path in (f"/api/v1/plant-groups/{group['id']}", f"/api/v1/plants/{plant['id']}"):
        await site.call("DELETE", path)
    for path in (available, energy):
        assert (await site.service.client.get(path, headers=site.org)).status_code == 404


async def test_a_plant_that_moves_shows_in_its_new_organization_at_once(site: Site) -> None:
    plant = await new_plant(site.service.client, site.org)
    target = await add_organization(site.service.state.database)
    there = site.admin | {"x-org-id": str(target.id)}
    group = (await site.call("POST", "/api/v1/plant-groups", there, json={"name": "G"})).json()
    available = f"/api/v1/plant-groups/{group['id']}/available-plants"
    assert await site.get(available, there) == []
    await site.call("PATCH", f"/api/v1/plants/{plant['id']}", json={"organizationId": str(target.id)})
    assert [each["id"] for each in await site.get(available, there)] == [plant["id"]]


async def test_no_caller_gets_what_it_may_not_see(site: Site) -> None:
    client = site.service.client
    seen, hidden = [await new_plant(client, site.org) for _ in range(2)]
    group = (await site.call("POST", "/api/v1/plant-groups", json={"name": "G"})).json()
    available = f"/api/v1/plant-groups/{group['id']}/available-plants"
    body = {"name": "K", "partnerId": "p", "scopes": ["plants:read"], "allowedPlantIds": [seen["id"]]}
    key = (await site.call("POST", "/api/v1/partner/api-keys", json=body)).json()["key"]
    assert {each["id"] for each in await site.get(available)} == {seen["id"], hidden["id"]}
    assert [each["id"] for each in await site.get(available, {"x-api-key": key})] == [seen["id"]]
    stranger = await add_organization(site.service.state.database)
    before = await site.reads()
    assert (await client.get(available)).status_code == 401
    assert (await client.get(available, headers=site.org | {"x-org-id": str(new_id())})).status_code == 403
    assert await site.reads() == before, "who is refused does not reach the cache"
    assert (await client.get(available, headers=site.org | {"x-org-id": str(stranger.id)})).status_code == 404


async def test_flushing(site: Site) -> None:
    stranger = await add_organization(site.service.state.database)
    other = site.admin | {"x-org-id": str(stranger.id)}
    for headers in (site.org, other):
        await site.get(CERTIFICATES, headers)
    for organization_id in (stranger.id, new_id()):  # whether it exists or not
        answer = await site.call("DELETE", f"{FLUSH}/{organization_id}", site.admin)
        assert (answer.status_code, answer.content) == (204, b"")
    assert await site.reads() == (0, 2, 1)
    await site.get(CERTIFICATES)
    await site.get(CERTIFICATES, other)
    assert await site.reads() == (1, 3, 2)
    answer = await site.call("DELETE", FLUSH, site.admin)
    assert (answer.status_code, answer.content) == (204, b"")
    assert await site.reads() == (1, 3, 0)
    events = (await site.get("/api/v1/audit-events?event=cache.flushed", site.admin))["data"]
    assert [event["organizationId"] for event in events][::2] == [None, str(stranger.id)]
    refused = await site.service.client.delete(f"{FLUSH}/nonsense", headers=site.admin)
    assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_UUID")
