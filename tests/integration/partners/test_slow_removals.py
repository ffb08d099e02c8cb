"""A vhost that takes long to remove holds up no other key's revocation."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import aiormq
import httpx
import pytest
from aiormq.abc import AbstractConnection
from pydantic import SecretStr

from gridfleet.amqp.effects import carry_out_effects
from gridfleet.domains.partners.registry import revoke
from gridfleet.domains.partners.vhosts import queue_vhost_update
from gridfleet.kernel.broker.connection import vhost_url
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.caller import OrgRole, OrgScope, UserCaller
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id
from support.builders.partner_site import PartnerSite, partner_site
from support.clients.partner_organization import vhosts_at
from support.servers.broker_node import BrokerNode
from support.servers.running_task import running

PASSWORD = "pw"


@dataclass
class SlowManagement:
    """A management API in front of the broker's, in which the removal of a vhost hangs until `released` is set."""

    url: str
    hanging: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def slow_management(url: str) -> Iterator[SlowManagement]:
    account, _, host = urlsplit(url).netloc.rpartition("@")

    class Forward(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if self.command == "DELETE" and self.path.startswith("/api/vhosts/"):
                slow.hanging.append(self.path)
                slow.released.wait(60)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept = {name: self.headers[name] for name in ("authorization", "content-type") if name in self.headers}
            answer = httpx.request(self.command, f"http://{host}{self.path}", content=body, headers=kept)
            with contextlib.suppress(ConnectionError):  # the client had a time-out of its own
                self.send_response(answer.status_code)
                self.send_header("content-type", answer.headers.get("content-type", "text/plain"))
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

        do_GET = do_PUT = do_DELETE = forward  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:
            """Not on the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        slow = SlowManagement(f"http://{account}@127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield slow
        finally:
            slow.released.set()
            server.shutdown()


@dataclass
class Partners:
    """Keys of organisations of their own, whose vhosts and users are at the broker."""

    node: BrokerNode
    database: Database
    sites: list[PartnerSite] = field(default_factory=list)

    async def add(self) -> PartnerSite:
        site = await partner_site(self.database, self.sites[0].plant.bench if self.sites else None)
        vhost, user = site.sender.key.vhost, site.sender.key.slug
        async with open_management(self.node.management_url) as management:
            await management.enter_vhost(vhost)
        # The api answers the broker's logins otherwise; here the broker does so by itself.
        self.call("PUT", f"users/{user}", {"password": PASSWORD, "tags": ""})
        self.call("PUT", f"permissions/{vhost}/{user}", dict.fromkeys(("configure", "write", "read"), ".*"))
        self.sites.append(site)
        return site

    def call(self, method: str, path: str, body: object = None) -> None:
        httpx.request(method, f"{self.node.management_url}/api/{path}", json=body).raise_for_status()

    @asynccontextmanager
    async def connected(self, site: PartnerSite) -> AsyncIterator[AbstractConnection]:
        key = site.sender.key
        host = urlsplit(self.node.url).netloc.rpartition("@")[2]
        connection = await aiormq.connect(vhost_url(f"amqp://{key.slug}:{PASSWORD}@{host}", key.vhost))
        try:
            yield connection
        finally:
            await connection.close()

    async def revoke(self, site: PartnerSite) -> None:
        caller = UserCaller(new_id(), new_id(), "admin@example.com", "Admin", False, None)
        async with self.database.transaction() as db:
            await revoke(db, OrgScope(site.plant.organization_id, OrgRole.ORG_ADMIN, caller), site.sender.key.id)

    @asynccontextmanager
    async def effects(self, management_url: str) -> AsyncIterator[None]:
        """One gateway's effects."""
        urls = {"broker_url": SecretStr(self.node.url), "broker_management_url": SecretStr(management_url)}
        settings = self.node.settings.model_copy(update=urls)
        url = self.database.url
        async with open_database(url, name="effects", size=16) as database, running(carry_out_effects(settings, database)):
            yield


@pytest.fixture
async def partners(database: Database, broker: BrokerNode) -> AsyncIterator[Partners]:
    found = Partners(broker, database)
    yield found
    async with open_management(broker.management_url) as management:
        for site in found.sites:
            found.call("DELETE", f"users/{site.sender.key.slug}")
            await management.delete_vhost(site.sender.key.vhost)


async def test_a_key_is_disconnected_while_the_vhosts_of_others_are_being_removed(partners: Partners) -> None:
    *slow_ones, other = [await partners.add() for _ in range(5)]
    with slow_management(partners.node.management_url) as slow:
        async with partners.effects(slow.url), partners.connected(other) as connection:
            closed = asyncio.ensure_future(connection.closing)
            for site in slow_ones:
                await partners.revoke(site)
            async with asyncio.timeout(20):
                while len(slow.hanging) < 2:
                    await asyncio.sleep(0.05)

            revoked = time.perf_counter()
            await partners.revoke(other)
            await asyncio.wait([closed], timeout=5)
            took = time.perf_counter() - revoked

            assert closed.done()
            print(f"closed after {took * 1000:.0f} ms")
            slow.released.set()
            async with asyncio.timeout(30):
                while {site.sender.key.vhost for site in partners.sites} & vhosts_at(partners.node.management_url):
                    await asyncio.sleep(0.2)


async def test_a_vhost_is_changed_while_the_vhosts_of_others_are_being_removed(partners: Partners) -> None:
    *slow_ones, other = [await partners.add() for _ in range(4)]
    key = other.sender.key
    with slow_management(partners.node.management_url) as slow:
        async with partners.effects(slow.url):
            for site in slow_ones:
                await partners.revoke(site)
            async with asyncio.timeout(20):
                while len(slow.hanging) < 2:
                    await asyncio.sleep(0.05)

            async with partners.database.transaction() as db:
                await queue_vhost_update(db, key)
            started = time.perf_counter()
            async with open_management(partners.node.management_url) as management, asyncio.timeout(10):
                while key.vhost not in await management.policies():
                    await asyncio.sleep(0.1)
            print(f"changed after {time.perf_counter() - started:.1f} s")
            slow.released.set()
            async with asyncio.timeout(30):
                while {site.sender.key.vhost for site in slow_ones} & vhosts_at(partners.node.management_url):
                    await asyncio.sleep(0.2)
