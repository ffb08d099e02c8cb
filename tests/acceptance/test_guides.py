"""The guides, literally: their commands and programs, in the order of the page, at a running service."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridfleet.sdk.plant import PlantClient, Snapshot
from support.clients.commanded_battery import Battery, add_template
from support.clients.fleet_under_test import Fleet
from support.servers.running_stack import RunningStack
from support.servers.running_task import running

DOCS = Path(__file__).parents[2] / "docs"

SHELLS = {"bash": ("bash", "-eu", "-o", "pipefail"), "dash": ("dash", "-eu"), "zsh": ("zsh", "-f", "-eu", "-o", "pipefail")}


def blocks(page: str) -> list[tuple[str, str]]:
    """Return (language, text) of the page's shell and Python blocks, in order."""
    return re.findall(r"^```(sh|python)\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def run(page: str, folder: Path, stack: RunningStack, *, shell: str = "bash", **variables: str) -> str:
    """Run the blocks of a page from top to bottom and return what they print.

    Args:
        page: File name of the page.
        folder: Where to run; made to look like a checkout.
        stack: The running service.
        shell: One of `SHELLS`.
        variables: Shell variables that are set before.
    """
    for language, text in blocks(page):
        if language == "python":
            name = re.match(r"# (\w+\.py)\n", text)
            assert name is not None, f"{page}: the first line of a program names its file"
            (folder / name[1]).write_text(text)
    given = "".join(f"{name}={value}\n" for name, value in variables.items())
    make_checkout(folder, stack)
    environment = stack.environment | {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        SHELLS[shell],
        input=given + unique("".join(text for language, text in blocks(page) if language == "sh"), shell),
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


def unique(commands: str, shell: str) -> str:
    """Return the commands with the slug and serial numbers of this shell, since the shells share one service."""
    return commands.replace('"slug": "acme"', f'"slug": "acme-{shell}"').replace('"SN-', f'"SN-{shell}-')


def make_checkout(folder: Path, stack: RunningStack) -> None:
    """Create what the guides read in a checkout: the commands, the addresses and the first SuperAdmin."""
    (folder / ".venv").symlink_to(sys.prefix)
    secrets = folder / ".gridfleet" / "secrets"
    secrets.mkdir(parents=True)
    admin = {"email": stack.admin_email, "password": stack.admin_password}
    (secrets / "admin.json").write_text(json.dumps(admin))
    (folder / ".gridfleet" / "run.json").symlink_to(stack.home / "run.json")


def test_every_guide_logs_in_with_the_same_block() -> None:
    guides = ("guide-operator.md", "guide-installer.md", "guide-partner.md")
    assert len({blocks(guide)[0] for guide in guides}) == 1


@pytest.mark.parametrize("shell", SHELLS)
def test_operators(stack: RunningStack, tmp_path: Path, shell: str) -> None:
    printed = run("guide-operator.md", tmp_path, stack, shell=shell)

    for expected in ('"PENDING"', "Gridfleet battery: BATTERY, SUB_DEVICE", '"lifecycleStatus": "ACTIVE"', "set_power"):
        assert expected in printed


@pytest.mark.parametrize("shell", SHELLS)
def test_installers(stack: RunningStack, fleet: Fleet, tmp_path: Path, shell: str) -> None:
    printed = run("guide-installer.md", tmp_path, stack, shell=shell, org=fleet.organization_id)

    for expected in ("PV1.active_power = 4.2", "load_power = 2.4", "BAT1, 1 times"):
        assert expected in printed, printed
    json.loads((tmp_path / "plant.json").read_text())


def test_reliability(stack: RunningStack, tmp_path: Path) -> None:
    printed = run("guide-sre.md", tmp_path, stack, shell="dash")

    assert "this release needs" in printed


@asynccontextmanager
async def measuring(client: PlantClient) -> AsyncIterator[None]:
    """Snapshots while the block lasts, several a second."""

    async def measure() -> None:
        while True:
            await client.send(Snapshot(time=datetime.now(UTC), fields={"load_power": 2.4}))
            await asyncio.sleep(0.3)

    async with running(measure()):
        yield


async def test_partners(stack: RunningStack, tmp_path: Path) -> None:
    fleet = Fleet(stack)
    try:
        battery = Battery(fleet, add_template(fleet), tmp_path)
        async with battery.connected() as device, measuring(device):
            names = {"org": fleet.organization_id, "site": battery.plant.id}
            printed = await asyncio.to_thread(lambda: run("guide-partner.md", tmp_path, stack, **names))
    finally:
        fleet.close()

    for expected in ("received {", "setpoint APPLIED", "schedule APPLIED", "first", "mode APPLIED", "SITE_SETPOINT APPLIED"):
        assert expected in printed
    assert [command.type for command in battery.obeyed][:2] == ["SITE_SETPOINT", "SCHEDULE"]
