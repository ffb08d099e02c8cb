"""The guides, literally: their commands and programs, in the order of the page, at a running service."""

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commanded_battery import Battery, add_template
from fleet_under_test import Fleet
from gridfleet.device import Device, Snapshot
from running_stack import RunningStack

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the guides need curl and jq"),
]


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of the page's shell and Python blocks, in their order."""
    return re.findall(r"^```(sh|python)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def run(page: str, folder: Path, stack: RunningStack, **variables: str) -> str:
    """What a reader sees who follows the page from top to bottom; `variables` are what he knows before."""
    for language, text in blocks(page):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", text)
            assert name is not None, f"{page}: a program says in its first line what its file is called"
            (folder / name[1]).write_text(text)
    calling = next(text for language, text in blocks("guide-operator.md") if language == "sh")
    own = "".join(text for language, text in blocks(page) if language == "sh")
    given = "".join(f"{name}={value}\n" for name, value in variables.items())
    be_a_checkout(folder, stack)
    environment = stack.environment | {"GRIDFLEET_API": stack.base_url, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail"],
        input=given + (own if own.startswith(calling) else calling + own),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def be_a_checkout(folder: Path, stack: RunningStack) -> None:
    """The two things that the guides find there: the commands, and who the first SuperAdmin is."""
    (folder / ".venv").symlink_to(sys.prefix)
    secrets = folder / ".gridfleet" / "secrets"
    secrets.mkdir(parents=True)
    admin = {"email": stack.admin_email, "password": stack.admin_password}
    (secrets / "admin.json").write_text(json.dumps(admin))


def test_operators(stack: RunningStack, tmp_path: Path) -> None:
    printed = run("guide-operator.md", tmp_path, stack)

    for expected in ('"PENDING"', "Gridfleet battery: BATTERY, SUB_DEVICE", '"lifecycleStatus": "ACTIVE"', "set_power"):
        assert expected in printed


def test_installers(stack: RunningStack, fleet: Fleet, tmp_path: Path) -> None:
    printed = run("guide-installer.md", tmp_path, stack, org=fleet.organization_id)

    for expected in ("PV1.active_power = 4.2", "load_power = 2.4", "BAT1, 1 times"):
        assert expected in printed


def test_reliability(stack: RunningStack, tmp_path: Path) -> None:
    printed = run("guide-sre.md", tmp_path, stack)

    assert "this release needs" in printed


@asynccontextmanager
async def measuring(device: Device) -> AsyncIterator[None]:
    """Snapshots while the block lasts, several a second."""

    async def measure() -> None:
        while True:
            await device.send(Snapshot(time=datetime.now(UTC), fields={"load_power": 2.4}))
            await asyncio.sleep(0.3)

    task = asyncio.create_task(measure())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_partners(stack: RunningStack, tmp_path: Path) -> None:
    fleet = Fleet(stack)
    try:
        battery = Battery(fleet, add_template(fleet), tmp_path)
        async with battery.connected() as device, measuring(device):
            names = {"org": fleet.organization_id, "site": battery.plant.id}
            printed = await asyncio.to_thread(lambda: run("guide-partner.md", tmp_path, stack, **names))
    finally:
        fleet.close()

    for expected in ("heard {", "setpoint APPLIED", "schedule APPLIED", "first", "mode APPLIED", "SITE_SETPOINT APPLIED"):
        assert expected in printed
    assert [command.type for command in battery.obeyed][:2] == ["SITE_SETPOINT", "SCHEDULE"]
