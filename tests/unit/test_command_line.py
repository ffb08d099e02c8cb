"""What the command line looks like: help, errors, colours."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from gridfleet.cli import application


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the words of every command and group."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


COMMANDS = list(commands(typer.main.get_command(application)))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_names_arguments_and_switches_plainly(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(application, [*words, "--help"])
    assert shown.exit_code == 0
    usage = next(line for line in shown.output.splitlines() if "Usage:" in line)
    assert not {"{", "}"} & set(usage)
    assert "<bool>" not in shown.output
    assert "<path>" not in shown.output


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("backup --help", "gridfleet backup [OPTIONS] FILE"),
        ("openapi --help", "--output        FILE"),
        ("restore --help", "--force    --no-force"),
        ("backup", "Missing argument 'FILE'"),
        ("simulate --plants x", "Invalid value for '--plants': must be a whole number"),
        ("simulate --plants 0", "Invalid value for '--plants': must be at least 1"),
        ("simulate --history 30x", "'30x' is not a span such as 30d or 12h"),
        ("simulate --history nan", "nan is not between 0 and 399 days"),
        ("simulate --history 400d", "400d is not between 0 and 399 days"),
        ("send plant.json", "Missing argument 'DEVICE.FIELD=VALUE'"),
        ("send plant.json INV1.power", "'INV1.power' is not DEVICE.FIELD=VALUE or FIELD=VALUE"),
        ("send plant.json INV1.=1", "'INV1.=1' is not DEVICE.FIELD=VALUE or FIELD=VALUE"),
        ("send plant.json INV1.power=much", "'much' is not a number, true, false or null"),
        ("send missing.json power=1", "missing.json: No such file or directory"),
        ("doctor --min-free-gib much", "Invalid value for '--min-free-gib': must be a number"),
    ],
)
def test_help_and_errors(line: str, shown: str) -> None:
    done = CliRunner().invoke(application, line.split(), prog_name="gridfleet", env={"COLUMNS": "120"})
    assert shown in done.output


def on_a_terminal(words: list[str], **environment: str) -> str:
    """Return what a command prints on a terminal of its own."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "gridfleet", *words]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: every writer has closed the terminal
                break
            if not part:
                break
            printed += part
        process.wait(60)
    os.close(ours)
    return printed.decode()


@pytest.mark.parametrize("words", [["doctor"], ["up"], ["simulate"], ["backup"], ["--help"]], ids=" ".join)
def test_no_color_is_followed(words: list[str], tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "GRIDFLEET_HOME": str(tmp_path)}
    environment["GRIDFLEET_BROKER_URL"] = "amqp://127.0.0.1:1"  # `up` and `doctor` end soon
    coloured, plain = on_a_terminal(words, **environment), on_a_terminal(words, NO_COLOR="1", **environment)
    assert "\x1b[" in coloured
    for colour in range(30, 50):
        assert f"[{colour}m" not in plain
        assert f";{colour}m" not in plain
