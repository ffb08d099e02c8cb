"""Plants that send under load and record what the broker has confirmed, for comparison with what is stored.

A sender keeps a window of unconfirmed messages. When its connection is lost, it reconnects and first sends the unconfirmed
messages again, with the same bytes, as a plant must do. When a sender ends, all its messages are confirmed.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from support.clients.fleet_under_test import Fleet, Plant
from support.clients.lean_mqtt import Connection, Login, Lost, Refused

WINDOW = 20
SIGNALS = 5
_BEGINNING = datetime.min.replace(tzinfo=UTC)
DEVICES = ("A", "B", "C")


def live(last_ms: int) -> int:
    """Return the time (epoch milliseconds) of the measurement after one at `last_ms`: now, but never the same time twice."""
    return max(last_ms + 1, int(time.time() * 1000))


Frames = dict[tuple[str, str, datetime], dict[str, float]]
"""Values by (plant, device, time)."""


@dataclass
class Sender:
    """One sending plant. `confirmed` is its ledger."""

    plant: Plant
    login: Login
    number: int
    pause_seconds: float
    poison_share: float = 0
    next_ms: Callable[[int], int] = live
    confirmed: Frames = field(default_factory=dict)
    poison: int = 0
    """Number of confirmed messages that cannot be decoded."""
    connects: int = 0
    repeated: int = 0
    made: int = 0
    _last_ms: int = 0
    _pending: "deque[tuple[bytes, Frames]]" = field(default_factory=deque)

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set, then until everything is confirmed."""
        while not stop.is_set() or self._pending:
            with contextlib.suppress(Lost, Refused, OSError, TimeoutError, asyncio.IncompleteReadError):
                async with await self.plant.connect(self.login) as connection:
                    self.connects += 1
                    await self._session(connection, stop)
            await asyncio.sleep(random.uniform(0.1, 0.4))

    async def _session(self, connection: Connection, stop: asyncio.Event) -> None:
        flying: deque[tuple[asyncio.Future[bytes], bytes, Frames]] = deque()
        try:
            self.repeated += len(self._pending)
            for body, frames in list(self._pending):
                answer = await connection.start_publish(self.plant.topic(), body)
                assert answer is not None
                flying.append((answer, body, frames))
            while True:
                while flying and (flying[0][0].done() or len(flying) >= WINDOW or stop.is_set()):
                    await connection.confirmed(flying[0][0], 30)
                    self._confirm(flying.popleft()[2])
                if stop.is_set():
                    return
                body, frames = self._make()
                self._pending.append((body, frames))
                answer = await connection.start_publish(self.plant.topic(), body)
                assert answer is not None
                flying.append((answer, body, frames))
                await asyncio.sleep(self.pause_seconds)
        finally:
            # Messages confirmed before the connection was lost count, including confirmations that have not been processed yet.
            while flying and flying[0][0].done() and not flying[0][0].cancelled() and flying[0][0].exception() is None:
                self._confirm(flying.popleft()[2])

    def _confirm(self, frames: Frames) -> None:
        self._pending.popleft()
        self.confirmed |= frames
        self.poison += not frames

    def _make(self) -> tuple[bytes, Frames]:
        self.made += 1
        if random.random() < self.poison_share:
            return random.choice((b"", b"\0" * 50, b'{"v":1', random.randbytes(300), self.plant.signed({"time": "never"}))), {}
        self._last_ms = time_ms = self.next_ms(self._last_ms)
        at = _moment(time_ms)
        values = {
            device: {f"s{n}": float(self.made * 1_000 + place * 10 + n) for n in range(SIGNALS)}
            for place, device in enumerate(DEVICES)
        }
        snapshot = {"time": time_ms, "devices": [{"id": device, "fields": fields} for device, fields in values.items()]}
        return self.plant.signed(snapshot), {(self.plant.id, device, at): fields for device, fields in values.items()}


