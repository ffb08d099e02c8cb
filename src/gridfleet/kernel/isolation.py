"""Set aside a message or row that fails by itself, so that other work continues.

An outage (an error of the database, the broker, the network, the machine, a keyring that lacks a key, or a lack of free
connections) is not caused by an item: the caller waits and retries. Any other exception is caused by one of the items that are
processed together. They are halved until the failing item is isolated. It is set aside with the reason, counted and logged.

A statement that exceeds its time is either: the items may be slow, or the database. Items that are processed together are
therefore halved after it too. A smaller number of items also relieves a slow database.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import httpx
import structlog
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from psycopg import InterfaceError, OperationalError
from psycopg.errors import QueryCanceled

from gridfleet.kernel import metrics
from gridfleet.kernel.cause import caused_by
from gridfleet.kernel.db import UNSTORABLE, DatabaseError, limit_statements, storable
from gridfleet.kernel.errors import TooManyRequests
from gridfleet.kernel.security.keyring import DecryptionFailed, UnknownKeyVersion

__all__ = ["SECONDS_OF_SEVERAL", "is_poison", "isolate", "may_be_poison", "note_set_aside", "reason_of", "took_too_long"]

log = structlog.get_logger(__name__)

T = TypeVar("T")

_OUTAGES: Final = (
    DatabaseError,
    AMQPError,
    ChannelInvalidStateError,  # no AMQPError: a call on a channel that has closed
    httpx.HTTPError,
    OSError,
    MemoryError,
    DecryptionFailed,
    UnknownKeyVersion,
    TooManyRequests,  # other requests of the organisation hold its share of the connections
)
_AWAY: Final = ("08", "53", "57P")
"""Prefixes of SQLSTATEs: connection, server resources, server shutdown."""
SECONDS_OF_SEVERAL: Final = 5.0
"""Time of a statement for several items after a failure. A single item has the usual time."""


def is_poison(error: BaseException, *, is_retried: bool = False) -> bool:
    """Return whether an item caused the error, so that a retry cannot succeed.

    Args:
        error: Any exception.
        is_retried: The item is stored and retried after it was set aside. Then errors that the item may have caused count too:
            a statement that took too long, or that was blocked by a lock.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_poison(part, is_retried=is_retried) for part in error.exceptions)
    if is_retried and isinstance(error, DatabaseError):
        return not _is_away(error)
    return isinstance(error, UNSTORABLE) or not isinstance(error, _OUTAGES)


def took_too_long(error: BaseException) -> bool:
    """Return whether a statement was ended because it exceeded its time."""
    return isinstance(error, QueryCanceled)


def may_be_poison(error: BaseException) -> bool:
    """Return whether an item may have caused the error: it is poison, or a statement exceeded its time."""
    return is_poison(error) or took_too_long(error)


def _is_away(error: DatabaseError) -> bool:
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)


def reason_of(error: BaseException) -> str:
    """Return the error's type and the first line of its text, in a form that PostgreSQL can store."""
    first, *_ = storable(str(error).strip()).splitlines() or [""]
    return f"{type(error).__name__}: {first}"[:300]


def note_set_aside(consumer: str, error: BaseException, **known: object) -> None:
    """Count an item that is set aside, and log it with the traceback of its error.

    Args:
        consumer: The label under which it is counted.
        error: Why it failed.
        known: What identifies the item in the log.
    """
    metrics.SET_ASIDE.labels(consumer).inc()
    log.error("set aside", consumer=consumer, reason=reason_of(error), exc_info=error, **known)


async def isolate(
    consumer: str,
    items: Sequence[T],
    process: Callable[[Sequence[T]], Awaitable[None]],
    set_aside: Callable[[T, Exception], Awaitable[None]],
    request_id_of: Callable[[T], str | None] = lambda _: None,
) -> None:
    """Process all items except those that fail by themselves.

    Args:
        consumer: The label under which the items are counted.
        items: In the order in which they are processed.
        process: Processes some items completely, or raises without a lasting effect of any of them.
        set_aside: Stores one failed item where a user or an SRE can read it.
        request_id_of: Returns the item's own request id for the log; None if it has none.

    Raises:
        Exception: An outage, as it was raised. Earlier items may have been processed.
    """
    if not items:
        return
    try:
        with limit_statements(SECONDS_OF_SEVERAL if len(items) > 1 else None):
            await process(items)
    except Exception as error:
        if not may_be_poison(error):
            raise
        failure = error
    else:
        return
    # Outside the handler, because exceptions raised below would carry the tracebacks of every level above.
    if len(items) > 1:
        middle = len(items) // 2
        await isolate(consumer, items[:middle], process, set_aside, request_id_of)
        await isolate(consumer, items[middle:], process, set_aside, request_id_of)
        return
    with caused_by(request_id_of(items[0])):
        note_set_aside(consumer, failure)
        await _keep(consumer, set_aside(items[0], failure))


async def _keep(consumer: str, storing: Awaitable[None]) -> None:
    try:
        await storing
    except Exception as second:
        if not is_poison(second):
            raise
        # The item is then only in the log. Retrying would block the items behind it permanently.
        log.critical("cannot be stored as set aside", consumer=consumer, reason=reason_of(second), exc_info=second)
