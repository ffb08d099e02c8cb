"""What `gridfleet up` shows: steps, one log stream of all processes, and the table of addresses."""

import re
import sys
from collections.abc import Mapping
from typing import Final

__all__ = ["Terminal"]

_COLOURS: Final = {"serve": 36, "ingest": 32, "gateway": 35, "jobs": 33, "broker": 34, "postgres": 94, "setup": 96}
_NAME_WIDTH: Final = 10
# The node's own log file has everything; on the terminal its banner and its chatter would bury our lines.
_BROKER_WORTH_SHOWING: Final = re.compile(r"\[(warning|error|critical|alert|emergency)\]|^\s*(BOOT FAILED|Error|ERROR)")
_NOISE: Final = {
    "broker": re.compile(
        "HTTP listener registry could not find context|Metrics collection disabled|rebuilding indices from scratch"
    ),
    "postgres": re.compile(
        "LOG:  (starting PostgreSQL|listening on|database system (was shut down at|is ready|is shut down)"
        "|received fast shutdown|aborting any active|shutting down)"
    ),
}
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """Standard output, coloured when it is a terminal. Survives its reader's end."""

    def __init__(self) -> None:
        self._colours = sys.stdout.isatty()

    def step(self, text: str) -> None:
        """A line of progress."""
        self._write(f"{self._colour('•', 32)} {text}")

    def problem(self, text: str) -> None:
        """A line about something that stops us."""
        self._write(f"{self._colour('✗', 31)} {text}")

    def log(self, name: str, line: str) -> None:
        """A line that a process printed."""
        if name in _NOISE and _NOISE[name].search(line):
            return
        if name == "broker":
            if not _BROKER_WORTH_SHOWING.search(line):
                return
            line = _ANSI.sub("", line)
        code = _COLOURS.get(name.partition("-")[0], 90)
        self._write(f"{self._colour(f'{name:<{_NAME_WIDTH}}', code)} {line}")

    def table(self, title: str, rows: Mapping[str, str], hints: list[str]) -> None:
        """The closing table: what is where."""
        width = max(map(len, rows))
        self._write("")
        self._write(self._colour(title, 1))
        for name, value in rows.items():
            self._write(f"  {name:<{width}}  {value}")
        for hint in hints:
            self._write(f"  {hint}")
        self._write("")

    def _colour(self, text: str, code: int) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours else text

    def _write(self, line: str) -> None:
        try:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            # Whoever read us is gone (`gridfleet up | head`, a closed terminal): the service goes on without a log stream.
            sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - for the rest of the process
