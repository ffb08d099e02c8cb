"""An organisation with partners at a running service, and the partners' connections over AMQPS."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiormq
import httpx
import psutil
from aiormq.abc import AbstractChannel, AbstractConnection

from gridfleet.kernel.broker.connection import open_channel
from gridfleet.local.secrets import local_secret
from support.clients.fleet_under_test import Fleet, JsonObject, wait_for
from support.servers.running_stack import RunningStack

EVERYTHING = [
    "vcp:connect",
    "vcp:write:setpoint",
    "vcp:write:device-command",
    "vcp:write:schedule",
    "vcp:write:mode",
    "vcp:write:config",
]


def vhosts_at(management_url: str) -> set[str]:
    """Return the names of a broker's vhosts.

    The broker lists one that is deleted meanwhile as an empty list, or fails.
    """

    def listed() -> list[JsonObject] | None:
        response = httpx.get(f"{management_url}/api/vhosts", timeout=30)
        return None if response.is_server_error else response.json()

    return {str(vhost["name"]) for vhost in wait_for(listed) if vhost}


class Organization(Fleet):
    """An organisation whose queues are declared. `slug` None: a generated slug."""

    def __init__(self, stack: RunningStack, slug: str | None = None, *, queues: bool = True) -> None:
        super().__init__(stack)
        if slug is not None:
            self.call("PATCH", f"/organizations/{self.organization_id}", {"slug": slug})
        [(found,)] = self.sql("SELECT slug FROM organization WHERE id = %s", [self.organization_id])
        self.slug = str(found)
        if queues:
            self.sql("INSERT INTO partner_queues VALUES (%s, %s, true)", [self.organization_id, self.slug])

    def key(self, scopes: list[str] = EVERYTHING, **members: Any) -> JsonObject:
        """Create a key and return the create response."""
        body = {"name": "Trader", "partnerId": "trader-1", "scopes": scopes} | members
        created: JsonObject = self.call("POST", "/partner/api-keys", body)
        return created

    def revoke(self, created: JsonObject) -> None:
        """Revoke a key."""
        self.call("DELETE", f"/partner/api-keys/{created['apiKey']['id']}")

    def record(self, created: JsonObject) -> JsonObject:
        """Return the current record of the key."""
        found: JsonObject = self.call("GET", f"/partner/api-keys/{created['apiKey']['id']}")
        return found

    def events(self, event: str) -> list[JsonObject]:
        """Return audit events of a kind in this organisation, newest first."""
        found: list[JsonObject] = self.call("GET", f"/audit-events?event={event}&limit=100")["data"]
        return found

    @property
    def management_url(self) -> str:
        """URL of the broker's management API with the service's account."""
        password = local_secret(self.stack.home, "broker_password")
        return f"http://_gridfleet:{password}@127.0.0.1:{self.stack.ports['management_port']}"

    def broker_memory(self) -> int:
        """Return the bytes that the broker's process has in memory."""
        return int(psutil.Process(self.stack.state["processes"]["broker"]).memory_info().rss)

    def vhosts(self) -> set[str]:
        """Return the names of the broker's vhosts."""
        return vhosts_at(self.management_url)

    def queues(self, vhost: str) -> list[str]:
        """Return the names of a vhost's queues, or none if the vhost does not exist."""
        found = httpx.get(f"{self.management_url}/api/queues/{vhost}?disable_stats=true&columns=name")
        return [queue["name"] for queue in found.json()] if found.is_success else []

    @asynccontextmanager
    async def service_channel(self, vhost: str) -> AsyncIterator[AbstractChannel]:
        """Open a channel with the service's own account."""
        password = local_secret(self.stack.home, "broker_password")
        async with open_channel(f"amqp://_gridfleet:{password}@127.0.0.1:{self.stack.ports['amqp_port']}", vhost) as channel:
            yield channel

    @asynccontextmanager
    async def connected(
        self, created: JsonObject, *, user: str | None = None, key: str | None = None, vhost: str | None = None
    ) -> AsyncIterator[AbstractConnection]:
        """Connect with a key. `user`, `key` and `vhost` replace parts of the credentials."""
        context = ssl.create_default_context(cafile=str(self.stack.home / "ca" / "ca.pem"))
        password = quote(created["key"] if key is None else key, safe="")
        place = quote(created["apiKey"]["vhost"] if vhost is None else vhost, safe="")
        url = f"amqps://{user or self.slug}:{password}@localhost:{self.stack.ports['amqps_port']}/{place}"
        connection = await aiormq.connect(url, context=context)
        try:
            yield connection
        finally:
            await connection.close()
