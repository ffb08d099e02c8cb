"""Structured logs: one line for each event, on standard error, as text or as JSON."""

import logging
import sys
import threading
from io import StringIO
from types import TracebackType
from typing import Final, TextIO

import structlog

from gridfleet.kernel import tracing
from gridfleet.kernel.colours import is_coloured
from gridfleet.kernel.outages import trouble_outside

__all__ = ["configure_logging", "printable"]

_LOG_AGAIN_SECONDS: Final = 60.0


def configure_logging(level: str, *, json: bool) -> None:
    """Send the log lines of structlog and of the standard library's loggers to standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_trace,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(colors=is_coloured(sys.stderr), exception_formatter=_write_traceback)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([structlog.processors.format_exc_info] if json else [_make_printable]),
                renderer,
            ],
        )
    )
    handler.addFilter(_Brief())
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_thread_failure
    sys.unraisablehook = _log_unraisable
    # Otherwise a line that cannot be written is reported in many lines that cannot be parsed.
    logging.raiseExceptions = not json
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for noisy in ("aiormq", "httpx", "httpcore", "procrastinate", "asyncio", "psycopg.pool", "_granian", "granian.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    for repetitive in ("psycopg", "psycopg.pool"):
        logging.getLogger(repetitive).filters = [_Seldom()]


class _Brief(logging.Filter):
    """Filter that shortens libraries' messages about an unavailable server to one line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove tracebacks without useful information; keep every record."""
        error = record.exc_info[1] if record.exc_info else None
        reason = trouble_outside(error) if error is not None and isinstance(record.msg, str) else None
        if reason is not None:
            record.msg, record.args = f"{' '.join(record.getMessage().split())} ({reason})", ()
            record.exc_info = None
        return True


class _Seldom(logging.Filter):
    """Filter that passes each message once a minute, regardless of its arguments.

    It is for messages about each connection attempt, or each query of a hung database.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message was not logged during the last minute."""
        if record.created - self._logged_at.get(record.msg, 0.0) < _LOG_AGAIN_SECONDS:
            return False
        self._logged_at[record.msg] = record.created
        return True


def printable(text: str) -> str:
    """Return the text in one line, with terminal control characters escaped: log lines can contain text from outside."""
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _make_printable(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = printable(value)
    return event


def _write_traceback(to: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    # Structlog's default shows local variables: addresses with passwords, keys, tokens.
    text = StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    to.write("\n".join(map(printable, text.getvalue().split("\n"))))


def _add_trace(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    trace_id = tracing.trace_id()
    if trace_id is not None:
        event["trace_id"] = trace_id
    return event


def _log_uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
    else:
        logging.getLogger("gridfleet").critical("uncaught exception", exc_info=(kind, error, traceback))


def _log_thread_failure(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None:
        logging.getLogger("gridfleet").critical(
            "uncaught exception in a thread", exc_info=(failed.exc_type, failed.exc_value, failed.exc_traceback)
        )


def _log_unraisable(failed: "sys.UnraisableHookArgs") -> None:
    if failed.exc_value is not None:
        logging.getLogger("gridfleet").error(
            "unraisable exception", exc_info=(failed.exc_type, failed.exc_value, failed.exc_traceback)
        )
