"""Plants of an organisation at the application in the test's process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gridfleet.domains.device_templates.catalogue import seed_system_templates
from gridfleet.kernel.caller import OrgRole
from gridfleet.kernel.ids import new_id
from support.builders.accounts import add_member, add_organization, add_user, session_of
from support.servers.api_service import ApiService, api_service, bearer

NEW_PLANT = {"name": "Roof", "serialNumber": "SN-1", "type": "GATEWAY"}


async def new_plant(client: httpx.AsyncClient, headers: dict[str, str]) -> Any:
    """Return a new PENDING plant with a unique serial number."""
    body = {**NEW_PLANT, "serialNumber": f"SN-{new_id()}"}
    answer = await client.post("/api/v1/plants", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()


@dataclass
class Fleet:
    """Headers of users of an organisation, of an admin of another one, and of a SuperAdmin who acts in the first one."""

    service: ApiService
    admin: dict[str, str]
    operator: dict[str, str]
    viewer: dict[str, str]
    stranger: dict[str, str]
    super_admin: dict[str, str]

    async def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Return status and JSON of a call. `headers` defaults to the admin's."""
        answer = await self.service.client.request(method, f"/api/v1{path}", json=body, headers=headers or self.admin)
        return answer.status_code, answer.json()

    async def plant(self, **changes: Any) -> Any:
        """Return a new PENDING plant."""
        status, plant = await self.call("POST", "/plants", {**NEW_PLANT, **changes})
        assert status == 201, plant
        return plant

    async def active_plant(self, method: str = "MTLS", **changes: Any) -> tuple[str, Any]:
        """Return the path of a new ACTIVE plant, and its package."""
        plant = await self.plant(authMethod=method, **changes)
        path = f"/plants/{plant['id']}"
        status, package = await self.call("POST", f"{path}/provision")
        assert status == 200, package
        return path, package

    async def sql(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement, commit, and return its rows."""
        async with self.service.state.database.transaction() as db:
            cursor = await db.execute(query.encode(), parameters)
            return await cursor.fetchall() if cursor.description is not None else []


@asynccontextmanager
async def fleet_over_http(database_url: str, home: Path, **settings: Any) -> AsyncIterator[Fleet]:
    """Run the application with two organisations and the system templates."""
    async with api_service(database_url, home, **settings) as service:
        database, tokens = service.state.database, service.state.access_tokens

        async def member(organization: Any, role: OrgRole) -> dict[str, str]:
            user = await add_user(database)
            await add_member(database, organization.id, user.id, role)
            return bearer(await session_of(database, tokens, user)) | {"x-org-id": str(organization.id)}

        async with database.transaction() as db:
            await seed_system_templates(db)
        ours, theirs = await add_organization(database), await add_organization(database)
        yield Fleet(
            service,
            await member(ours, OrgRole.ORG_ADMIN),
            await member(ours, OrgRole.OPERATOR),
            await member(ours, OrgRole.VIEWER),
            await member(theirs, OrgRole.ORG_ADMIN),
            await service.super_admin() | {"x-org-id": str(ours.id)},
        )
