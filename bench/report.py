"""The measures of `bench.ingest` with their goals, and the machine that they were made on."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import psutil

from bench.freshness import Freshness
from bench.limits import Limits
from bench.measures import Measure
from bench.reads import Reads
from bench.stack import BenchFailed, Stack
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database

__all__ = ["MAIN_SIZE", "Machine", "Measured", "Outcome", "describe", "machine", "measures_of"]

MAIN_SIZE: Final = 120
"""Points per message of the figures that have floors and goals: a whole snapshot of a plant."""


class Machine(NamedTuple):
    """The machine and the software versions of the measurement."""

    cores: int
    processor: str
    memory_gib: float
    system: str
    python: str
    postgresql: str
    rabbitmq: str


_PROCESSES: Final = ("ingest", "postgres", "broker")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of the ingest, and of its limits on the same messages."""

    points_per_second: float
    limits: Limits
    cpu_per_point: Mapping[str, float]
    """CPU seconds per point by process."""
    busy_cores: Mapping[str, float]
    """Busy cores by process. `others` is every program that is not part of the benchmark."""
    bytes_per_point: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """All measurements."""

    machine: Machine
    plants: int
    ingest_processes: int
    """The number that serves best at `MAIN_SIZE`, of those that were tried."""
    runs: Mapping[int, Sequence[Measured]]
    """Runs by points per message."""
    by_processes: Mapping[int, Sequence[Measured]]
    """Runs at `MAIN_SIZE` by number of ingest processes."""
    peers: Mapping[str, float]
    live: float
    """Points per second while the plants publish on the same machine."""
    freshness: Mapping[int, Freshness]
    """By percentage of the live rate."""
    reads: Reads


async def machine(database: Database, stack: Stack) -> Machine:
    """Return a description of this machine.

    Raises:
        BenchFailed: If the database does not sync to disk, because the figures would be invalid.
    """
    async with database.transaction() as db:
        cursor = await db.execute(
            "SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') = 'on',"
            " current_setting('server_version')"
        )
        row = await cursor.fetchone()
    assert row is not None
    if not row[0]:
        raise BenchFailed("fsync or synchronous_commit is off")
    async with open_management(stack.broker_management_url) as management:
        rabbitmq = (await management.overview())["rabbitmq_version"]
    return Machine(
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        processor=_processor(),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        postgresql=row[1],
        rabbitmq=rabbitmq,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


_Figure = Callable[[Measured], float]
_GOALS: Final = {"of_limit": 0.75, "bytes_per_point": 14.0}


def _middle(runs: Sequence[Measured], figure: _Figure) -> float:
    return median(map(figure, runs))


def _of_size(runs: Sequence[Measured], cores: int) -> dict[str, Measure]:
    """Return the measures of one message size, without goals: medians of its runs."""

    def limit(run: Measured) -> float:
        return run.limits.points_per_second(cores)

    def cpu(*kinds: str) -> _Figure:
        return lambda run: sum(run.cpu_per_point[kind] for kind in kinds) * 1e6

    def limit_cpu(part: str) -> _Figure:
        return lambda run: float(getattr(run.limits, part)) * 1e6

    rates: dict[str, tuple[str, _Figure]] = {
        "points_per_second": ("points/s", lambda run: run.points_per_second),
        "limit": ("points/s", limit),
        "of_limit": ("of B", lambda run: run.points_per_second / limit(run)),
    }
    costs: dict[str, tuple[str, _Figure]] = {
        "bytes_per_point": ("bytes", lambda run: run.bytes_per_point),
        "cpu": ("µs a point", cpu(*_PROCESSES)),
        **{f"cpu_{kind}": ("µs a point", cpu(kind)) for kind in _PROCESSES},
        **{f"limit_cpu_{part}": ("µs a point", limit_cpu(part)) for part in ("store", "prepare", "transport")},
    }
    return {name: Measure(_middle(runs, figure), unit, None, "higher") for name, (unit, figure) in rates.items()} | {
        name: Measure(_middle(runs, figure), unit, None, "lower") for name, (unit, figure) in costs.items()
    }


def measures_of(outcome: Outcome) -> dict[str, dict[str, Measure]]:
    """Return the measures of each file: ingest, peers, freshness, reads."""
    cores, main = outcome.machine.cores, outcome.runs[MAIN_SIZE]
    ingest = {name: measure._replace(goal=_GOALS.get(name)) for name, measure in _of_size(main, cores).items()}
    for size, runs in outcome.runs.items():
        if size != MAIN_SIZE:
            ingest |= {f"messages_of_{size}_{name}": measure for name, measure in _of_size(runs, cores).items()}
    for count, runs in outcome.by_processes.items():
        rate = _middle(runs, lambda run: run.points_per_second)
        ingest[f"points_per_second_of_{count}_processes"] = Measure(rate, "points/s", None, "higher")
    rates = [run.points_per_second for run in main]
    ingest |= {
        "points_per_second_slowest_run": Measure(min(rates), "points/s", None, "higher"),
        "points_per_second_fastest_run": Measure(max(rates), "points/s", None, "higher"),
        "live_points_per_second": Measure(outcome.live, "points/s", None, "higher"),
        "busy_cores_of_others": Measure(_middle(main, lambda run: run.busy_cores["others"]), "cores", None, "lower"),
        "cores": Measure(cores, "cores", None, "higher"),
    }
    rate = _middle(main, lambda run: run.points_per_second)
    reads = outcome.reads
    return {
        "ingest": ingest,
        "peers": {
            name: measure
            for kind, goal in (("executemany", 15.0), ("copy", 3.0))
            for name, measure in (
                (f"{kind}_points_per_second", Measure(outcome.peers[kind], "points/s", None, "higher")),
                (f"{kind}_times_slower", Measure(rate / outcome.peers[kind], "times", goal, "higher")),
            )
        },
        "freshness": freshness_measures(outcome.freshness),
        "reads": {
            "day_of_one_signal_p99": Measure(reads.day_of_one_signal * 1e3, "ms", 15.0, "lower"),
            "latest_p99": Measure(reads.latest * 1e3, "ms", 3.0, "lower"),
            "empty_route_p99": Measure(reads.empty * 1e3, "ms", None, "lower"),
            "latest_per_second": Measure(reads.latest_per_second, "requests/s", None, "higher"),
            "empty_route_per_second": Measure(reads.empty_per_second, "requests/s", None, "higher"),
            "latest_to_empty_route": Measure(reads.latest_per_second / reads.empty_per_second, "", 0.35, "higher"),
        },
    }


def freshness_measures(curve: Mapping[int, Freshness]) -> dict[str, Measure]:
    """Return rate and latency for each percentage of the live rate."""
    found = {}
    for percent, freshness in curve.items():
        found[f"at_{percent}_percent_points_per_second"] = Measure(freshness.points_per_second, "points/s", None, "higher")
        for share, goal in ((50, 60.0), (99, 200.0)):
            found[f"at_{percent}_percent_p{share}"] = Measure(freshness.percentile(share / 100) * 1e3, "ms", goal, "lower")
    return found


def describe(outcome: Outcome) -> str:
    """Return time, machine and extent of the measurement in one line."""
    on = outcome.machine
    return (
        f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}: {on.cores} cores ({on.processor}), {on.memory_gib} GiB, {on.system},"
        f" PostgreSQL {on.postgresql} with fsync on, RabbitMQ {on.rabbitmq}, Python {on.python};"
        f" {outcome.plants} plants, {outcome.ingest_processes} ingest process(es)"
    )
