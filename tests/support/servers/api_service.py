"""The public application in the test's process, on the test's own database, called through httpx."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx

from gridfleet.api.http.app import create_app
from gridfleet.api.state import AppState, open_state
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from support.builders.accounts import super_admin_token


@dataclass(frozen=True)
class ApiService:
    """A running application: a client that is not logged in, and the application's state."""

    client: httpx.AsyncClient
    state: AppState

    async def super_admin(self) -> dict[str, str]:
        """Return headers of a new SuperAdmin."""
        return bearer(await super_admin_token(self.state.database, self.state.access_tokens))


def bearer(access_token: str) -> dict[str, str]:
    """Return headers with an access token."""
    return {"authorization": f"Bearer {access_token}"}


@asynccontextmanager
async def api_service(database_url: str, home: Path, **settings: Any) -> AsyncIterator[ApiService]:
    """Run the application until the end of the block. An undeclared error code fails the call."""
    chosen = {"home": home, "database_url": database_url, "keys": Keyring.generate(), "internal_secret": "inside", **settings}
    async with open_state(Settings(**chosen), strict=True) as state:
        transport = httpx.ASGITransport(cast("Any", create_app(state)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
            yield ApiService(client, state)
