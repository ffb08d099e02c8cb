"""Server-sent events: their query, their format, and the checks that end a stream."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Final
from uuid import UUID

import psycopg
from psycopg_pool import PoolClosed
from pydantic import Field

from gridfleet.api.http import Call, Input, Stream
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.errors import CodedError, Unauthorized

__all__ = ["StreamQuery", "event", "event_stream"]

QUIET_SECONDS: Final = 10.0
"""After this time without an event a comment is sent: it keeps proxies from closing the stream and detects lost clients."""
STALLED_SECONDS: Final = 30.0
"""A client that reads nothing for this time is disconnected. It may resume."""
OUTAGE_SECONDS: Final = 1.0
"""Pause between checks of a caller's rights while the database is unavailable."""
RETRY_MILLISECONDS: Final = (1_000, 5_000)
"""How long a browser waits before it reconnects: at random, so that not all of them reconnect at once after a restart."""


class StreamQuery(Input):
    """What an `EventSource` cannot send as headers."""

    organization_id: UUID | None = None
    last_event_id: Annotated[str, Field(max_length=64)] | None = None


def event(name: str, data: bytes, event_id: str | None = None) -> bytes:
    """Return one server-sent event as UTF-8 bytes, with its final empty line.

    Args:
        name: The type of the event.
        data: JSON in one line.
        event_id: A client sends it as `Last-Event-ID` to resume after the event. None: the event has no id.
    """
    end = b"\n\n" if event_id is None else b"\nid: %b\n\n" % event_id.encode()
    return b"event: %b\ndata: %b%b" % (name.encode(), data, end)


def event_stream(call: Call, org: OrgScope, pieces: AsyncGenerator[bytes, None]) -> Stream:
    """Return a stream of events.

    Before each piece the caller's session or key, role and membership are checked again, and the stream ends with them. It does
    not end with an access token, because an `EventSource` cannot send another one. While the database is unavailable, the
    stream sends nothing and stays open: otherwise the browser would reconnect, be refused, and not try again.

    Args:
        call: The request.
        org: Its organisation, of whose slots the stream takes one.
        pieces: Events. An empty piece means that nothing has happened; there should be one every few seconds.
    """
    call.set_header("cache-control", "no-store")
    call.set_header("x-accel-buffering", "no")
    return Stream("text/event-stream", _checked(call, org, pieces), STALLED_SECONDS)


async def _checked(call: Call, org: OrgScope, pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(pieces):
        with call.state.stream_slots.hold(org):
            first = b"retry: %d\n\n" % random.randint(*RETRY_MILLISECONDS)
            sent_at = 0.0
            async for piece in pieces:
                try:
                    await _confirm(call)
                except CodedError:
                    return
                if not piece and time.monotonic() - sent_at > QUIET_SECONDS:
                    piece = b": still here\n\n"
                # Each by itself: all streams of a plant share the piece, as long as they hold it.
                for part in filter(None, (first, piece)):
                    yield part
                    sent_at = time.monotonic()
                first = b""


async def _confirm(call: Call) -> None:
    """Check the caller's rights, after an outage of the database if there is one. Raises a `CodedError` without them."""
    while True:
        try:
            await call.confirm()
        except PoolClosed:
            raise Unauthorized from None  # the process ends
        except psycopg.OperationalError:
            await asyncio.sleep(OUTAGE_SECONDS)
        else:
            return
