"""`make bench`: throughput of the ingest on this machine, compared with the machine's limits measured in the same run.

Writes the results `ingest`, `peers`, `freshness` and `reads`. `docs/performance.md` describes the measurements and the
meaning of the figures.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Final, NamedTuple

import psutil
import psycopg
import uvloop

from bench import peers
from bench.fleet import Fleet, register_fleet
from bench.freshness import Freshness, measure_freshness
from bench.limits import Limits, discard_all, prepare_all, store_all
from bench.load import Load, make_load
from bench.measures import folder_of, options, report
from bench.meter import (
    CpuMeter,
    all_cpu,
    clear,
    committed,
    cpu_of,
    cpu_of_stack,
    own_cpu,
    points_per_second_since,
    verify,
    wait_until_quiet,
)
from bench.publisher import Publishers, Publishing
from bench.reads import Reads, measure_reads
from bench.report import MAIN_SIZE, Measured, Outcome, describe, machine, measures_of
from bench.stack import BenchFailed, Stack, running_stack
from gridfleet.kernel.db import Database, open_database

__all__ = ["FULL", "QUICK", "Bench", "Options", "Scale", "main"]

_DRAIN_SECONDS: Final = 180


@dataclass(frozen=True, slots=True)
class Scale:
    """The extent of the measurements."""

    plants: int
    points: dict[int, int]
    """Points of one run by points per message. Sizes that are not listed are not measured."""
    repeats: int
    """Number of runs at `MAIN_SIZE`; each figure is their median. Other sizes run once."""
    tries_processes: bool
    """Whether as many ingest processes as there are cores are tried too."""
    peer_points: dict[str, int]
    live_points: int
    freshness_seconds: float
    """Duration of the load at each rate of the curve."""
    freshness_percents: tuple[int, ...]
    """Rates of the curve, in percent of the live rate."""
    requests: int
    rate_seconds: float
    batch_messages: int | None = None

    @property
    def settings(self) -> dict[str, int]:
        """Settings of the service that differ from the default."""
        return {} if self.batch_messages is None else {"ingest_batch_messages": self.batch_messages}


FULL: Final = Scale(
    plants=1_000,
    points={120: 3_000_000, 10: 400_000, 600: 6_000_000},
    repeats=5,
    tries_processes=True,
    peer_points={"executemany": 400_000, "copy": 1_500_000},
    live_points=2_400_000,
    freshness_seconds=15,
    freshness_percents=(10, 20, 30, 40, 50, 60),
    requests=300,
    rate_seconds=3,
)
QUICK: Final = Scale(
    plants=200,
    points={120: 900_000},
    repeats=1,
    tries_processes=False,
    peer_points={"executemany": 60_000, "copy": 300_000},
    live_points=600_000,
    freshness_seconds=3,
    freshness_percents=(10, 20, 30, 40, 50, 60),
    requests=50,
    rate_seconds=1,
)
TINY: Final = Scale(
    plants=20,
    points={120: 24_000, 10: 2_000, 600: 24_000},
    repeats=1,
    tries_processes=False,
    peer_points={"executemany": 6_000, "copy": 12_000},
    live_points=24_000,
    freshness_seconds=1,
    freshness_percents=(10, 50),
    requests=5,
    rate_seconds=0.2,
    batch_messages=20,
)


class Options(NamedTuple):
    """Options of the command line."""

    ingest_processes: int | None = None
    """Number of ingest processes. None: the value of the setting and, in a full run, the number of cores are tried."""
    patience: float = 10.0
    """Maximum time in seconds that each measurement waits for other programs to become idle."""
    ingest_module: tuple[str, ...] = ()
    """A Python module to run as the ingest process, and its arguments. Empty: `gridfleet ingest`."""


class Bench:
    """A stack with a connected fleet, and the measurements on it."""

    def __init__(
        self, stack: Stack, database: Database, fleet: Fleet, publishers: Publishing, scale: Scale, options: Options
    ) -> None:
        self.processes = options.ingest_processes or stack.settings.ingest_processes
        self._stack = stack
        self._database = database
        self._fleet = fleet
        self._publishers = publishers
        self._scale = scale
        self._patience = options.patience
        self._ingest_module = options.ingest_module

    async def ingest(self, size: int, seed: int) -> Measured:
        """Measure the ingest on one load, then the limits on the same load."""
        stack, url = self._stack, self._stack.database_url
        load = make_load(self._fleet, size, self._scale.points[size], seed=seed)
        clear(url)
        await self._publishers.publish(load.messages)
        rate, cpu, busy = await self._drain(load, size, "ingest")
        verify(url, load.ledger)
        bytes_per_point = _bytes_stored(url) / load.ledger.points

        clear(url)
        await self._wait_until_quiet()
        prepare, batches = await prepare_all(self._database, stack, load)
        store = await store_all(self._database, stack, batches)
        verify(url, load.ledger)
        await self._publishers.publish(load.messages)
        await self._wait_until_quiet()
        transport = await discard_all(stack, load)
        points = load.ledger.points
        return Measured(rate, Limits(store / points, prepare / points, transport / points), cpu, busy, bytes_per_point)

    async def peer(self, kind: str) -> float:
        """Return points per second of a peer that stores one row per value."""
        # COPY fails on an existing value, so no message is repeated.
        load = make_load(self._fleet, MAIN_SIZE, self._scale.peer_points[kind], repeated=0)
        clear(self._stack.database_url)
        with psycopg.connect(self._stack.database_url) as connection:
            connection.execute(peers.CREATE_TABLE)
        await self._publishers.publish(load.messages)
        rate, _, _ = await self._drain(load, MAIN_SIZE, "peer", kind)
        with psycopg.connect(self._stack.database_url) as connection:
            row = connection.execute(f"SELECT count(*), sum(round(value * 100)::bigint)::bigint FROM {peers.TABLE}").fetchone()
        expected = (load.ledger.points, sum(sums.total for sums in load.ledger.sums.values()))
        if row != expected:
            raise BenchFailed(f"the peer stored {row} instead of {expected}")
        return rate

    async def live(self) -> float:
        """Return points per second from the first publish to the last commit, at the highest rate that the broker accepts."""
        load = make_load(self._fleet, MAIN_SIZE, self._scale.plants * MAIN_SIZE + self._scale.live_points)
        async with self._warm_ingest(load):
            began = time.time()
            await self._publishers.publish(load.messages[self._scale.plants :])
            await asyncio.to_thread(self._stack.wait_until_empty, _DRAIN_SECONDS)
        verify(self._stack.database_url, load.ledger)
        return points_per_second_since(self._stack.database_url, began)

    async def warm(self) -> float:
        """Return points per second of an ingest that has cached every plant, from messages that wait in the queues."""
        stack, size = self._stack, MAIN_SIZE
        load = make_load(self._fleet, size, self._scale.plants * size + self._scale.points[size])
        async with self._warm_ingest(load) as processes:
            began = time.time()
            for process in processes:
                process.suspend()
            try:
                await self._publishers.publish(load.messages[self._scale.plants :])
            finally:
                for process in processes:
                    process.resume()
            await asyncio.to_thread(stack.wait_until_empty, _DRAIN_SECONDS)
        verify(stack.database_url, load.ledger)
        in_flight = 2 * stack.settings.ingest_batch_messages * self.processes * size
        return committed(stack.database_url, in_flight, since=began).points_per_second

    async def freshness(self, points_per_second: float) -> Freshness:
        """Measure the latency from publish to query at this rate."""
        points = self._scale.plants * MAIN_SIZE + int(points_per_second * self._scale.freshness_seconds)
        load = make_load(self._fleet, MAIN_SIZE, points, late=0, repeated=0)
        async with self._warm_ingest(load):
            found = await measure_freshness(
                self._database, self._publishers, load.messages[self._scale.plants :], points_per_second / MAIN_SIZE, MAIN_SIZE
            )
            await asyncio.to_thread(self._stack.wait_until_empty, _DRAIN_SECONDS)
        verify(self._stack.database_url, load.ledger)
        return found

    async def reads(self) -> Reads:
        """Measure the REST API. `latest` reads the values that `freshness` has stored."""
        await self._wait_until_quiet()
        return await measure_reads(
            self._stack, self._database, self._fleet, requests=self._scale.requests, seconds=self._scale.rate_seconds
        )

    async def _drain(self, load: Load, size: int, role: str, *kind: str) -> tuple[float, dict[str, float], dict[str, float]]:
        """Start processes on full queues and wait until they are empty. Returns points/s, CPU seconds per point, busy cores."""
        stack = self._stack
        await self._wait_until_quiet()
        with self._processes_of(role, *kind) as started:
            readings = cpu_of_stack(stack) | {"ingest": lambda: sum(map(cpu_of, started)), "harness": own_cpu, "all": all_cpu}
            with CpuMeter(readings).running() as meter:
                await asyncio.to_thread(stack.wait_until_empty, _DRAIN_SECONDS)
                await asyncio.sleep(0.2)
        batch = stack.settings.ingest_batch_messages
        if role == "peer":
            in_flight = 2 * min(batch, peers.BATCH_MESSAGES) * self.processes * size
            run = committed(stack.database_url, in_flight, peers.TABLE, peers.VALUES)
        else:
            run = committed(stack.database_url, 2 * batch * self.processes * size)
        spent = meter.between(run.start, run.end)
        everything = spent.pop("all")
        others = max(0.0, everything - sum(spent.values()))
        spent.pop("harness")
        seconds = run.end - run.start
        per_point = {name: value / run.points for name, value in spent.items()}
        busy = {name: value / seconds for name, value in (spent | {"others": others}).items()}
        return run.points_per_second, per_point, busy

    @contextlib.asynccontextmanager
    async def _warm_ingest(self, load: Load) -> AsyncIterator[list[psutil.Process]]:
        """Run the ingest on an empty database after it has stored the first message of each plant. Yields its processes."""
        clear(self._stack.database_url)
        with self._processes_of("ingest") as processes:
            await self._publishers.publish(load.messages[: self._scale.plants])
            await asyncio.to_thread(self._stack.wait_until_empty, _DRAIN_SECONDS)
            await self._wait_until_quiet()
            yield processes

    async def _wait_until_quiet(self) -> None:
        await asyncio.to_thread(wait_until_quiet, self._patience)

    @contextlib.contextmanager
    def _processes_of(self, role: str, *kind: str) -> Iterator[list[psutil.Process]]:
        """Run processes of the ingest or of a peer."""
        command = ("bench.peers", *kind) if kind else self._ingest_module
        started = [self._stack.start(role, *command) for _ in range(self.processes)]
        try:
            yield started
        finally:
            self._stack.stop(role)


def _bytes_stored(url: str) -> int:
    """Return the bytes of the partitions that hold rows: heap, indexes, TOAST and maps, after VACUUM without rewriting."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM telemetry_frame")
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits"
            " WHERE inhparent = 'telemetry_frame'::regclass AND pg_relation_size(inhrelid) > 0"
        ).fetchone()
    return int(row[0]) if row and row[0] else 0


