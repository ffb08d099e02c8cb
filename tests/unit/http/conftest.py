"""An application with only the endpoints that a test declares, on no database."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import httpx
import pytest

from gridfleet.api.access.cache import AccessCache
from gridfleet.api.http.app import create_app
from gridfleet.api.http.endpoint import ENDPOINTS, import_handlers
from gridfleet.api.state import AppState
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings

Browse = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


class NoDatabase:
    """The state of endpoints that need none."""

    strict = True

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.access = AccessCache(AccessTokens(Keyring.parse(Keyring.generate())))


@pytest.fixture
def only_own_endpoints() -> Iterator[None]:
    """The registry holds what the test declares, and the service's own endpoints again afterwards."""
    import_handlers()
    kept = dict(ENDPOINTS)
    ENDPOINTS.clear()
    yield
    ENDPOINTS.clear()
    ENDPOINTS.update(kept)


@pytest.fixture
def browse(only_own_endpoints: None) -> Browse:
    """`async with browse(**settings) as client` talks to the declared endpoints."""

    @asynccontextmanager
    async def open_client(*, strict: bool = True, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
        state = NoDatabase(**settings)
        state.strict = strict
        app = create_app(cast("AppState", state))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            yield client

    return open_client
