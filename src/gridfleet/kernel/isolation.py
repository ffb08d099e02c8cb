"""Set aside the message or row that fails by itself, so that everyone else's work goes on.

An outage (an error of the database, the broker, the network, the machine, or a keyring that lacks a key) is caused by no item:
the caller waits and tries again. Any other exception is caused by one of the items that are processed together. They are halved
until the one that fails stands alone; it is set aside with the reason, counted and logged.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, TypeVar

import httpx
import structlog
from aiormq.exceptions import AMQPError
from psycopg import InterfaceError, OperationalError

from gridfleet.kernel import metrics
from gridfleet.kernel.cause import caused_by
from gridfleet.kernel.db import UNSTORABLE, DatabaseError, storable
from gridfleet.kernel.security.keyring import DecryptionFailed, UnknownKeyVersion

__all__ = ["Consumer", "is_poison", "isolate", "note_set_aside", "reason_of"]

log = structlog.get_logger(__name__)

T = TypeVar("T")

_OUTAGES: Final = (DatabaseError, AMQPError, httpx.HTTPError, OSError, MemoryError, DecryptionFailed, UnknownKeyVersion)
_AWAY: Final = ("08", "53", "57P")
"""Beginnings of SQLSTATEs: the connection, the server's resources, its shutdown."""


class Consumer(StrEnum):
    """What processes items; the label of `gridfleet_set_aside_total`."""

    COMMANDS = "commands"
    EFFECTS = "effects"
    ESM_PLANTS = "esm_plants"
    INGEST = "ingest"
    NOTIFICATIONS = "notifications"
    PARTNER_EVENTS = "partner_events"
    PARTNER_ORDERS = "partner_orders"
    ROLL_UPS = "roll_ups"
    SITES = "sites"


for _consumer in Consumer:
    # From 0 on: `increase` of a counter whose first sample is 1 is 0, and no alert would fire.
    metrics.SET_ASIDE.labels(_consumer)


def is_poison(error: BaseException, *, is_retried: bool = False) -> bool:
    """Return whether an item caused the error, so that trying again cannot succeed.

    Args:
        error: Any exception.
        is_retried: The item is kept and tried again after it was set aside. Then an error that the item may have caused counts
            too: a statement that took too long, or that met a lock.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(is_poison(part, is_retried=is_retried) for part in error.exceptions)
    if is_retried and isinstance(error, DatabaseError):
        return not _is_away(error)
    return isinstance(error, UNSTORABLE) or not isinstance(error, _OUTAGES)


def _is_away(error: DatabaseError) -> bool:
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)


def reason_of(error: BaseException) -> str:
    """Return the error's kind and the first line of its text, in a form that PostgreSQL stores."""
    first, *_ = storable(str(error).strip()).splitlines() or [""]
    return f"{type(error).__name__}: {first}"[:300]


def note_set_aside(consumer: Consumer, error: BaseException, **known: object) -> None:
    """Count an item that is set aside, and log it with the traceback of its error."""
    metrics.SET_ASIDE.labels(consumer).inc()
    log.error("set aside", consumer=consumer, reason=reason_of(error), exc_info=error, **known)


async def isolate(
    consumer: Consumer,
    items: Sequence[T],
    process: Callable[[Sequence[T]], Awaitable[None]],
    set_aside: Callable[[T, Exception], Awaitable[None]],
    request_id_of: Callable[[T], str | None] = lambda _: None,
) -> None:
    """Process all items but those that fail by themselves.

    Args:
        consumer: What the items are counted under.
        items: In the order in which they are processed.
        process: Processes some items completely, or raises and leaves no trace of any of them.
        set_aside: Stores one item that failed where an operator can read it.
        request_id_of: Returns the item's own request id, for the log; None if it has none.

    Raises:
        Exception: An outage, as it was raised. Items before it may have been processed.
    """
    if not items:
        return
    try:
        await process(items)
    except Exception as error:
        if not is_poison(error):
            raise
        failure = error
    else:
        return
    # Outside the handler: what is raised below would carry the tracebacks of every level above.
    if len(items) > 1:
        middle = len(items) // 2
        await isolate(consumer, items[:middle], process, set_aside, request_id_of)
        await isolate(consumer, items[middle:], process, set_aside, request_id_of)
        return
    with caused_by(request_id_of(items[0])):
        note_set_aside(consumer, failure)
        await _keep(consumer, set_aside(items[0], failure))


async def _keep(consumer: Consumer, storing: Awaitable[None]) -> None:
    try:
        await storing
    except Exception as second:
        if not is_poison(second):
            raise
        # Only the log keeps it then: anything else would hold up the items behind it for ever.
        log.critical("cannot be stored as set aside", consumer=consumer, reason=reason_of(second), exc_info=second)