@dataclass
class Load:
    """Running senders."""

    fleet: Fleet
    senders: Sequence[Sender]

    @property
    def confirmed(self) -> int:
        """The number of confirmed frames so far."""
        return sum(len(sender.confirmed) for sender in self.senders)

    @property
    def messages(self) -> int:
        """The number of confirmed messages so far that can be decoded."""
        return self.confirmed // len(DEVICES)

    @property
    def ledger(self) -> Frames:
        """Everything that was confirmed."""
        return {key: values for sender in self.senders for key, values in sender.confirmed.items()}

    async def flows(self, frames: int = 60, seconds: float = 300) -> None:
        """Return once the broker has confirmed that many more frames."""
        wanted = self.confirmed + frames
        async with asyncio.timeout(seconds):
            while self.confirmed < wanted:
                await asyncio.sleep(0.1)

    async def is_stored(self, seconds: float = 300) -> None:
        """Return once the newest confirmed messages are in the database."""
        newest = [next(reversed(sender.confirmed)) for sender in self.senders if sender.confirmed]
        since = min(at for _, _, at in newest)
        plants = [sender.plant for sender in self.senders]
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(Exception):  # expected while the database is unavailable
                    stored = await asyncio.to_thread(stored_frames, self.fleet, plants, since)
                    if all(key in stored for key in newest):
                        return
                await asyncio.sleep(0.3)


@asynccontextmanager
async def under_load(
    fleet: Fleet,
    *,
    plants: int = 8,
    pause_seconds: float = 0.05,
    poison_share: float = 0,
    next_ms: Callable[[int], int] = live,
) -> AsyncIterator[Load]:
    """Run sending plants until the end of the block, and until all their messages are confirmed."""
    senders = []
    for number in range(plants):
        plant = fleet.plant(("PASSWORD", "MTLS", "TOKEN")[number % 3], DEVICES)
        senders.append(Sender(plant, plant.login, number, pause_seconds, poison_share, next_ms))
    stop = asyncio.Event()
    load = Load(fleet, senders)
    async with asyncio.TaskGroup() as tasks:
        for sender in senders:
            tasks.create_task(sender.run(stop))
        try:
            await load.flows()
            yield load
        finally:
            stop.set()


async def compare(load: Load, seconds: float = 300) -> None:
    """Fail unless the stored frames equal the ledger exactly. Waits up to `seconds` for the ingest."""
    ledger = load.ledger
    plants = [sender.plant for sender in load.senders]
    deadline = time.monotonic() + seconds
    while True:
        stored = await asyncio.to_thread(stored_frames, load.fleet, plants)
        if len(stored) >= len(ledger) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.3)
    lost = sorted(ledger.keys() - stored.keys())
    strange = sorted(stored.keys() - ledger.keys())
    assert not lost, f"{len(lost)} of {len(ledger)} frames are lost, for one {lost[0]}"
    assert not strange, f"{len(strange)} frames were never sent, for one {strange[0]}"
    different = [key for key, values in ledger.items() if stored[key] != values]
    assert not different, f"{len(different)} frames differ, for one {different[0]}: {stored[different[0]]}"


def stored_frames(fleet: Fleet, plants: Sequence[Plant], since: datetime = _BEGINNING) -> Frames:
    """Return the stored frames of these plants measured from `since` on. Fails on a frame that is stored twice."""
    rows = fleet.sql(
        "SELECT s.plant_id::text, s.external_id, f.time, l.metrics, f.vals FROM telemetry_frame f"
        " JOIN telemetry_source s ON s.id = f.source_id JOIN telemetry_layout l ON l.id = f.layout_id"
        " WHERE s.plant_id = ANY(%s::uuid[]) AND f.time >= %s",
        [[plant.id for plant in plants], since],
    )
    found: Frames = {}
    for plant_id, device, at, metrics, values in rows:
        key = (plant_id, device, at)
        assert key not in found, f"{key} is stored twice"
        found[key] = dict(zip(metrics, values, strict=True))
    return found


def _moment(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms // 1000, UTC).replace(microsecond=time_ms % 1000 * 1000)