async def measure(scale: Scale, options: Options, say: Callable[[str], None]) -> Outcome:
    """Run all measurements one after the other on a private stack."""
    # On termination the benchmark stops its servers and removes their folder.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    say("starting PostgreSQL and RabbitMQ")
    with running_stack(**scale.settings) as stack:
        async with open_database(stack.database_url, name="gridfleet-bench", size=2) as database:
            fleet = await register_fleet(database, stack.keyring, scale.plants)
            stack.start_api()
            say(f"logging {scale.plants} plants in")
            publishers = await Publishers.connect(fleet.plants, stack.settings.mqtt_port)
            bench = Bench(stack, database, fleet, publishers, scale, options)
            usual = bench.processes
            on = await machine(database, stack)
            counts = sorted({usual, on.cores}) if scale.tries_processes and options.ingest_processes is None else [usual]
            by_processes: dict[int, list[Measured]] = {count: [] for count in counts}
            for number, bench.processes in product(range(scale.repeats), counts):
                by_processes[bench.processes].append(found := await bench.ingest(MAIN_SIZE, number))
                say(f"{bench.processes} ingest process(es): {found.points_per_second:,.0f} points/s")
            best = max(counts, key=lambda count: median(run.points_per_second for run in by_processes[count]))
            runs = {MAIN_SIZE: by_processes[best]}
            bench.processes = best
            for size in scale.points.keys() - {MAIN_SIZE}:
                runs[size] = [found := await bench.ingest(size, 0)]
                say(f"{size} points a message: {found.points_per_second:,.0f} points/s")
            rates = {}
            for kind in scale.peer_points:
                rates[kind] = await bench.peer(kind)
                say(f"one row a value, {kind}: {rates[kind]:,.0f} points/s")
            bench.processes = usual
            live = await bench.live()
            say(f"publishing and ingesting at once: {live:,.0f} points/s")
            curve = {}
            for percent in scale.freshness_percents:
                curve[percent] = found_at = await bench.freshness(live * percent / 100)
                p50, p99 = (found_at.percentile(share) * 1000 for share in (0.5, 0.99))
                say(f"publish to queryable at {percent} % of it: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
            reads = await bench.reads()
            publishers.close()
            return Outcome(on, scale.plants, best, runs, by_processes, rates, live, curve, reads)


def main() -> None:
    """Read the options, measure, print and write the results."""
    parser = options("ingest", __doc__)
    parser.add_argument("--tiny", action="store_true", help="only to see that everything works; as invalid as a quick run")
    parser.add_argument("--ingest-processes", type=int, help="default: the setting's, and as many as there are cores")
    parser.add_argument("--patience", type=float, help="seconds each measurement waits for a quiet machine")
    chosen = parser.parse_args()
    chosen.quick |= chosen.tiny
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    scale = TINY if chosen.tiny else QUICK if chosen.quick else FULL
    patience = chosen.patience if chosen.patience is not None else 0.0 if chosen.tiny else 10.0
    outcome = uvloop.run(measure(scale, Options(chosen.ingest_processes, patience), say))
    folder = folder_of(chosen)
    for name, measures in measures_of(outcome).items():
        report(name, measures, folder)
    print(described := describe(outcome))
    (folder / "machine.txt").write_text(described + "\n")


if __name__ == "__main__":
    main()
