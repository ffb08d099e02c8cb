"""A command from the REST call to the plant's own client and back, whatever the plant says, or does not say."""

import asyncio
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from gridfleet.sdk.plant import Command, CommandRejected
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet, wait_for
from support.servers.running_stack import RunningStack


@pytest.fixture(scope="module")
def template(fleet: Fleet) -> str:
    return add_template(fleet)


@pytest.fixture
def battery(fleet: Fleet, template: str, tmp_path: Path) -> Battery:
    return Battery(fleet, template, tmp_path)


@pytest.mark.parametrize("method", ["PASSWORD", "TOKEN", "MTLS"])
async def test_a_plant_obeys_and_says_so(fleet: Fleet, template: str, tmp_path: Path, method: str) -> None:
    battery = Battery(fleet, template, tmp_path, method)
    async with battery.connected():
        command = await battery.order("set_power", {"power_kw": -12.5})
        ended = await battery.in_state(command, "APPLIED")

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
    async with battery.connected():
        ended = await battery.in_state(await battery.order("stop"), "REJECTED")
    assert ended["reason"] == {"code": "BATTERY_EMPTY", "message": "state of charge is 5 %"}


async def test_a_plant_fails(battery: Battery) -> None:
    async def fail(command: Command) -> None:
        raise OSError("no answer on the bus")

    battery.answer = fail
    async with battery.connected():
        ended = await battery.in_state(await battery.order("stop"), "FAILED")
    assert ended["reason"]["code"] == "HANDLER_ERROR"


async def test_commands_are_obeyed_in_their_order(battery: Battery) -> None:
    async with battery.connected() as client:
        await battery.seen_online()  # commands on their way when a plant comes are sent again, to be sure
        commands = [await battery.order("set_power", {"power_kw": number}) for number in range(25)]
        await battery.in_state(commands[-1], "APPLIED")
    assert [command.command_id for command in battery.obeyed] == commands
    assert client.counters.commands_repeated == 0


async def test_a_plant_that_never_connected_lets_the_command_expire(battery: Battery) -> None:
    ended = await battery.in_state(await battery.order("hurry"), "EXPIRED")

    assert (ended["sentAt"], ended["reason"]["code"]) == (None, "NOT_SENT")
    assert ended["finishedAt"] == ended["expiresAt"]


async def test_a_plant_that_is_away_for_too_long_does_not_obey(battery: Battery) -> None:
    async with battery.connected():
        pass
    command = await battery.order("hurry")
    ended = await battery.in_state(command, "EXPIRED")
    assert ended["reason"]["code"] == "NOT_RECEIVED"  # the broker holds it for the plant's session

    async with battery.connected():
        await asyncio.sleep(1)
    assert battery.obeyed == []
    assert (await battery.in_state(command, "EXPIRED"))["finishedAt"] == ended["expiresAt"]


async def test_a_plant_that_comes_back_in_time_obeys(battery: Battery) -> None:
    async with battery.connected():
        pass
    command = await battery.order("stop")
    await battery.in_state(command, "SENT")

    async with battery.connected():
        await battery.in_state(command, "APPLIED")
    assert len(battery.obeyed) == 1


async def test_a_plant_that_connects_for_the_first_time_obeys_what_waits(battery: Battery) -> None:
    command = await battery.order("stop")
    await asyncio.sleep(1.5)

    async with battery.connected():
        ended = await battery.in_state(command, "APPLIED")
    assert ended["sentAt"] > ended["issuedAt"]


async def test_a_late_acknowledgement_is_recorded_but_nothing_changes(battery: Battery) -> None:
    too_late = asyncio.Event()

    async def dawdle(command: Command) -> None:
        await too_late.wait()

    battery.answer = dawdle
    async with battery.connected():
        command = await battery.order("hurry")
        expired = await battery.in_state(command, "EXPIRED")
        too_late.set()
        assert expired["reason"]["code"] == "NOT_FINISHED"
        async with asyncio.timeout(10):
            while (found := await battery.in_state(command, "EXPIRED"))["reason"]["code"] == "NOT_FINISHED":
                await asyncio.sleep(0.1)
    assert found == expired | {
        "reason": {"code": "APPLIED_LATE", "message": "The plant acknowledged with APPLIED after the command had expired."}
    }


async def test_only_active_plants_are_commanded(battery: Battery) -> None:
    battery.plant.update(lifecycle_status="SUSPENDED")

    with pytest.raises(httpx.HTTPStatusError) as refused:
        await battery.order("stop")

    assert refused.value.response.status_code == 403


@pytest.mark.slow
def test_a_simulated_battery_executes_commands(stack: RunningStack, tmp_path: Path) -> None:
    """Its measurements follow the command, and `start` lets it go its own way again."""
    arguments = ("--organization", "commanded", "--plants", "1", "--interval", "0.5", "--duration", "40")
    running = subprocess.Popen(
        [sys.executable, "-m", "gridfleet", "simulate", *arguments, "--state", str(tmp_path), "--ledger", str(tmp_path / "l")],
        env=stack.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        with httpx.Client(base_url=f"{stack.base_url}/api/v1", timeout=30) as http:
            login = http.post("/auth/login", json={"email": stack.admin_email, "password": stack.admin_password}).json()
            assert running.stdout is not None
            organization = next(line.split()[-1] for line in running.stdout if line.startswith("organisation "))
            http.headers.update({"authorization": f"Bearer {login['access_token']}", "x-org-id": organization})
            [plant] = http.get("/plants").json()["data"]
            battery = f"/plants/{plant['id']}/sub-devices/BAT1"

            def applied(action: str, **params: float) -> None:
                command = http.post(f"{battery}/commands", json={"action": action, "params": params}).json()["commandId"]
                newest = lambda: http.get(f"{battery}/commands").json()["data"][0]  # noqa: E731
                assert wait_for(lambda: newest()["status"] == "APPLIED" and newest())["id"] == command

            def power() -> float | None:
                signals = http.get(f"{battery}/signals/latest").json()
                return next((one["value"] for one in signals if one["metric"] == "active_power"), None)

            wait_for(lambda: power() is not None)
            for power_kw in (0.75, -0.5):
                applied("set_power", power_kw=power_kw)
                wait_for(lambda wanted=power_kw: power() == wanted)
            applied("stop")
            wait_for(lambda: power() == 0)
            applied("start")
            wait_for(lambda: power() not in (0, None))
    finally:
        running.terminate()
        running.communicate(timeout=40)
