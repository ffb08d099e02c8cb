"""Output of `gridfleet up`: steps, one log stream of all processes, and the table of addresses.

With `GRIDFLEET_LOG_FORMAT=json` every line, from any process, is one JSON object for log collectors.
"""

import errno
import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from gridfleet.kernel.colours import is_coloured
from gridfleet.kernel.logging import printable

__all__ = ["Terminal"]

_COLOURS: Final = {"serve": 36, "ingest": 32, "gateway": 35, "jobs": 33, "broker": 34, "postgres": 94, "setup": 96}
_NAME_WIDTH: Final = 10
# The node's own log file is complete. On the terminal, its banner and informational lines would hide ours.
_BROKER_WORTH_SHOWING: Final = re.compile(r"\[(warning|error|critical|alert|emergency)\]|^\s*(BOOT FAILED|Error|ERROR)")
_NOISE: Final = {
    "broker": re.compile(
        "HTTP listener registry could not find context|Metrics collection disabled|rebuilding indices from scratch"
    ),
    "postgres": re.compile(
        # The first is PostgreSQL's answer to our readiness check.
        "FATAL:  the database system is starting up"
        "|LOG:  (starting PostgreSQL|listening on|database system (was shut down at|is ready|is shut down)"
        "|received fast shutdown|aborting any active|shutting down)"
    ),
}
_ANSI: Final = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL: Final = re.compile(
    r"\[(warning|error|critical|alert|emergency)\]|\b(WARNING|ERROR|FATAL|PANIC):|^(Traceback|BOOT FAILED)"
)
_LEVELS: Final = {"warning": "warning", "error": "error", "traceback": "error"}
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a file on a full disk."""


class Terminal:
    """Standard output, coloured if it is a terminal. Tolerates that its reader ends."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._colours = is_coloured(sys.stdout)
        self._as_json = as_json

    def step(self, text: str) -> None:
        """Write a progress line."""
        if self._as_json:
            self._write_json("up", text)
        else:
            self._write(f"{self._colour('•', 32)} {text}")

    def problem(self, text: str) -> None:
        """Write a line about a problem that stops the command."""
        if self._as_json:
            self._write_json("up", text, "error")
        else:
            self._write(f"{self._colour('✗', 31)} {text}")

    def log(self, name: str, line: str) -> None:
        """Write a line that a process printed."""
        if name in _NOISE and _NOISE[name].search(line):
            return
        if name == "broker":
            if not _BROKER_WORTH_SHOWING.search(line):
                return
            line = _ANSI.sub("", line)
        if self._as_json:
            self._write_json(name, line, _level(line))
            return
        code = _COLOURS.get(name.partition("-")[0], 90)
        self._write(f"{self._colour(f'{name:<{_NAME_WIDTH}}', code)} {_shown(line)}")

    def table(self, title: str, rows: Mapping[str, str], hints: list[str]) -> None:
        """Write the closing table of addresses."""
        if self._as_json:
            # A password on the terminal is read once; in collected logs it would be kept.
            shown = {name: value for name, value in rows.items() if name != "Password"}
            self._write_json("up", title, details=shown)
            return
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

    def _write_json(self, process: str, text: str, level: str = "info", details: Mapping[str, str] | None = None) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        event = _event(text) or {"event": text, "logger": f"gridfleet.up.{process}", "level": level, "timestamp": now}
        more = {"details": dict(details)} if details else {}
        self._write(json.dumps({"process": process, **event, **more}, ensure_ascii=False))

    def _write(self, line: str) -> None:
        try:
            encoding = sys.stdout.encoding or "utf-8"  # it may lack the marks of steps
            sys.stdout.write(line.encode(encoding, "replace").decode(encoding) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _FULL:
                return  # the file takes lines again when there is space
            # The reader has ended (`gridfleet up | head`, a closed terminal). The service continues without a log stream.
            sys.stdout = open("/dev/null", "w")  # noqa: SIM115 - for the rest of the process


def _shown(line: str) -> str:
    """Return the line without terminal control characters: the broker and PostgreSQL log names that clients choose."""
    return printable(line.expandtabs())


def _event(line: str) -> dict[str, Any] | None:
    """Return the event of a line that is JSON; None for other lines."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _level(line: str) -> str:
    found = _LEVEL.search(line)
    word = next(filter(None, found.groups()), "").lower() if found else ""
    return _LEVELS.get(word, "critical" if word else "info")
