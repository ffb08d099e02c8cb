"""`python -m bench.streams`: memory of many event streams in one API process, and the latency from the broker to their readers.

Some users of one organisation read `/plants/{id}/live` of its plants: the memory of the API process with and without them is
compared. Then others read `/fleet/live` while the plants publish over MQTT, and the time from the publish of a message to its
plant's event at each reader is measured. All processes, the readers among them, share the machine.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import uvloop

from bench.fleet import Fleet, register_fleet
from bench.load import POINTS_PER_SNAPSHOT, Sent, make_load
from bench.measures import Measure, folder_of, options, report
from bench.memory import proportional_bytes
from bench.publisher import Publishers
from bench.stack import BenchFailed, Stack, running_stack
from gridfleet.domains.identity import sessions
from gridfleet.domains.identity.access_tokens import AccessTokens
from gridfleet.domains.identity.models import Account, Client
from gridfleet.kernel.db import Database, open_database
from gridfleet.kernel.ids import new_id

__all__ = ["Arrivals", "main", "measures_of"]

MEMORY_GOAL: Final = 150.0
LATENCY_GOAL: Final = 1_000.0
_STREAMS_OF_USER: Final = 20
_PLANTS: Final = 100
_CONNECTS_AT_ONCE: Final = 50
_SETTLE_SECONDS: Final = 5.0
_MIB: Final = 1 << 20


class Published(NamedTuple):
    """A plant and the time of its snapshot in epoch seconds."""

    plant_id: str
    time: int


@dataclass(slots=True)
class Arrivals:
    """When events reached the readers. The data of an event are read once, because all readers receive the same bytes."""

    published: dict[Published, float] = field(default_factory=dict)
    """The times of publish, in seconds of `time.perf_counter`."""
    seconds: list[float] = field(default_factory=list)
    """The latency of each message at each reader."""
    _known: dict[bytes, list[Published]] = field(default_factory=dict)

    def note(self, data: bytes, at: float, seen: set[Published]) -> None:
        """Note an event `plants` that a reader received at a time, and in `seen` which messages it shows to this reader.

        A later event may show the plant with the power of the same message again.
        """
        found = self._known.get(data)
        if found is None:
            rows = [Published(row["id"], _epoch(row["power"]["measuredAt"])) for row in json.loads(data) if row["power"]]
            found = self._known[data] = [row for row in rows if row in self.published]
        self.seconds += [at - self.published[row] for row in found if row not in seen]
        seen.update(found)


class _Reader(asyncio.Protocol):
    """One stream, whose events may be cut into several chunks of the response."""

    def __init__(self, request: bytes, arrivals: Arrivals) -> None:
        self._request = request
        self._arrivals = arrivals
        self._seen: set[Published] = set()
        self._received = b""
        self._is_body = False
        self._text = b""
        self.begun = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.write(self._request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        at = time.perf_counter()
        self._received += data
        if not self._is_body:
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end or not head.startswith(b"HTTP/1.1 200"):
                return
            self._is_body, self._received = True, rest
        self._take_chunks()
        *blocks, self._text = self._text.split(b"\n\n")
        for block in blocks:
            if not self.begun.done() and b"data: " in block:
                self.begun.set_result(None)
            start = block.find(b"event: plants\ndata: ")
            if start >= 0:
                self._arrivals.note(block[start + 20 :].partition(b"\n")[0], at, self._seen)

    def _take_chunks(self) -> None:
        while True:
            size, end, rest = self._received.partition(b"\r\n")
            if not end or len(rest) < (length := int(size, 16)) + 2:
                return
            self._text += rest[:length]
            self._received = rest[length + 2 :]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(BenchFailed(f"a stream was refused: {self._received[:200]!r} {exc}"))


def main() -> None:
    """Measure, print and write the result `streams`."""
    arguments = options("streams", __doc__)
    arguments.add_argument("--streams", type=int, help="streams of plants: 2,000; if quick 200")
    arguments.add_argument("--listeners", type=int, help="streams of the fleet: 1,000; if quick 100")
    arguments.add_argument("--rate", type=int, default=50, help="messages per second: 50")
    arguments.add_argument("--seconds", type=int, help="of publishing: 30; if quick 5")
    chosen = arguments.parse_args()
    streams, listeners, seconds = (200, 100, 5) if chosen.quick else (2_000, 1_000, 30)
    sizes = chosen.streams or streams, chosen.listeners or listeners, chosen.rate, chosen.seconds or seconds
    with running_stack() as stack:
        found = uvloop.run(_measure(stack, *sizes))
    report("streams", measures_of(*found), folder_of(chosen))


def measures_of(streams: int, before: int, after: int, listeners: int, seconds: Sequence[float]) -> Mapping[str, Measure]:
    """Return the measures. `before` and `after` are the bytes of the process, `seconds` the latencies, sorted."""
    return {
        "streams": Measure(streams, "streams", None, "higher"),
        "memory_of_streams": Measure((after - before) / _MIB, "MiB", MEMORY_GOAL, "lower"),
        "memory_of_one": Measure((after - before) / streams / 1024, "KiB", None, "lower"),
        "listeners": Measure(listeners, "streams", None, "higher"),
        "publish_to_listener_p50": Measure(seconds[len(seconds) // 2] * 1000, "ms", None, "lower"),
        "publish_to_listener_p99": Measure(seconds[int(len(seconds) * 0.99)] * 1000, "ms", LATENCY_GOAL, "lower"),
    }


async def _measure(
    stack: Stack, streams: int, listeners: int, rate: int, seconds: int
) -> tuple[int, int, int, int, Sequence[float]]:
    arrivals = Arrivals()
    async with open_database(stack.database_url, name="bench", size=4) as database:
        fleet = await register_fleet(database, stack.keyring, _PLANTS)
        async with database.transaction() as db:
            # The time of a plant's power is that of its newest message.
            await db.execute(
                "UPDATE device_template SET roles = '{\"signal_00\": \"pv_power\"}' WHERE name = 'Benchmark device'"
            )
        process = stack.start_api()
        stack.start("ingest")
        publishers = await Publishers.connect(fleet.plants, stack.settings.mqtt_port)
        try:
            access = AccessTokens(stack.keyring)
            watchers = await _log_in(database, access, fleet, streams // _STREAMS_OF_USER + 1)
            # Users of their own: a stream that was closed counts for its user until the service has noticed.
            others = await _log_in(database, access, fleet, listeners // _STREAMS_OF_USER + 1)
            load = make_load(fleet, POINTS_PER_SNAPSHOT, POINTS_PER_SNAPSHOT * rate * seconds, late=0, repeated=0)
            good = [message for message in load.messages if message.frame is not None]
            await publishers.publish(good[:_PLANTS])
            stack.wait_until_empty(60)
            before = proportional_bytes(process)
            paths = [f"/api/v1/plants/{fleet.plants[number % _PLANTS].id}/live" for number in range(streams)]
            readers = await _open(stack, fleet, watchers, paths, arrivals)
            await asyncio.sleep(_SETTLE_SECONDS)
            after = proportional_bytes(process)
            for reader in readers:
                reader.transport.close()
            await asyncio.sleep(_SETTLE_SECONDS)
            readers = await _open(stack, fleet, others, ["/api/v1/fleet/live"] * listeners, arrivals)
            await _publish(publishers, fleet, good[_PLANTS:], rate, arrivals)
            for reader in readers:
                reader.transport.close()
        finally:
            publishers.close()
    expected = len(arrivals.published) * listeners
    if len(arrivals.seconds) < expected * 0.99:
        raise BenchFailed(f"{len(arrivals.seconds)} of {expected} events arrived")
    return streams, before, after, listeners, sorted(arrivals.seconds)


async def _publish(publishers: Publishers, fleet: Fleet, messages: Sequence[Sent], rate: int, arrivals: Arrivals) -> None:
    began = time.perf_counter()
    for number, message in enumerate(messages):
        await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
        assert message.frame is not None
        arrivals.published[Published(fleet.plants[message.plant].id, message.frame.time)] = time.perf_counter()
        publishers.send(message)
    await asyncio.sleep(_SETTLE_SECONDS)


async def _log_in(database: Database, tokens: AccessTokens, fleet: Fleet, users: int) -> list[str]:
    """Return access tokens of new members, without the cost of password hashes."""
    found = []
    for _ in range(users):
        account = Account(new_id(), f"{new_id()}@example.com", "Bench", False, None, 1)
        async with database.transaction() as db:
            await db.execute(
                "INSERT INTO user_account (id, email, name, password_hash) VALUES (%s, %s, 'Bench', '!')",
                (account.id, account.email),
            )
            await db.execute(
                "INSERT INTO membership (id, organization_id, user_id, role) VALUES (%s, %s, %s, 'VIEWER')",
                (new_id(), fleet.organization_id, account.id),
            )
            opened = await sessions.open_session(db, tokens, account, "!", Client("127.0.0.1", None))
        assert opened is not None
        found.append(opened.access_token)
    return found


async def _open(stack: Stack, fleet: Fleet, tokens: Sequence[str], paths: Sequence[str], arrivals: Arrivals) -> list[_Reader]:
    """Open streams and wait for the first event of each."""
    loop, turns = asyncio.get_running_loop(), asyncio.Semaphore(_CONNECTS_AT_ONCE)

    async def open_one(number: int, path: str) -> _Reader:
        request = _request(path, tokens[number // _STREAMS_OF_USER], fleet.organization_id)
        async with turns:
            _, reader = await loop.create_connection(lambda: _Reader(request, arrivals), "127.0.0.1", stack.settings.http_port)
            await asyncio.wait_for(reader.begun, 120)
        return reader

    return list(await asyncio.gather(*(open_one(number, path) for number, path in enumerate(paths))))


def _request(path: str, token: str, organization_id: UUID) -> bytes:
    return (
        f"GET {path}?organizationId={organization_id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    ).encode()


def _epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


if __name__ == "__main__":
    main()
