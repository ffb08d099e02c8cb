"""`make bench`: throughput of the ingest on this machine, compared with the machine's limits measured in the same run.

Prints a table with floors and goals, and writes `bench/results.json`. `docs/performance.md` describes the measurements and the
meaning of the figures.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
import uvloop

from bench import peers
from bench.fleet import Fleet, register_fleet
from bench.freshness import Freshness, measure_freshness
from bench.limits import Limits, discard_all, prepare_all, store_all
from bench.load import Load, make_load
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
from bench.publisher import Publishers
from bench.reads import Reads, measure_reads
from bench.report import MAIN_SIZE, Measured, Outcome, machine, show, write
from bench.stack import BenchFailed, Stack, running_stack
from gridfleet.kernel.db import Database, open_database

__all__ = ["Scale", "main"]

RESULTS: Final = Path(__file__).parent / "results.json"
_DRAIN_SECONDS: Final = 180


@dataclass(frozen=True, slots=True)
class Scale:
    """The extent of the measurements."""

    plants: int
    points: dict[int, int]
    """Points of one run by points per message. Sizes that are not listed are not measured."""
    repeats: int
    """Number of runs at `MAIN_SIZE`; each figure is their median. Other sizes run once."""
    peer_points: dict[str, int]
    live_points: int
    freshness_seconds: float
    requests: int
    rate_seconds: float
    batch_messages: int | None = None


FULL: Final = Scale(
    plants=1_000,
    points={120: 3_000_000, 10: 400_000, 600: 6_000_000},
    repeats=5,
    peer_points={"executemany": 400_000, "copy": 1_500_000},
    live_points=2_400_000,
    freshness_seconds=15,
    requests=300,
    rate_seconds=3,
)
QUICK: Final = Scale(
    plants=200,
    points={120: 900_000},
    repeats=1,
    peer_points={"executemany": 60_000, "copy": 300_000},
    live_points=600_000,
    freshness_seconds=3,
    requests=50,
    rate_seconds=1,
)
TINY: Final = Scale(
    plants=20,
    points={120: 24_000, 10: 2_000, 600: 24_000},
    repeats=1,
    peer_points={"executemany": 6_000, "copy": 12_000},
    live_points=24_000,
    freshness_seconds=1,
    requests=5,
    rate_seconds=0.2,
    batch_messages=20,
)


class Options(NamedTuple):
    """Options of the command line."""

    ingest_processes: int | None = None
    """Number of ingest processes. None: the value of the setting."""
    patience: float = 10.0
    """Maximum time in seconds that each measurement waits for other programs to become idle."""


class Bench:
    """A stack with a connected fleet, and the measurements on it."""

    def __init__(
        self, stack: Stack, database: Database, fleet: Fleet, publishers: Publishers, scale: Scale, options: Options
    ) -> None:
        self.processes = options.ingest_processes or stack.settings.ingest_processes
        self._stack = stack
        self._database = database
        self._fleet = fleet
        self._publishers = publishers
        self._scale = scale
        self._patience = options.patience

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
        load = make_load(self._fleet, MAIN_SIZE, self._scale.live_points)
        async with self._warm_ingest(load):
            began = time.time()
            await self._publishers.publish(load.messages[self._scale.plants :])
            await asyncio.to_thread(self._stack.wait_until_empty, _DRAIN_SECONDS)
        verify(self._stack.database_url, load.ledger)
        return points_per_second_since(self._stack.database_url, began)

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
            readings = cpu_of_stack(stack) | {"ingest": started, "harness": own_cpu, "all": all_cpu}
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
    async def _warm_ingest(self, load: Load) -> AsyncIterator[None]:
        """Run the ingest on an empty database after it has stored the first message of each plant."""
        clear(self._stack.database_url)
        with self._processes_of("ingest"):
            await self._publishers.publish(load.messages[: self._scale.plants])
            await asyncio.to_thread(self._stack.wait_until_empty, _DRAIN_SECONDS)
            await self._wait_until_quiet()
            yield

    async def _wait_until_quiet(self) -> None:
        await asyncio.to_thread(wait_until_quiet, self._patience)

    @contextlib.contextmanager
    def _processes_of(self, role: str, *kind: str) -> Iterator[Callable[[], float]]:
        """Run processes of the ingest or of a peer. Yields a function that returns their CPU time."""
        command = ("bench.peers", *kind) if kind else ()
        started = [self._stack.start(role, *command) for _ in range(self.processes)]
        try:
            yield lambda: sum(map(cpu_of, started))
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
    changes = {} if scale.batch_messages is None else {"ingest_batch_messages": scale.batch_messages}
    say("starting PostgreSQL and RabbitMQ")
    with running_stack(**changes) as stack:
        async with open_database(stack.database_url, name="gridfleet-bench", size=2) as database:
            fleet = await register_fleet(database, stack.keyring, scale.plants)
            stack.start_api()
            say(f"logging {scale.plants} plants in")
            publishers = await Publishers.connect(fleet.plants, stack.settings.mqtt_port)
            bench = Bench(stack, database, fleet, publishers, scale, options)
            runs: dict[int, list[Measured]] = {}
            for size in scale.points:
                for number in range(scale.repeats if size == MAIN_SIZE else 1):
                    runs.setdefault(size, []).append(found := await bench.ingest(size, number))
                    say(f"{size} points a message: {found.points_per_second:,.0f} points/s")
            rates = {}
            for kind in scale.peer_points:
                rates[kind] = await bench.peer(kind)
                say(f"one row a value, {kind}: {rates[kind]:,.0f} points/s")
            live = await bench.live()
            say(f"publishing and ingesting at once: {live:,.0f} points/s")
            freshness = await bench.freshness(live / 2)
            say(f"publish to queryable: p99 {freshness.percentile(0.99) * 1000:.0f} ms")
            reads = await bench.reads()
            publishers.close()
            return Outcome(await machine(database, stack), scale.plants, bench.processes, runs, rates, live, freshness, reads)


def main() -> None:
    """Read the options, measure, print and write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const=QUICK, default=FULL, help="one short run of each")
    size.add_argument("--tiny", dest="scale", action="store_const", const=TINY, help="only to see that everything works")
    parser.add_argument("--ingest-processes", type=int, help="default: the setting's")
    parser.add_argument("--output", type=Path, help=f"default: {RESULTS.name} beside this file, unless quick or tiny")
    parser.add_argument("--patience", type=float, help="seconds each measurement waits for a quiet machine")
    chosen = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    patience = chosen.patience if chosen.patience is not None else 0.0 if chosen.scale is TINY else 10.0
    outcome = uvloop.run(measure(chosen.scale, Options(chosen.ingest_processes, patience), say))
    show(outcome)
    output = chosen.output or (RESULTS if chosen.scale is FULL else None)
    if output is not None:
        write(outcome, output)
        print(f"written to {output}")


if __name__ == "__main__":
    main()
