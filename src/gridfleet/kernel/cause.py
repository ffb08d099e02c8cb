"""The cause of the current work: the id of a request or message, which every log line contains, and its trace.

At each entry point, `at_work` sets the cause. `caused_by` sets one of several causes that are handled together. Everything that
is queued (an effect, a job, a notification, a command) stores `current_cause()`. The process that executes it later sets the
same cause.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog

from gridfleet.kernel import tracing
from gridfleet.kernel.ids import new_id
from gridfleet.kernel.tracing import Kind

__all__ = ["at_work", "caused_by", "current_cause", "outgoing_headers"]

Cause = dict[str, str]
"""`request_id`, and `traceparent` if tracing is on; stored as JSON."""


def current_cause(request_id: str | None = None) -> Cause | None:
    """Return the cause to store with queued work; None outside of any. `request_id` replaces the current one."""
    request_id = request_id or structlog.contextvars.get_contextvars().get("request_id")
    if request_id is None:
        return None
    parent = tracing.traceparent()
    return {"request_id": request_id} | ({"traceparent": parent} if parent else {})


@contextmanager
def at_work(
    name: str, cause: Mapping[str, str] | None = None, *, kind: Kind = "consumer", **known: str | int
) -> Iterator[None]:
    """Set the cause of the block and open a span.

    Log lines of the block contain `known` and the `request_id` of the cause, or a new one.
    """
    found = cause or {}
    request_id = found.get("request_id") or str(new_id())
    with (
        structlog.contextvars.bound_contextvars(request_id=request_id, **known),
        tracing.span(name, kind, parent=found.get("traceparent"), request_id=request_id, **known),
    ):
        yield


@contextmanager
def caused_by(request_id: str | None) -> Iterator[None]:
    """Set the request id within the block, for a part of a batch that has its own cause. None leaves it as it is."""
    if request_id is None:
        yield
        return
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        yield


def outgoing_headers() -> dict[str, str]:
    """Return the headers that pass the cause to other services: `x-request-id` and `traceparent`."""
    cause = current_cause() or {}
    return {name: cause[key] for name, key in (("x-request-id", "request_id"), ("traceparent", "traceparent")) if key in cause}
