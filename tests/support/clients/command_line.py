"""`gridfleet …` as a process, as a user runs it in a terminal."""

import os
import subprocess
import sys
from collections.abc import Mapping


def gridfleet(*words: str, environment: Mapping[str, object], seconds: float = 300) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end. `environment` holds settings as variables; the caller's own settings are removed."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GRIDFLEET_")}
    return subprocess.run(
        [sys.executable, "-m", "gridfleet", *words],
        env=outer | {name: str(value) for name, value in environment.items()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
