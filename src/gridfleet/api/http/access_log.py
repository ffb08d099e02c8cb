"""Access log: one line per request with method, route template, status, duration and request id.

No content of the request or the response is logged. Lines have the format of all other log lines but bypass the standard
library's logging, which would cost more than the rest of a small request.
"""

import sys

import msgspec
import structlog

from gridfleet.kernel.colours import is_coloured

__all__ = ["open_access_log"]


def open_access_log(level: str, *, json: bool) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of requests, which writes one line per request to standard error.

    Args:
        level: The lowest level that is written, such as `INFO`.
        json: Whether a line is a JSON object; otherwise it is text, coloured on a terminal.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_to_json)
        if json
        else structlog.dev.ConsoleRenderer(colors=is_coloured(sys.stderr))
    )
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    opened: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(sys.stderr),
        processors=[structlog.processors.add_log_level, stamp, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    ).bind(logger="gridfleet.access")
    return opened


def _to_json(line: structlog.typing.EventDict, **_: object) -> str:
    return msgspec.json.encode(line).decode()
