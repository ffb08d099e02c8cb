"""Access log: one line per request with method, route template, status, duration and request id.

No content of the request or the response is logged. Lines bypass the standard library's logging, which would cost more than
the rest of a small request. They have the same format as all other log lines.
"""

import sys
from collections.abc import Callable

import msgspec
import structlog

from gridfleet.kernel.colours import is_coloured

__all__ = ["AccessLog", "open_access_log"]

AccessLog = Callable[[str, str, int, float, str, str | None], None]
"""Logger function: method, route template, status, seconds, request id, and trace id or None."""


def open_access_log(level: str, *, json: bool) -> AccessLog:
    """Return a function that writes access log lines to standard error, or drops them above level INFO."""
    if level not in ("DEBUG", "INFO"):
        return _drop
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_to_json)
        if json
        else structlog.dev.ConsoleRenderer(colors=is_coloured(sys.stderr))
    )
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)

    def write(method: str, route: str, status: int, seconds: float, request_id: str, trace_id: str | None) -> None:
        line: structlog.typing.EventDict = {
            "event": "request",
            "method": method,
            "route": route,
            "status": status,
            "ms": round(seconds * 1000, 1),
            "request_id": request_id,
            "logger": "gridfleet.access",
            "level": "info",
        }
        if trace_id is not None:
            line["trace_id"] = trace_id
        text = renderer(None, "info", stamp(None, "info", line))
        assert isinstance(text, str)
        sys.stderr.write(text + "\n")

    return write


def _drop(method: str, route: str, status: int, seconds: float, request_id: str, trace_id: str | None) -> None:
    return


def _to_json(line: structlog.typing.EventDict, **_: object) -> str:
    return msgspec.json.encode(line).decode()
