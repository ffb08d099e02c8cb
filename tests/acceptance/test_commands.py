"""A command from the REST call to the plant's own client and back, whatever the plant says, or does not say."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from fleet_under_test import Fleet, JsonObject, Plant, wait_for
from gridfleet.device import Command, CommandRejected, Device, Package

ACTIONS = [
    {"action": "set_power", "params": [{"name": "power_kw", "type": "number", "unit": "kW", "min": -50, "max": 50}]},
    {"action": "stop", "timeoutSeconds": 20},
    {"action": "hurry", "timeoutSeconds": 2},
]


@pytest.fixture(scope="module")
def template(fleet: Fleet) -> str:
    body = {"name": uuid4().hex, "type": "BATTERY", "level": "SUB_DEVICE", "signals": [], "actions": ACTIONS}
    return str(fleet.call("POST", "/device-templates", body)["id"])


class Battery:
    """A plant with one battery, its client, and who commands it."""

    def __init__(self, fleet: Fleet, template: str, folder: Path, method: str = "PASSWORD") -> None:
        self.fleet = fleet
        self.plant: Plant = fleet.register(method)
        self.plant.add_device("BAT1", "BATTERY", template)
        self.plant.package = fleet.call("POST", f"/plants/{self.plant.id}/provision")
        self.folder = folder
        self.obeyed: list[Command] = []
        self.answer: Callable[[Command], Awaitable[None]] | None = None

    @property
    def path(self) -> str:
        return f"/plants/{self.plant.id}/sub-devices/BAT1/commands"

    def device(self) -> Device:
        """The plant's client; it remembers what it saw."""
        return Device(
            Package.parse(json.dumps(self.plant.package)), queue_path=self.folder / self.plant.id, on_command=self._obey
        )

    async def _obey(self, command: Command) -> None:
        self.obeyed.append(command)
        if self.answer is not None:
            await self.answer(command)

    async def order(self, action: str, params: Any = None) -> str:
        body = {"action": action} | ({} if params is None else {"params": params})
        return str((await asyncio.to_thread(self.fleet.call, "POST", self.path, body))["commandId"])

    async def ended(self, command_id: str, *states: str, seconds: float = 15) -> JsonObject:
        """The command once it is in one of the states."""

        def look() -> JsonObject | None:
            found = {one["id"]: one for one in self.fleet.call("GET", self.path)["data"]}
            return found[command_id] if found[command_id]["status"] in states else None

        return await asyncio.to_thread(wait_for, look, seconds)


@pytest.fixture
def battery(fleet: Fleet, template: str, tmp_path: Path) -> Battery:
    return Battery(fleet, template, tmp_path)


@pytest.mark.parametrize("method", ["PASSWORD", "TOKEN", "MTLS"])
async def test_a_plant_obeys_and_says_so(fleet: Fleet, template: str, tmp_path: Path, method: str) -> None:
    battery = Battery(fleet, template, tmp_path, method)
    token = None
    if method == "TOKEN":

        async def token() -> str:
            return battery.plant.password or ""

    package = Package.parse(json.dumps(battery.plant.package))
    async with Device(package, queue_path=tmp_path / "q", on_command=battery._obey, token_provider=token) as device:
        await device.wait_connected(20)
        command = await battery.order("set_power", {"power_kw": -12.5})
        ended = await battery.ended(command, "APPLIED")

    [obeyed] = battery.obeyed
    assert (obeyed.command_id, obeyed.target, obeyed.action, obeyed.params) == (
        command,
        "BAT1",
        "set_power",
        {"power_kw": -12.5},
    )
    times = [datetime.fromisoformat(ended[name]) for name in ("issuedAt", "sentAt", "receivedAt", "finishedAt", "expiresAt")]
    assert times == sorted(times)
    assert times[-1] - times[0] == timedelta(seconds=30)
    assert ended["reason"] is None


async def test_a_plant_refuses_with_its_reason(battery: Battery) -> None:
    async def refuse(command: Command) -> None:
        raise CommandRejected("BATTERY_EMPTY", "state of charge is 5 %")

    battery.answer = refuse
    async with battery.device():
        ended = await battery.ended(await battery.order("stop"), "REJECTED")
    assert ended["reason"] == {"code": "BATTERY_EMPTY", "message": "state of charge is 5 %"}


async def test_a_plant_fails(battery: Battery) -> None:
    async def fail(command: Command) -> None:
        raise OSError("no answer on the bus")

    battery.answer = fail
    async with battery.device():
        ended = await battery.ended(await battery.order("stop"), "FAILED")
    assert ended["reason"]["code"] == "HANDLER_ERROR"


async def test_commands_are_obeyed_in_their_order(battery: Battery) -> None:
    async with battery.device() as device:
        await device.wait_connected(20)
        commands = [await battery.order("set_power", {"power_kw": number}) for number in range(25)]
        await battery.ended(commands[-1], "APPLIED")
    assert [command.command_id for command in battery.obeyed] == commands
    assert device.counters.commands_repeated == 0


async def test_a_plant_that_never_connected_lets_the_command_expire(battery: Battery) -> None:
    ended = await battery.ended(await battery.order("hurry"), "EXPIRED")

    assert (ended["sentAt"], ended["reason"]["code"]) == (None, "NOT_SENT")
    assert ended["finishedAt"] == ended["expiresAt"]


async def test_a_plant_that_is_away_for_too_long_does_not_obey(battery: Battery) -> None:
    async with battery.device() as device:
        await device.wait_connected(20)
    command = await battery.order("hurry")
    ended = await battery.ended(command, "EXPIRED")
    assert ended["reason"]["code"] == "NOT_RECEIVED"  # the broker holds it for the plant's session

    async with battery.device() as device:
        await device.wait_connected(20)
        await asyncio.sleep(1)
    assert battery.obeyed == []
    assert (await battery.ended(command, "EXPIRED"))["finishedAt"] == ended["expiresAt"]


async def test_a_plant_that_comes_back_in_time_obeys(battery: Battery) -> None:
    async with battery.device() as device:
        await device.wait_connected(20)
    command = await battery.order("stop")
    await battery.ended(command, "SENT")

    async with battery.device():
        await battery.ended(command, "APPLIED")
    assert len(battery.obeyed) == 1


async def test_a_plant_that_connects_for_the_first_time_obeys_what_waits(battery: Battery) -> None:
    command = await battery.order("stop")
    await asyncio.sleep(1.5)

    async with battery.device():
        ended = await battery.ended(command, "APPLIED")
    assert ended["sentAt"] > ended["issuedAt"]


async def test_a_plant_that_obeys_too_late_is_heard_but_nothing_changes(battery: Battery) -> None:
    async def dawdle(command: Command) -> None:
        await asyncio.sleep(3.5)

    battery.answer = dawdle
    async with battery.device():
        command = await battery.order("hurry")
        expired = await battery.ended(command, "EXPIRED")
        assert expired["reason"]["code"] == "NOT_FINISHED"
        async with asyncio.timeout(10):
            while (found := await battery.ended(command, "EXPIRED"))["reason"]["code"] == "NOT_FINISHED":
                await asyncio.sleep(0.1)
    assert found == expired | {
        "reason": {"code": "APPLIED_LATE", "message": "The plant answered APPLIED after the command had expired."}
    }


async def test_only_active_plants_are_commanded(battery: Battery) -> None:
    battery.plant.update(lifecycle_status="SUSPENDED")

    with pytest.raises(httpx.HTTPStatusError) as refused:
        await battery.order("stop")

    assert refused.value.response.status_code == 403
