"""The public and the internal listener on real sockets, in a thread of the test."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gridfleet.api.serving import serve
from gridfleet.api.state import open_state
from gridfleet.kernel.security.keyring import Keyring
from gridfleet.kernel.settings import Settings
from support.builders.accounts import add_organization, super_admin_token
from support.servers.free_ports import settings_at
from support.servers.running_task import running

INTERNAL_SECRET = "inside"


@dataclass
class Served:
    """Addresses of the listeners, and headers of a SuperAdmin who acts in an organisation."""

    settings: Settings
    headers: dict[str, str]

    @property
    def url(self) -> str:
        """Base URL of the public listener."""
        return f"http://127.0.0.1:{self.settings.http_port}"


@contextmanager
def served(database_url: str, home: Path) -> Iterator[Served]:
    """Run both listeners in a thread until the end of the block."""
    settings = settings_at(
        home, database_url=database_url, keys=Keyring.generate(), internal_secret=INTERNAL_SECRET, rate_limits="off"
    )
    service = Served(settings, {})
    ready = threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    thread = threading.Thread(target=lambda: asyncio.run(_run(service, ready, ends)), daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        yield service
    finally:
        for loop, stop in ends:
            loop.call_soon_threadsafe(stop.set)
        thread.join(20)


async def _run(service: Served, ready: threading.Event, ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    stop = asyncio.Event()
    ends.append((asyncio.get_running_loop(), stop))
    async with open_state(service.settings) as state:
        token = await super_admin_token(state.database, state.access_tokens)
        organization = await add_organization(state.database)
        service.headers |= {"authorization": f"Bearer {token}", "x-org-id": str(organization.id)}
        async with running(serve(state)), running(state.access.keep_listening(state.database)):
            for port in (service.settings.http_port, service.settings.internal_port):
                await _listening(port)
            ready.set()
            await stop.wait()


async def _listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return
