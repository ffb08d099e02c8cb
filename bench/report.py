"""The figures as a table with floors and goals, and as JSON."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from bench.freshness import Freshness
from bench.limits import Limits
from bench.reads import Reads
from bench.stack import BenchFailed, Stack
from gridfleet.kernel.broker.management import open_management
from gridfleet.kernel.db import Database

__all__ = ["MAIN_SIZE", "Machine", "Measured", "Outcome", "machine", "show", "write"]

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
    fsync: bool


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
    runs: Mapping[int, Sequence[Measured]]
    """Runs by points per message."""
    peers: Mapping[str, float]
    live: float
    """Points per second while the plants publish on the same machine."""
    freshness: Freshness
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
        fsync=True,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _middles(runs: Sequence[Measured], names: Iterable[str], figure: Callable[[Measured, str], float]) -> dict[str, float]:
    return {name: median(figure(run, name) for run in runs) for name in names}


def _middle(runs: Sequence[Measured], figure: Callable[[Measured], float]) -> float:
    return median(map(figure, runs))


def _rounded(values: Mapping[str, float], factor: float = 1.0) -> dict[str, float]:
    return {name: round(value * factor, 3) for name, value in values.items()}


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return all figures as JSON values: points, seconds, bytes; CPU in microseconds per point. Medians of several runs."""
    cores = outcome.machine.cores

    def of_size(runs: Sequence[Measured]) -> dict[str, Any]:
        parts = _middles(runs, runs[0].cpu_per_point, lambda run, name: run.cpu_per_point[name])
        limits = _middles(runs, ("store", "prepare", "transport"), lambda run, name: getattr(run.limits, name))
        busy = _middles(runs, runs[0].busy_cores, lambda run, name: run.busy_cores[name])
        return {
            "points_per_second": round(_middle(runs, lambda run: run.points_per_second)),
            "limit_points_per_second": round(_middle(runs, lambda run: run.limits.points_per_second(cores))),
            "ratio": round(_middle(runs, lambda run: run.points_per_second / run.limits.points_per_second(cores)), 3),
            "bytes_per_point": round(_middle(runs, lambda run: run.bytes_per_point), 2),
            "cpu_microseconds_per_point": _rounded(parts, 1e6),
            "limit_cpu_microseconds_per_point": _rounded(limits, 1e6),
            "busy_cores": _rounded(busy),
            "runs_points_per_second": [round(run.points_per_second) for run in runs],
        }

    main = of_size(outcome.runs[MAIN_SIZE])
    rate = main["points_per_second"]
    reads, freshness = outcome.reads, outcome.freshness
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": outcome.machine._asdict(),
        "ingest": {
            "points_per_message": MAIN_SIZE,
            "plants": outcome.plants,
            "processes": outcome.ingest_processes,
            **main,
            "other_message_sizes": {str(size): of_size(runs) for size, runs in outcome.runs.items() if size != MAIN_SIZE},
        },
        "peers": {
            kind: {"points_per_second": round(other), "times_slower": round(rate / other, 2)}
            for kind, other in outcome.peers.items()
        },
        "live": {"points_per_second": round(outcome.live)},
        "freshness": {
            "points_per_second": round(freshness.points_per_second),
            "probes": len(freshness.seconds),
            "p50_milliseconds": round(freshness.percentile(0.5) * 1e3, 1),
            "p99_milliseconds": round(freshness.percentile(0.99) * 1e3, 1),
        },
        "rest": {
            "day_of_one_signal_p99_milliseconds": round(reads.day_of_one_signal * 1e3, 2),
            "latest_p99_milliseconds": round(reads.latest * 1e3, 2),
            "empty_p99_milliseconds": round(reads.empty * 1e3, 2),
            "latest_per_second": round(reads.latest_per_second),
            "empty_per_second": round(reads.empty_per_second),
            "latest_to_empty": round(reads.latest_per_second / reads.empty_per_second, 3),
        },
    }


