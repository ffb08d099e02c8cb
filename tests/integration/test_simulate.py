"""`gridfleet simulate` against the whole service: what its ledger says is what the service answers."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.clients.ledger_comparison import Ledger, compare, compare_once_stored
from support.servers.running_stack import RunningStack

pytestmark = pytest.mark.slow


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gridfleet", "simulate", *arguments]


def simulate(stack: RunningStack, ledger: Path, *arguments: str) -> str:
    done = subprocess.run(
        command("--ledger", str(ledger), *arguments),
        env=stack.environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def differences(stack: RunningStack, ledger: Ledger) -> list[str]:
    """Return what the service answers otherwise than sent."""
    found = compare_once_stored(ledger, stack.base_url, stack.admin_email, stack.admin_password)
    assert found.values > 0
    return found.differences


def test_all_methods_and_faults_end_as_the_ledger_says(stack: RunningStack, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    state = tmp_path / "state"
    arguments = ("--organization", "faulty", "--plants", "6", "--interval", "0.5", "--state", str(state))

    printed = simulate(stack, path, *arguments, "--duration", "9", "--faults", "all", "--history", "0.02")

    ledger = Ledger.read(path)
    assert {line["authMethod"] for line in ledger.lines["plant"]} == {"MTLS", "TOKEN", "PASSWORD"}
    assert all(line["acknowledged"] for line in ledger.lines["snapshot"])
    assert {line["reason"] for line in ledger.lines["refused"]} == {"SIGNATURE_INVALID", "TIMESTAMP_OUT_OF_WINDOW"}
    assert {line["fault"] for line in ledger.lines["fault"]} == {"counter-reset", "gap"}
    assert all(plant_id in printed for plant_id in ledger.plant_ids)
    assert differences(stack, ledger) == []
    assert all(file.stat().st_mode & 0o077 == 0 for file in state.iterdir())

    # Run again: the same plants, their counters go on.
    simulate(stack, path, *arguments, "--duration", "3")
    again = Ledger.read(path)
    assert again.plant_ids == ledger.plant_ids
    assert differences(stack, again) == []

    # Credentials are given once: without the state folder other plants take over.
    shutil.rmtree(state)
    simulate(stack, path, *arguments, "--duration", "2")
    other = Ledger.read(path)
    assert [line["serialNumber"] for line in other.lines["plant"]] == [f"SIM-000{number}.2" for number in range(1, 7)]
    assert differences(stack, other) == []


def test_a_comparison_waits_until_the_energies_are_no_longer_cached(stack: RunningStack, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with stack.hung("ingest"):
        simulate(
            # Several plants: at night the battery of a single one may cover its whole load.
            stack,
            path,
            "--organization",
            "behind",
            "--plants",
            "6",
            "--interval",
            "60",
            "--speed",
            "600",
            "--duration",
            "2",
        )
        ledger = Ledger.read(path)
        behind = compare(ledger, stack.base_url, stack.admin_email, stack.admin_password)
    assert any("kWh" in difference for difference in behind.differences)
    assert differences(stack, ledger) == []


def test_a_faster_day_has_the_energies_of_the_ledger(stack: RunningStack, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    simulate(
        stack,
        path,
        *("--organization", "fast", "--plants", "3", "--seed", "9", "--state", str(tmp_path / "state")),
        *("--interval", "60", "--speed", "600", "--duration", "6", "--history", "1.5", "--history-interval", "300"),
    )
    ledger = Ledger.read(path)

    found = compare_once_stored(ledger, stack.base_url, stack.admin_email, stack.admin_password)

    assert found.differences == []
    assert found.energies == 9
    times = sorted(line["time"] for line in ledger.of("snapshot", ledger.plant_ids[0]))
    assert len(times) == pytest.approx(1.5 * 24 * 12 + 60, abs=3)


def test_ctrl_c_ends_with_a_summary_and_nothing_lost(stack: RunningStack, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    running = subprocess.Popen(
        command("--organization", "stopped", "--plants", "3", "--interval", "0.5", "--ledger", str(path)),
        env=stack.environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    started = next(line for line in running.stdout if line.startswith("organisation "))
    time.sleep(6)
    running.send_signal(signal.SIGINT)
    printed, _ = running.communicate(timeout=40)

    assert running.returncode == 0
    assert "stopped: " in started
    assert "What was sent" in printed
    ledger = Ledger.read(path)
    [end] = ledger.lines["end"]
    assert end["snapshots"] == end["acknowledged"] == len(ledger.lines["snapshot"]) > 0
    assert (stack.home / "simulator").is_dir()
    assert differences(stack, ledger) == []


def test_a_second_simulation_on_the_same_state_says_so(stack: RunningStack, tmp_path: Path) -> None:
    arguments = ("--organization", "twice", "--plants", "2", "--state", str(tmp_path / "state"))
    simulate(stack, tmp_path / "ledger", *arguments, "--duration", "1")
    first = subprocess.Popen(command(*arguments, "--duration", "30"), env=stack.environment, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout is not None
        next(line for line in first.stdout if line.startswith("organisation "))
        time.sleep(2)
        second = subprocess.run(
            command(*arguments, "--duration", "1"),
            env=stack.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        first.terminate()
        first.communicate(timeout=40)
    assert second.returncode == 1
    assert "locked" in second.stderr


@pytest.mark.parametrize(
    ("arguments", "changes", "complaint", "code"),
    [
        (("--api", "http://127.0.0.1:9"), {}, "is the service running", 1),
        (("--password", "wrong-password"), {}, "INVALID_CREDENTIALS", 1),
        (("--faults", "earthquake"), {}, "choose from", 2),
        ((), {"GRIDFLEET_ADMIN_PASSWORD": "", "GRIDFLEET_HOME": "/nonexistent"}, "--password", 2),
    ],
)
def test_what_stops_a_simulation_is_said_plainly(
    stack: RunningStack, tmp_path: Path, arguments: tuple[str, ...], changes: dict[str, str], complaint: str, code: int
) -> None:
    done = subprocess.run(
        command("--state", str(tmp_path / "state"), "--plants", "1", "--duration", "1", *arguments),
        env=stack.environment | changes,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_the_credentials_that_up_keeps_are_enough(stack: RunningStack, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "secrets").mkdir(parents=True)
    (home / "secrets" / "admin.json").write_text(json.dumps({"email": stack.admin_email, "password": stack.admin_password}))
    (home / "run.json").write_text((stack.home / "run.json").read_text())
    environment = {name: value for name, value in stack.environment.items() if not name.startswith("GRIDFLEET_")}
    done = subprocess.run(
        command("--organization", "simple", "--plants", "1", "--duration", "2"),
        env=environment | {"GRIDFLEET_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (home / "simulator").is_dir()
