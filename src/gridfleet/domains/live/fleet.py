"""The stream of a fleet: what changes in an organisation, for all who watch it.

A feed reads what has changed once, however many users watch, and keeps the encoded events of the last minutes. Each watcher has
a position in them, and nothing is queued for it. One that is too slow, or comes back too late, gets a `reset`: it must read
again what it shows. The users of one organisation share a feed. API keys, which read no names of users, share other feeds: one
for each set of plants and scopes.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from gridfleet.domains.live.feed import Encode, Feed, FeedKey, ReadPosition
from gridfleet.domains.live.models import StreamReset
from gridfleet.domains.organizations.actors import may_read_names
from gridfleet.domains.plants.changes import ChangeKind, ChangeStream
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection, Database
from gridfleet.kernel.errors import TooManyRequests

__all__ = ["FleetChanges"]

log = structlog.get_logger(__name__)

KEPT_BYTES: Final = 64 * 1024 * 1024
MOST_BYTES_OF_FEED: Final = 8 * 1024 * 1024
"""Bytes of events that are kept to resume. Organisations share them equally, and so do the feeds of each."""
MOST_FEEDS: Final = 100
"""Feeds of an organisation. Each keeps its newest events, however large."""
_CONNECT_SECONDS: Final = 5.0
_RETRY_AFTER_SECONDS: Final = 5


class FleetChanges:
    """The feeds of one process."""

    def __init__(self, database: Database) -> None:
        self._stream = ChangeStream(database)
        self._feeds: dict[FeedKey, Feed] = {}
        self._of_organizations = Counter[UUID]()

    @property
    def watchers(self) -> int:
        """The number of watchers."""
        return sum(feed.watchers for feed in self._feeds.values())

    def close(self) -> None:
        """End the streams of all watchers."""
        for feed in tuple(self._feeds.values()):
            feed.end()
        self._stream.close()

    async def watch(
        self,
        org: OrgScope,
        kinds: frozenset[ChangeKind],
        transaction: Callable[[], AbstractAsyncContextManager[Connection]],
        encode: Encode,
        last_id: str | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield encoded events, and an empty piece if nothing has changed for some seconds.

        First comes what has happened since the event `last_id`, or a `reset` if that event is no longer kept, or for a new
        watcher a `summary`. Ends when the process stops.

        Args:
            org: The organisation.
            kinds: The kinds of changes to show.
            transaction: Opens a transaction for the reads of the organisation.
            encode: Encodes an event.
            last_id: The id of the last event that the client received.

        Raises:
            TooManyRequests: Changes cannot be received at the moment, or the organisation has too many feeds.
        """
        key = FeedKey(org.organization_id, org.plant_ids, kinds, may_read_names(org))
        feed = await self._feed(key, org, transaction, encode)
        feed.watchers += 1
        try:
            number = feed.position_after(last_id)
            if number is None:
                read_on = ReadPosition(feed.end_position)
                piece = feed.encode("reset", StreamReset("UNKNOWN_ID"), None) if last_id else b""
                piece += await feed.summary(read_on.turn)
            else:
                piece, read_on = feed.read(ReadPosition(number))
            yield piece  # at once, possibly empty: the response begins with it
            while not feed.ended and feed.has(read_on):
                piece, read_on = feed.read(read_on)
                if not piece:
                    await feed.woken.wait()
                    piece, read_on = feed.read(read_on)
                yield piece
        finally:
            feed.watchers -= 1
            feed.left_at = time.monotonic()

    async def _feed(
        self, key: FeedKey, org: OrgScope, transaction: Callable[[], AbstractAsyncContextManager[Connection]], encode: Encode
    ) -> Feed:
        """Return the feed, which receives all changes from now on."""
        feed = self._feeds.get(key)
        if feed is None:
            self._make_room(key.organization_id)
            feed = self._feeds[key] = Feed(key, org, transaction, encode, partial(self._room, key.organization_id))
            self._of_organizations[key.organization_id] += 1
            subscribing = self._stream.subscribe(key.organization_id, feed, _CONNECT_SECONDS)
            feed.subscribed = asyncio.create_task(subscribing, name="live feed")
            feed.running = asyncio.create_task(self._run(key, feed), name="live feed")
        if not await asyncio.shield(feed.subscribed):
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        return feed

    async def _run(self, key: FeedKey, feed: Feed) -> None:
        try:
            if await feed.subscribed:
                await feed.run()
        except Exception:
            log.exception("the stream of a fleet failed; its watchers may resume")
        finally:
            # Removed before its watchers leave, so that watchers that come back get another one.
            self._remove(key, feed)
            feed.ended = True
            feed.wake()
            self._stream.unsubscribe(key.organization_id, feed)

    def _make_room(self, organization_id: UUID) -> None:
        """If the organisation has `MOST_FEEDS`, end its longest unused feed. Raises TooManyRequests if all are in use."""
        if self._of_organizations[organization_id] < MOST_FEEDS:
            return
        own = [(key, feed) for key, feed in self._feeds.items() if key.organization_id == organization_id]
        unused = [one for one in own if one[1].subscribed.done() and not one[1].watchers]
        if not unused:
            raise TooManyRequests(_RETRY_AFTER_SECONDS)
        key, feed = min(unused, key=lambda one: one[1].left_at)
        self._remove(key, feed)
        feed.end()

    def _remove(self, key: FeedKey, feed: Feed) -> None:
        if self._feeds.get(key) is feed:
            del self._feeds[key]
            self._of_organizations[key.organization_id] -= 1
            if not self._of_organizations[key.organization_id]:
                del self._of_organizations[key.organization_id]

    def _room(self, organization_id: UUID) -> int:
        share = KEPT_BYTES // max(1, len(self._of_organizations)) // max(1, self._of_organizations[organization_id])
        return min(MOST_BYTES_OF_FEED, share)
