"""The events of one feed: read in turns, kept for a while, and sent in pieces."""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

import psycopg
import structlog

from gridfleet.domains.alerts.actions import find_alerts
from gridfleet.domains.fleet.totals.models import FleetSummary
from gridfleet.domains.fleet.totals.summary import fleet_summary
from gridfleet.domains.live.models import GonePlants, StreamReset
from gridfleet.domains.live.queries import live_commands, live_plants
from gridfleet.domains.plants.changes import Change, ChangeKind
from gridfleet.kernel.caller import OrgScope
from gridfleet.kernel.db import Connection
from gridfleet.kernel.due_work import wait_at_most
from gridfleet.kernel.errors import TooManyRequests

__all__ = ["Encode", "Feed", "FeedKey", "ReadPosition"]

log = structlog.get_logger(__name__)

TURN_SECONDS: Final = 0.25
"""Minimum time between the reads of a feed."""
TICK_SECONDS: Final = 2.0
"""After this time without an event each watcher gets an empty piece, so that it can check its rights."""
SUMMARY_SECONDS: Final = 5.0
"""Minimum time between the summaries of a feed."""
MOST_PLANTS: Final = 500
MOST_RECORDS: Final = 100
"""Plants, alerts and commands in one turn. Further ones follow in the next turns, each once with its newest state."""
MOST_WAITING: Final = 50_000
"""Ids of a kind that wait for their turn. Beyond it the watchers get a `reset`."""
KEPT_SECONDS: Final = 300.0
"""How long events are kept to resume."""
MOST_PIECE_BYTES: Final = 16 * 1024
"""Bytes that a watcher gets at a time. The server's HTTP layer holds several such pieces for a client that reads nothing."""
IDLE_SECONDS: Final = 60.0
"""How long a feed continues without watchers, so that one that reconnects can resume."""
_RETRY_SECONDS: Final = 1.0

Encode = Callable[[str, object, str | None], bytes]
"""Encodes an event: its name, its record, and the id to resume after it."""


class FeedKey(NamedTuple):
    """What a feed shows: kinds of changes, of an organisation's plants that its watchers may see, with or without names."""

    organization_id: UUID
    plant_ids: frozenset[UUID] | None
    kinds: frozenset[ChangeKind]
    has_names: bool


class _Turn(NamedTuple):
    """Encoded events that were read together, and the monotonic time of the read."""

    data: bytes
    at: float


class ReadPosition(NamedTuple):
    """The position of a watcher: in the turn with this number, after the first `offset` bytes."""

    turn: int
    offset: int = 0


