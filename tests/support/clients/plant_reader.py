"""A VIEWER who reads a recorded plant over REST."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from gridfleet.kernel.caller import OrgRole
from support.builders.accounts import add_member, add_user, session_of
from support.builders.telemetry_records import RecordedPlant
from support.servers.api_service import ApiService, api_service, bearer

__all__ = ["PlantReader"]


@dataclass(frozen=True)
class PlantReader:
    """A VIEWER and the plant they may read."""

    service: ApiService
    plant: RecordedPlant
    headers: dict[str, str]

    @classmethod
    @asynccontextmanager
    async def open(cls, database_url: str, home: Path) -> AsyncIterator[Self]:
        """Serve the API and log a VIEWER in."""
        async with api_service(database_url, home) as service:
            plant = await RecordedPlant.create(service.state.database)
            user = await add_user(service.state.database)
            await add_member(service.state.database, plant.organization_id, user.id, OrgRole.VIEWER)
            token = await session_of(service.state.database, service.state.access_tokens, user)
            yield cls(service, plant, {**bearer(token), "x-org-id": str(plant.organization_id)})
