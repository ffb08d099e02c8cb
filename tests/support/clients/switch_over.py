"""`gridfleet db`, which moves telemetry to another extension."""

import os
import subprocess
import sys

from typer.testing import CliRunner, Result

from gridfleet.cli.db import commands

__all__ = ["gridfleet_db", "kill_after"]


def gridfleet_db(url: str, *arguments: str) -> Result:
    """Run `gridfleet db` in this process."""
    return CliRunner(env={"GRIDFLEET_DATABASE_URL": url}).invoke(commands, arguments)


def kill_after(url: str, arguments: tuple[str, ...], line: str, times: int) -> bool:
    """Start `gridfleet db`, and kill (-9) it when it begins its `times`th step of a kind. Return whether it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gridfleet", "db", *arguments],
        env={**os.environ, "GRIDFLEET_DATABASE_URL": url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        for printed in output:
            times -= printed.startswith(line)
            if times == 0:
                process.kill()
                process.wait()
                return True
    assert process.wait() == 0
    return False