class Feed:
    """The events of one `FeedKey`. Events that are read together are a turn; turns are numbered from 0."""

    subscribed: asyncio.Task[bool]
    running: asyncio.Task[None]

    def __init__(
        self,
        key: FeedKey,
        org: OrgScope,
        transaction: Callable[[], AbstractAsyncContextManager[Connection]],
        encode: Encode,
        room: Callable[[], int],
    ) -> None:
        """Create a feed without events. `room` returns how many bytes it may keep."""
        self.encode = encode
        self.watchers = 0
        self.left_at = time.monotonic()
        self.ended = False
        self.woken = asyncio.Event()
        self._woken_at = time.monotonic()
        self._kinds = key.kinds
        self._org = org
        self._transaction = transaction
        self._room = room
        self._feed_id = secrets.token_hex(4)
        self._turns: deque[_Turn] = deque()
        self._first = 0
        self._bytes = 0
        self._waiting: dict[ChangeKind, dict[UUID, None]] = {kind: {} for kind in key.kinds}
        self._is_due = asyncio.Event()
        self._is_lost = False
        self._summary: FleetSummary | None = None
        self._summary_at = 0.0
        self._summary_due = False
        self._summarizing = asyncio.Lock()

    @property
    def end_position(self) -> int:
        """The number of the next turn."""
        return self._first + len(self._turns)

    def changed(self, change: Change) -> None:
        """Note what to read in the next turn."""
        if change.kind not in self._kinds:
            return
        waiting, plants = self._waiting[change.kind], self._org.plant_ids
        limited = plants is not None and change.kind in (ChangeKind.PLANT, ChangeKind.VALUES)
        waiting.update(dict.fromkeys(one for one in change.ids if not limited or one in (plants or ())))
        if len(waiting) > MOST_WAITING:
            self.missed()
        if waiting:
            self._is_due.set()

    def missed(self) -> None:
        """Note that changes may be missing."""
        for waiting in self._waiting.values():
            waiting.clear()
        self._is_lost = True
        self._is_due.set()

    def end(self) -> None:
        """End the watches."""
        self.running.cancel()
        self.ended = True
        self.wake()

    def wake(self) -> None:
        """Let all watchers read."""
        self.woken.set()
        self.woken = asyncio.Event()
        self._woken_at = time.monotonic()

    def position_after(self, last_id: str | None) -> int | None:
        """Return the number of the turn after the one with this id; None if it is not kept, or the id is another feed's."""
        name, _, number = (last_id or "").partition("-")
        if name != self._feed_id or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        position = int(number)
        return position if self._first <= position <= self.end_position else None

    def has(self, position: ReadPosition) -> bool:
        """Return whether a watcher can continue: it has not read a part of events that are no longer kept."""
        return not position.offset or position.turn >= self._first

    def read(self, position: ReadPosition) -> tuple[bytes, ReadPosition]:
        """Return the events from a position on, as many bytes as a piece may hold, and the position after them."""
        turn, offset = position
        if turn < self._first:
            turn = self.end_position
            return self.encode("reset", StreamReset("TOO_SLOW"), self._id(turn)), ReadPosition(turn)
        pieces: list[bytes] = []
        room = MOST_PIECE_BYTES
        while turn < self.end_position and room:
            data = self._turns[turn - self._first].data
            pieces.append(data[offset : offset + room])
            room -= len(pieces[-1])
            offset += len(pieces[-1])
            if offset == len(data):
                turn, offset = turn + 1, 0
        return b"".join(pieces), ReadPosition(turn, offset)

    async def summary(self, position: int) -> bytes:
        """Return the newest summary, at most SUMMARY_SECONDS old, with the id of a position."""
        async with self._summarizing:  # many watchers come together after a restart
            if self._summary is None or self._is_summary_old():
                async with self._transaction() as db:
                    await self._read_summary(db)
        return self.encode("summary", self._summary, self._id(position))

    async def run(self) -> None:
        """Read what changes until there have been no watchers for some time."""
        self._is_lost = False  # no watcher has seen events from before this connection
        while self.watchers or time.monotonic() - self.left_at < IDLE_SECONDS:
            await wait_at_most(self._is_due, TICK_SECONDS)
            is_quiet = not self._is_due.is_set()
            if is_quiet or time.monotonic() - self._woken_at > TICK_SECONDS:
                self._drop_old()
                self.wake()
            if is_quiet and not self._summary_due:
                continue
            self._is_due.clear()
            try:
                await self._take_turn()
            except (psycopg.Error, TooManyRequests) as error:
                log.warning("cannot read changes of a fleet, retrying", error=type(error).__name__)
                self._is_due.set()
                await asyncio.sleep(_RETRY_SECONDS)
            await asyncio.sleep(TURN_SECONDS)

    async def _take_turn(self) -> None:
        if self._is_lost:
            self._is_lost = False
            self._add([("reset", StreamReset("INTERRUPTED"))])
            return
        taken: dict[ChangeKind, list[UUID]] = {}
        for kind in (ChangeKind.PLANT, ChangeKind.VALUES, ChangeKind.ALERT, ChangeKind.COMMAND):
            room = MOST_RECORDS if kind in (ChangeKind.ALERT, ChangeKind.COMMAND) else MOST_PLANTS
            if kind is ChangeKind.VALUES:  # after the rows, because there are always more of them
                room -= len(taken[ChangeKind.PLANT])
            taken[kind] = list(islice(self._waiting.get(kind, ()), room))
            for one in taken[kind]:  # before the read, because it may change again meanwhile
                del self._waiting[kind][one]
        try:
            async with self._transaction() as db:
                events = await self._read(db, taken)
        except Exception:
            for kind, ids in taken.items():
                self._waiting.get(kind, {}).update(dict.fromkeys(ids))
            raise
        self._add(events)
        if any(self._waiting.values()):
            self._is_due.set()

    async def _read(self, db: Connection, taken: Mapping[ChangeKind, Sequence[UUID]]) -> list[tuple[str, object]]:
        """Return the events about what has changed."""
        events: list[tuple[str, object]] = []
        rows, alert_ids = taken[ChangeKind.PLANT], taken[ChangeKind.ALERT]
        alerts = await find_alerts(db, self._org, alert_ids) if alert_ids else []
        # The row of a plant shows how many alerts it has.
        shown = {*rows, *taken[ChangeKind.VALUES], *(alert.plant_id for alert in alerts)}
        if shown:
            plants = await live_plants(db, self._org, list(shown))
            if gone := set(rows).difference(plant.id for plant in plants):
                events.append(("gone", GonePlants(list(gone))))
            if plants:
                events.append(("plants", plants))
        if alerts:
            events.append(("alerts", alerts))
        if (command_ids := taken[ChangeKind.COMMAND]) and (commands := await live_commands(db, self._org, command_ids)):
            events.append(("commands", commands))
        self._summary_due |= bool(shown or alert_ids)
        if self._summary_due and self._is_summary_old():
            await self._read_summary(db)
            events.append(("summary", self._summary))
        return events

    async def _read_summary(self, db: Connection) -> None:
        self._summary_due = False
        self._summary, self._summary_at = await fleet_summary(db, self._org), time.monotonic()

    def _is_summary_old(self) -> bool:
        return time.monotonic() - self._summary_at > SUMMARY_SECONDS

    def _id(self, position: int) -> str:
        """Return the id of an event after which a client resumes at this position."""
        return f"{self._feed_id}-{position}"

    def _add(self, events: Sequence[tuple[str, object]]) -> None:
        """Keep the events of a turn, and wake the watchers."""
        if not events:
            return
        # The last event has the id: a client that received only some of them resumes before the first.
        after, last = self._id(self.end_position + 1), len(events) - 1
        data = b"".join(
            self.encode(name, record, after if number == last else None) for number, (name, record) in enumerate(events)
        )
        self._turns.append(_Turn(data, time.monotonic()))
        self._bytes += len(data)
        self._drop_old()
        self.wake()

    def _drop_old(self) -> None:
        room, kept_from = self._room(), time.monotonic() - KEPT_SECONDS
        while len(self._turns) > 1 and (self._bytes > room or self._turns[0].at < kept_from):
            self._bytes -= len(self._turns.popleft().data)
            self._first += 1
