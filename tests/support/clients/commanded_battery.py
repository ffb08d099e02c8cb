"""A plant with one battery that executes commands with the plant client, and the REST calls that issue them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from gridfleet.sdk.plant import Command, Options, Package, PlantClient
from support.clients.fleet_under_test import Fleet, JsonObject, Plant, wait_for

ACTIONS = [
    {"action": "set_power", "params": [{"name": "power_kw", "type": "number", "unit": "kW", "min": -500, "max": 500}]},
    {"action": "stop", "timeoutSeconds": 20},
    {"action": "hurry", "timeoutSeconds": 4},
    {"action": "wait", "timeoutSeconds": 3600},
]
HISTORY = (
    "SELECT t.command_id::text, array_agg(t.status ORDER BY t.at,"
    " array_position(ARRAY['PENDING', 'SENT', 'RECEIVED', 'APPLIED', 'REJECTED', 'FAILED', 'EXPIRED'], t.status))"
    " FROM plant_command_transition t JOIN plant_command c ON c.id = t.command_id"
    " WHERE c.plant_id = %s AND NOT t.late GROUP BY 1"
)


def add_template(fleet: Fleet) -> str:
    """Return the id of a new template with ACTIONS."""
    body = {"name": uuid4().hex, "type": "BATTERY", "level": "SUB_DEVICE", "signals": [], "actions": ACTIONS}
    return str(fleet.call("POST", "/device-templates", body)["id"])


class Battery:
    """A plant with a battery. `obeyed` lists the calls of its handler; `answer` decides the result."""

    def __init__(self, fleet: Fleet, template: str, folder: Path, method: str = "PASSWORD") -> None:
        self.fleet = fleet
        self.plant: Plant = fleet.register(method)
        self.plant.add_device("BAT1", "BATTERY", template)
        self.plant.package = fleet.call("POST", f"/plants/{self.plant.id}/provision")
        self.path = f"/plants/{self.plant.id}/sub-devices/BAT1/commands"
        self.obeyed: list[Command] = []
        self.answer: Callable[[Command], Awaitable[None]] | None = None
        self._queue = folder / f"{self.plant.id}.queue"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[PlantClient]:
        """Connect the plant client until the end of the block. It reconnects within seconds."""
        client = PlantClient(
            Package.parse(json.dumps(self.plant.package)),
            queue_path=self._queue,
            on_command=self._obey,
            token_provider=self._token if self.plant.method == "TOKEN" else None,
            on_problem=lambda _: None,
            options=Options(reconnect_max_seconds=2),
        )
        async with client:
            await client.wait_connected(30)
            yield client

    async def _token(self) -> str:
        return await asyncio.to_thread(lambda: self.plant.password or "")

    async def _obey(self, command: Command) -> None:
        self.obeyed.append(command)
        if self.answer is not None:
            await self.answer(command)

    async def seen_online(self) -> None:
        """Wait until the service shows the plant as online."""
        plant = f"/plants/{self.plant.id}"
        await asyncio.to_thread(wait_for, lambda: self.fleet.call("GET", plant)["status"] == "ONLINE")

    async def order(self, action: str, params: Any = None) -> str:
        """Issue a command and return its id."""
        body = {"action": action} | ({} if params is None else {"params": params})
        return str((await asyncio.to_thread(self.fleet.call, "POST", self.path, body))["commandId"])

    async def try_to_order(self, action: str, params: Any = None) -> str | None:
        """Issue a command and return its id, or None if the service does not respond or responds with an error."""
        with contextlib.suppress(httpx.HTTPError):
            return await self.order(action, params)
        return None

    async def in_state(self, command_id: str, *states: str, seconds: float = 120) -> JsonObject:
        """Return the command once it is in one of the states."""

        def look() -> JsonObject | None:
            with contextlib.suppress(httpx.TransportError):
                commands = self.fleet.call("GET", f"{self.path}?limit=100")["data"]
                found: dict[str, JsonObject] = {command["id"]: command for command in commands}
                if found[command_id]["status"] in states:
                    return found[command_id]
            return None

        return await asyncio.to_thread(wait_for, look, seconds)

    def histories(self) -> dict[str, list[str]]:
        """Return the states that each command went through."""
        return dict(self.fleet.sql(HISTORY, [self.plant.id]))
