"""Two api processes: what ends in one has ended in the other."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from gridfleet.domains.identity.bootstrap import ensure_first_super_admin
from gridfleet.domains.organizations.models import Organization
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.db import Database
from support.builders.accounts import add_member, add_organization
from support.servers.api_process import api_process

PASSWORD, NEW = "Correct horse 1!", "quite another password"
Headers = dict[str, str]


@dataclass
class Two:
    """Clients of both processes, a SuperAdmin, and an organisation."""

    database: Database
    here: httpx.Client
    there: httpx.Client
    organization: Organization
    admin: Headers

    @property
    def members(self) -> str:
        return f"/organizations/{self.organization.id}/members"

    async def operator(self, email: str) -> Headers:
        """A new OPERATOR, logged in, whom both processes have met several times."""
        body = {"email": email, "name": "Ada", "password": PASSWORD}
        user = self.here.post("/auth/register", json=body, headers=self.admin).json()["user"]
        await add_member(self.database, self.organization.id, user["id"], OrgRole.OPERATOR)
        headers = log_in(self.here, email)
        for client in (self.here, self.there) * 3:
            assert client.get(self.members, headers=headers).status_code == 200
        return headers

    def membership(self, email: str) -> str:
        found = self.here.get(f"{self.members}?limit=100", headers=self.admin).json()["data"]
        return next(f"{self.members}/{one['id']}" for one in found if one["user"]["email"] == email)


def log_in(client: httpx.Client, email: str) -> Headers:
    answer = client.post("/auth/login", json={"email": email, "password": PASSWORD})
    client.cookies.clear()
    return {"authorization": f"Bearer {answer.json()['access_token']}"}


@pytest.fixture
async def two(database: Database, home: Path) -> AsyncIterator[Two]:
    async with database.transaction() as db:
        await ensure_first_super_admin(db, "admin@example.com", PASSWORD)
    organization = await add_organization(database)
    with (
        api_process(database.url, home) as here,
        api_process(database.url, home) as there,
        httpx.Client(base_url=f"{here}/api/v1", timeout=20) as first,
        httpx.Client(base_url=f"{there}/api/v1", timeout=20) as second,
    ):
        yield Two(database, first, second, organization, log_in(first, "admin@example.com"))


async def test_what_ends_here_has_ended_there(two: Two) -> None:
    late: list[tuple[str, float]] = []
    for end, refusal in (("logout", 401), ("logout-all", 401), ("password", 401), ("role", 403), ("removal", 403)):
        for number in range(3):
            email = f"{end}{number}@example.com"
            headers = await two.operator(email)
            done = carry_out(two, end, email, headers)
            assert done.status_code == 200, done.text
            assert two.here.get(two.members, headers=headers).status_code == refusal, "here without any delay"
            asked = time.perf_counter()
            assert two.there.get(two.members, headers=headers).status_code == refusal, "there without any delay"
            late.append((end, time.perf_counter() - asked))
    print("\n".join(f"{end}: refused there after {seconds * 1000:.1f} ms" for end, seconds in late))


def carry_out(two: Two, end: str, email: str, headers: Headers) -> httpx.Response:
    """Ends a user's access in the first process."""
    match end:
        case "password":
            body = {"currentPassword": PASSWORD, "newPassword": NEW}
            return two.here.post("/auth/change-password", json=body, headers=log_in(two.there, email))
        case "role":
            return two.here.patch(two.membership(email), json={"role": "VIEWER"}, headers=two.admin)
        case "removal":
            return two.here.delete(two.membership(email), headers=two.admin)
    return two.here.post(f"/auth/{end}", headers=headers)


async def test_a_key_revoked_here_is_refused_there(two: Two) -> None:
    org = two.admin | {"x-org-id": str(two.organization.id)}
    for _ in range(3):
        body = {"name": "K", "partnerId": "p", "scopes": ["plants:read"]}
        created = two.here.post("/partner/api-keys", json=body, headers=org).json()
        key = {"x-api-key": created["key"]}
        for client in (two.here, two.there) * 3:
            assert client.get("/plants", headers=key).status_code == 200
        two.here.delete(f"/partner/api-keys/{created['apiKey']['id']}", headers=org)
        assert two.here.get("/plants", headers=key).status_code == 401, "here without any delay"
        started = time.perf_counter()
        assert two.there.get("/plants", headers=key).status_code == 401, "there without any delay"
        print(f"key: refused there after {(time.perf_counter() - started) * 1000:.1f} ms")
