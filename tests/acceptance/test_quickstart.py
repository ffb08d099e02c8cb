"""The quickstart, literally: its commands, in a copy of the checkout, and their answers against the ledger.

Only the downloads are left out: the copy's `.venv` borrows the packages of the one the tests run in.
"""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.clients.ledger_comparison import Ledger, compare_once_stored
from support.servers.free_ports import free_port_settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
_END_OF_LEDGER = 500_000
"""Bytes that contain the newest 100 snapshots."""
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".tools", ".node", ".venv", ".gridfleet", ".hypothesis", ".*_cache"),
    *("node_modules", "build", "__pycache__", "*.jsonl"),
)


@dataclass
class Quickstart:
    """What was done and what it said."""

    folder: Path
    printed: str
    service_log: Path

    @property
    def ledger(self) -> Ledger:
        [path] = self.folder.glob("*.jsonl")
        return Ledger.read(path)

    def answers(self) -> Iterator[Any]:
        """Every JSON document that the commands printed on one line."""
        for line in self.printed.splitlines():
            if line.startswith(("[", "{")):
                with contextlib.suppress(json.JSONDecodeError):
                    yield json.loads(line)


def blocks(page: str = "docs/quickstart.md") -> list[tuple[str, str]]:
    """Return (terminal, commands) of each `sh` block of a page, in order.

    The terminal is the last one that the paragraph before the block names.
    """
    text = (ROOT / page).read_text()
    found = re.findall(r"Terminal (\d)(?:(?!Terminal \d|```).)*```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(found) == text.count("```sh"), "the paragraph before each block names its terminal"
    return found


def copy_checkout(folder: Path) -> None:
    """A checkout with an environment that counts as installed and runs the copy's own code."""
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT, dirs_exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=folder, check=True)
    [packages] = (folder / ".venv").glob("lib/python*/site-packages")
    borrowed = dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
    (packages / "borrowed.pth").write_text("\n".join([str(folder / "src"), *borrowed]) + "\n")
    command = folder / ".venv" / "bin" / "gridfleet"
    command.write_text(f"#!{folder}/.venv/bin/python\nfrom gridfleet.cli import main\nmain()\n")
    command.chmod(0o755)
    (folder / ".venv" / ".installed-runtime").touch()


@pytest.fixture(scope="module")
def quickstart() -> Iterator[Quickstart]:
    """The whole quickstart, from `make up` to the last command."""
    folder = Path(tempfile.mkdtemp(prefix="gridfleet-quickstart-")).resolve()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("GRIDFLEET_", "MAKE", "PYTHONPATH"))
    }
    environment |= {f"GRIDFLEET_{name.upper()}": str(port) for name, port in free_port_settings().items()}
    copy_checkout(folder)
    log = folder / "terminal-1.log"
    service = _start("1", folder, environment)
    try:
        _wait_until(lambda: "Gridfleet is ready" in log.read_text(), service, log)
        plants = _start("2", folder, environment)
        _wait_until(partial(_have_reported, folder / "fleet.jsonl", datetime.now(UTC)), plants, folder / "terminal-2.log")
        os.killpg(plants.pid, signal.SIGINT)  # Ctrl-C, so that the ledger does not grow
        assert plants.wait(60) == 0, (folder / "terminal-2.log").read_text()
        done = subprocess.run(
            ["bash", "-e"],
            input=commands_of("3"),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        yield Quickstart(folder, done.stdout, log)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGINT)  # Ctrl-C
        service.wait(180)
    finally:
        _end_everything(folder)
        service.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def commands_of(terminal: str) -> str:
    """Return what the quickstart enters in a terminal."""
    return "".join(commands for one, commands in blocks() if one == terminal)


def _start(terminal: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run the commands of a terminal in a process group of their own. What they print is in a file named after it."""
    with (folder / f"terminal-{terminal}.log").open("wb") as output:
        return subprocess.Popen(
            ["bash", "-ec", commands_of(terminal)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )


def _wait_until(is_done: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait up to ten minutes, as long as the process runs."""
    deadline = time.monotonic() + 600
    while not is_done():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def _have_reported(ledger: Path, start: datetime) -> bool:
    """Return whether the ledger contains 25 snapshots that were measured after `start`: five of each plant."""
    if not ledger.exists():
        return False
    with ledger.open("rb") as file:  # of a month of history, only the end is read
        file.seek(max(0, ledger.stat().st_size - _END_OF_LEDGER))
        lines = [json.loads(line) for line in file.read().split(b"\n")[1:-1]]
    times = [line["time"] for line in lines if line["kind"] == "snapshot"]
    return sum(datetime.fromisoformat(one) > start for one in times[-100:]) >= 25


def _end_everything(folder: Path) -> None:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(folder):
                process.kill()


def test_the_commands_are_the_promised_ones() -> None:
    everything = "".join(commands for _, commands in blocks())
    for wanted in ("make up", "gridfleet simulate", "/telemetry?", "/latest", "/energy/today", "--ledger"):
        assert wanted in everything


def test_the_readme_begins_the_same_way() -> None:
    assert blocks("README.md") == blocks()[:2]


def test_the_service_prints_its_address(quickstart: Quickstart) -> None:
    log = quickstart.service_log.read_text()
    assert "Gridfleet is ready" in log
    assert "Traceback" not in log


def test_everything_that_was_sent_is_answered(quickstart: Quickstart) -> None:
    """Raw values are equal, the newest values too, and energies within one per cent."""
    api = json.loads((quickstart.folder / ".gridfleet" / "run.json").read_text())["urls"]["api"]
    admin = json.loads((quickstart.folder / ".gridfleet" / "secrets" / "admin.json").read_text())
    ledger = quickstart.ledger
    found = compare_once_stored(ledger, api.removesuffix("/api/v1"), admin["email"], admin["password"])
    assert found.differences == []
    assert len(ledger.plant_ids) == 5
    assert found.values > 100
    assert found.energies > 0


def test_the_shown_commands_print_what_the_ledger_says(quickstart: Quickstart) -> None:
    ledger = quickstart.ledger
    answers = list(quickstart.answers())
    [raw, buckets] = [answer for answer in answers if isinstance(answer, list) and answer]
    plant_id, metric = raw[0]["plant_id"], raw[0]["metric"]
    # The commands ask for one day of the month that was sent.
    day = raw[0]["time"][:10]
    everything = {line["time"]: line["values"][metric] for line in ledger.of("snapshot", plant_id)}
    sent = {time: value for time, value in everything.items() if time.startswith(day)}
    assert len(everything) > 2_000
    assert {point["time"]: point["value"] for point in raw} == sent
    assert sum(point["metadata"]["count"] for point in buckets) == len(sent)

    table = quickstart.printed[quickstart.printed.index("time,plant_id,") :].partition("\n{")[0]
    rows = list(csv.DictReader(io.StringIO(table.strip())))
    assert {row["time"]: float(row["value"]) for row in rows if row["value"]} == sent

    [energy] = [answer for answer in answers if isinstance(answer, dict) and "selfConsumptionPct" in answer]
    for line in ledger.of("energy", plant_id):
        if line["date"] == energy["date"]:
            for name in ("produced", "imported", "exported"):
                assert energy[name] == pytest.approx(line[name], rel=0.01, abs=0.002)


def test_the_ledger_and_the_state_stay_out_of_the_repository(quickstart: Quickstart) -> None:
    ignored = (quickstart.folder / ".gitignore").read_text().splitlines()
    [ledger] = quickstart.folder.glob("*.jsonl")
    assert {".gridfleet/", ledger.name} <= set(ignored)