class Target(NamedTuple):
    """A figure with its floor and goal. `less`: lower is better."""

    name: str
    value: float
    floor: float
    goal: float
    form: str
    less: bool = False

    def verdict(self) -> str:
        """Return "goal", "floor" or "MISSED"."""

        def reaches(bound: float) -> bool:
            return self.value <= bound if self.less else self.value >= bound

        return "goal" if reaches(self.goal) else "floor" if reaches(self.floor) else "MISSED"


def _targets(found: Mapping[str, Any]) -> Iterator[Target]:
    ingest, rest = found["ingest"], found["rest"]
    yield Target("ingest, broker to committed, points/s", ingest["points_per_second"], 150_000, 400_000, ",.0f")
    yield Target("ingest against its limit B", ingest["ratio"], 0.2, 0.5, ".2f")
    yield Target("times one row a value, executemany", found["peers"]["executemany"]["times_slower"], 5, 15, ".1f")
    yield Target("times one row a value, COPY", found["peers"]["copy"]["times_slower"], 1.5, 3, ".1f")
    yield Target(
        "publish to queryable at half load, p99 ms", found["freshness"]["p99_milliseconds"], 500, 200, ".0f", less=True
    )
    yield Target("bytes a point, raw with index", ingest["bytes_per_point"], 20, 14, ".1f", less=True)
    yield Target("REST: 24 h of one signal, p99 ms", rest["day_of_one_signal_p99_milliseconds"], 50, 15, ".1f", less=True)
    yield Target("REST: latest, p99 ms", rest["latest_p99_milliseconds"], 20, 8, ".1f", less=True)
    yield Target("REST: latest/s against an empty route's", rest["latest_to_empty"], 0.15, 0.35, ".2f")


def show(outcome: Outcome) -> None:
    """Print the table and the distribution of CPU time."""
    found = figures(outcome)
    console = Console(width=110, highlight=False)
    on = outcome.machine
    console.print(
        f"{found['date']}  {on.cores} cores ({on.processor}), {on.memory_gib} GiB, PostgreSQL {on.postgresql} with fsync on,"
        f" RabbitMQ {on.rabbitmq}, Python {on.python}; {outcome.plants} plants, {outcome.ingest_processes} ingest process(es)"
    )
    table = Table()
    for title in ("", "measured", "floor", "goal", "reached"):
        table.add_column(title, justify="left" if title in ("", "reached") else "right")
    for target in _targets(found):
        numbers = (format(number, target.form) for number in (target.value, target.floor, target.goal))
        table.add_row(target.name, *numbers, target.verdict())
    console.print(table)

    table = Table(title="CPU, microseconds a point")
    for title in (
        "points a message",
        "points/s",
        "B",
        "ratio",
        "L1 store",
        "L2 prepare",
        "L3 transport",
        "ingest",
        "database",
        "broker",
    ):
        table.add_column(title, justify="right")
    sizes = {str(MAIN_SIZE): found["ingest"], **found["ingest"]["other_message_sizes"]}
    for size, of_size in sizes.items():
        limits, cpu = of_size["limit_cpu_microseconds_per_point"], of_size["cpu_microseconds_per_point"]
        table.add_row(
            size,
            f"{of_size['points_per_second']:,}",
            f"{of_size['limit_points_per_second']:,}",
            f"{of_size['ratio']:.2f}",
            *(f"{limits[name]:.2f}" for name in ("store", "prepare", "transport")),
            *(f"{cpu[name]:.2f}" for name in ("ingest", "postgres", "broker")),
        )
    console.print(table)
    others = found["ingest"]["busy_cores"]["others"]
    console.print(f"Other programs kept {others:.2f} cores busy meanwhile: rates suffer from it, CPU times less.")


def write(outcome: Outcome, path: Path) -> None:
    """Write the figures as JSON."""
    path.write_text(json.dumps(figures(outcome), indent=2) + "\n")
