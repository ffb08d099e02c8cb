"""Client for the parts of the broker's management API that the service uses."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx

from gridfleet.kernel.security.server_trust import CA_PARAMETER, client_tls

__all__ = ["UNREADABLE", "Management", "QueueFacts", "open_management"]

_WITHOUT_CHANNELS: Final = (3, 12)
PAGE_SIZE: Final = 500
"""The largest page that the broker returns."""
_CALL_SECONDS: Final = 10.0
_REMOVAL_SECONDS: Final = 25.0
"""A queue in a dead-letter storm handles its backlog before its removal."""


UNREADABLE: Final = "unreadable"
"""The only argument of a queue whose arguments the management API cannot return, such as a name that is not UTF-8."""


class QueueFacts(NamedTuple):
    """A queue with the properties of its declaration. `arguments` is empty if they were not requested."""

    vhost: str
    name: str
    exclusive: bool
    type: str
    arguments: dict[str, Any]


class Management:
    """Requests to one broker. Methods raise `httpx.HTTPError` when it is unavailable or refuses."""

    def __init__(self, client: httpx.AsyncClient, account: str) -> None:
        self._client = client
        self._account = account

    async def put_policy(
        self, vhost: str, name: str, pattern: str, apply_to: str, definition: dict[str, Any], *, priority: int = 0
    ) -> None:
        """Create or replace a policy. If several policies match, the one with the highest priority applies."""
        await self._call(
            "PUT",
            f"/api/policies/{quote(vhost, safe='')}/{quote(name, safe='')}",
            {"pattern": pattern, "apply-to": apply_to, "definition": definition, "priority": priority},
        )

    async def delete_policy(self, vhost: str, name: str) -> None:
        """Delete a policy. Has no effect if it is missing."""
        await self._remove(f"/api/policies/{quote(vhost, safe='')}/{quote(name, safe='')}")

    async def limit_queues(self, vhost: str, most: int) -> None:
        """Limit the number of queues in the vhost."""
        await self._call("PUT", f"/api/vhost-limits/{quote(vhost, safe='')}/max-queues", {"value": most})

    async def limit_connections(self, vhost: str, most: int) -> None:
        """Limit the number of connections to the vhost. Existing connections stay open."""
        await self._call("PUT", f"/api/vhost-limits/{quote(vhost, safe='')}/max-connections", {"value": most})

    async def vhost_limits(self) -> dict[str, dict[str, int]]:
        """Return the limits of each vhost that has any, by vhost name."""
        return {one["vhost"]: one["value"] for one in (await self._call("GET", "/api/vhost-limits")).json()}

    async def policies(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the definitions of all policies by vhost and policy name."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for policy in (await self._call("GET", "/api/policies")).json():
            found.setdefault(policy["vhost"], {})[policy["name"]] = policy["definition"]
        return found

    async def queues(self, vhost: str | None = None, *, with_arguments: bool = False) -> list[QueueFacts]:
        """Return the queues of a vhost, or of all vhosts; empty for a missing vhost.

        Raises:
            httpx.HTTPStatusError, RecursionError: With arguments, also if one queue has arguments that cannot be returned.
        """
        path = "" if vhost is None else f"/{quote(vhost, safe='')}"
        try:
            found = await self._queues(path, with_arguments)
        except httpx.HTTPStatusError as error:
            if vhost is None or error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            return []
        return [_facts(one) for one in found]

    async def queues_with_arguments(self) -> list[QueueFacts]:
        """Return the queues of all vhosts with their arguments. A queue whose arguments cannot be returned has `UNREADABLE`.

        One such queue makes every list that contains it fail, so the lists are split up to find it.
        """
        try:
            return await self.queues(with_arguments=True)
        except (httpx.HTTPStatusError, RecursionError):
            named = await self.queues()
        found: list[QueueFacts] = []
        for vhost in {queue.vhost for queue in named}:
            try:
                found += await self.queues(vhost, with_arguments=True)
            except (httpx.HTTPStatusError, RecursionError):
                found += [await self._with_arguments(queue) for queue in named if queue.vhost == vhost]
        return found

    async def _with_arguments(self, queue: QueueFacts) -> QueueFacts:
        try:
            return _facts(await self._queues(f"/{quote(queue.vhost, safe='')}/{quote(queue.name, safe='')}", True))
        except RecursionError:
            return queue._replace(arguments={UNREADABLE: True})
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:  # deleted meanwhile
                return queue
            return queue._replace(arguments={UNREADABLE: True})

    async def _queues(self, path: str, with_arguments: bool) -> Any:
        columns = QueueFacts._fields if with_arguments else QueueFacts._fields[:-1]
        return (await self._call("GET", f"/api/queues{path}?disable_stats=true&columns={','.join(columns)}")).json()

    async def delete_queue(self, vhost: str, name: str) -> None:
        """Delete a queue with its messages. Has no effect if it is missing."""
        await self._remove(f"/api/queues/{quote(vhost, safe='')}/{quote(name, safe='')}")

    async def purge_queue(self, vhost: str, name: str) -> None:
        """Delete the waiting messages of a queue, unless it is exclusive. Has no effect if it is missing."""
        path = f"/{quote(vhost, safe='')}/{quote(name, safe='')}"
        try:
            found = await self._queues(path, False)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            return
        if not _facts(found).exclusive:
            await self._remove(f"/api/queues{path}/contents")

    async def purge_queues(self, vhost: str, pattern: str) -> None:
        """Delete the waiting messages of the durable queues whose names match a regular expression."""
        path = f"/api/queues/{quote(vhost, safe='')}"
        query = f"page_size={PAGE_SIZE}&use_regex=true&name={quote(pattern, safe='')}&columns=name,exclusive"
        page, pages = 1, 1
        while page <= pages:
            found = (await self._call("GET", f"{path}?page={page}&{query}")).json()
            for one in found["items"]:
                if not one.get("exclusive"):
                    await self._remove(f"{path}/{quote(one['name'], safe='')}/contents")
            page, pages = page + 1, found["page_count"]

    async def exchanges(self) -> list[tuple[str, str]]:
        """Return (vhost, name) of every exchange, unordered."""
        found = (await self._call("GET", "/api/exchanges?disable_stats=true&columns=vhost,name")).json()
        return [(one["vhost"], one["name"]) for one in found]

    async def delete_exchange(self, vhost: str, name: str) -> None:
        """Delete an exchange with its bindings. Has no effect if it is missing."""
        await self._remove(f"/api/exchanges/{quote(vhost, safe='')}/{quote(name, safe='')}")

    async def bound_queues(self, vhost: str, source: str) -> list[str]:
        """Return the names of the queues that are bound to an exchange; empty for a missing one."""
        try:
            found = (await self._call("GET", _bindings(vhost, source))).json()
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise
            return []
        return [one["destination"] for one in found if one["destination_type"] == "queue"]

    async def keep_only_bindings(self, vhost: str, source: str, destinations: Collection[str]) -> None:
        """Delete the bindings of an exchange, except those to the queues `destinations`."""
        quoted = quote(vhost, safe="")
        for one in (await self._call("GET", _bindings(vhost, source))).json():
            if one["destination_type"] != "queue" or one["destination"] not in destinations:
                end = f"{one['destination_type'][0]}/{quote(one['destination'], safe='')}"
                key = quote(one["properties_key"], safe="~")
                await self._remove(f"/api/bindings/{quoted}/e/{quote(source, safe='')}/{end}/{key}")

    async def ensure_vhost(self, vhost: str) -> None:
        """Create the vhost unless it exists."""
        await self._call("PUT", f"/api/vhosts/{quote(vhost, safe='')}", {})

    async def enter_vhost(self, vhost: str) -> None:
        """Create the vhost unless it exists, and give the service's account full permissions in it."""
        await self.ensure_vhost(vhost)
        await self._call(
            "PUT",
            f"/api/permissions/{quote(vhost, safe='')}/{quote(self._account, safe='')}",
            {"configure": ".*", "write": ".*", "read": ".*"},
        )

    async def delete_vhost(self, vhost: str) -> None:
        """Delete the vhost and everything in it, and close its connections. Has no effect if it is missing."""
        await self._remove(f"/api/vhosts/{quote(vhost, safe='')}")

    async def overview(self) -> dict[str, Any]:
        """Return the broker's version, listeners and totals."""
        overview: dict[str, Any] = (await self._call("GET", "/api/overview")).json()
        return overview

    async def version(self) -> tuple[int, ...]:
        """Return the broker's major and minor version."""
        return tuple(int(part) for part in (await self.overview())["rabbitmq_version"].split(".")[:2])

    async def has_mqtt_channels(self) -> bool:
        """Return whether the broker publishes MQTT messages on AMQP channels, which it did before 3.12."""
        return await self.version() < _WITHOUT_CHANNELS

    async def overview_at(self) -> tuple[dict[str, Any], str | None]:
        """Return the overview, and the response's HTTP date if it has one."""
        response = await self._call("GET", "/api/overview")
        return response.json(), response.headers.get("date")

    async def cluster_size(self) -> int:
        """Return the number of nodes in the cluster, running or not."""
        return len((await self._call("GET", "/api/nodes?columns=name")).json())

    async def users(self) -> list[str]:
        """Return the names of the broker's own users."""
        return [user["name"] for user in (await self._call("GET", "/api/users?columns=name")).json()]

    async def queue_types(self, vhost: str) -> dict[str, str]:
        """Return the type of each queue of a vhost, by queue name."""
        return {queue.name: queue.type for queue in await self.queues(vhost)}

    async def alarms(self) -> list[tuple[str, str]]:
        """Return (resource, node) of each alarm in the cluster. While there is an alarm, publishers are blocked."""
        response = await self._client.get("/api/health/checks/alarms")
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return [(alarm["resource"], alarm["node"]) for alarm in response.json()["alarms"]]
        response.raise_for_status()
        return []

    async def stopped_vhosts(self) -> list[tuple[str, str]]:
        """Return (vhost, node) for each running node on which a vhost has not started, or has stopped after an error."""
        found = (await self._call("GET", "/api/vhosts?columns=name,cluster_state")).json()
        return [(one["name"], node) for one in found for node, state in one["cluster_state"].items() if state != "running"]

    async def close_connections(self, username: str) -> None:
        """Close every connection of a broker user."""
        await self._call("DELETE", f"/api/connections/username/{quote(username, safe='')}")

    async def close_connection(self, name: str) -> None:
        """Close the connection of this name. Has no effect if it has ended."""
        await self._remove(f"/api/connections/{quote(name, safe='')}")

    async def connections_in(self, vhost: str, username: str) -> list[str]:
        """Return the names of a broker user's connections to one vhost, unordered."""
        found = (await self._call("GET", f"/api/connections/username/{quote(username, safe='')}")).json()
        return [one["name"] for one in found if one["vhost"] == vhost]

    async def connections_of(self, vhost: str) -> list[tuple[str, str]]:
        """Return (name, broker user) of every connection to one vhost, unordered."""
        # Without statistics, the list of one vhost is empty.
        found = (await self._call("GET", "/api/connections?disable_stats=true&columns=name,user,vhost")).json()
        return [(one["name"], one["user"]) for one in found if one["vhost"] == vhost]

    async def close_connections_in(self, vhost: str, username: str) -> None:
        """Close a broker user's connections to one vhost. Connections to other vhosts stay open."""
        await asyncio.gather(*map(self.close_connection, await self.connections_in(vhost, username)))

    async def close_own_connections_in(self, vhost: str) -> None:
        """Close the connections of the service's account to one vhost."""
        await self.close_connections_in(vhost, self._account)

    async def _remove(self, path: str) -> None:
        try:
            await self._call("DELETE", path, timeout=_REMOVAL_SECONDS)
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise

    async def _call(self, method: str, path: str, body: Any = None, timeout: float = _CALL_SECONDS) -> httpx.Response:
        response = await self._client.request(method, path, json=body, timeout=timeout)
        response.raise_for_status()
        return response


def _bindings(vhost: str, source: str) -> str:
    return f"/api/exchanges/{quote(vhost, safe='')}/{quote(source, safe='')}/bindings/source"


def _facts(one: dict[str, Any]) -> QueueFacts:
    return QueueFacts(one["vhost"], one["name"], bool(one.get("exclusive")), one["type"], dict(one.get("arguments") or {}))


@asynccontextmanager
async def open_management(url: str) -> AsyncIterator[Management]:
    """Open a client for the management API at `url`.

    The URL contains the credentials. An `https` URL may also name the file of the authority.
    """
    parts = urlsplit(url)
    encrypted = parts.scheme == "https"
    authority = parse_qs(parts.query).get(CA_PARAMETER, [None])[0]
    async with httpx.AsyncClient(
        base_url=f"{parts.scheme}://{parts.hostname}:{parts.port or (15671 if encrypted else 15672)}",
        auth=(unquote(parts.username or ""), unquote(parts.password or "")),
        verify=client_tls(authority) if encrypted else False,
        trust_env=False,
    ) as client:
        yield Management(client, unquote(parts.username or ""))
