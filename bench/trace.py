"""`python -m bench.trace`: where a message waits between its publish and the query that finds it, at fixed rates.

The ingest runs as usual but writes the time of each stage of its batches to a file. Fifty messages a second are followed from
the plant's connection to the query. `docs/performance.md` describes the stages and how to read the table.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from bench.client import percentile
from bench.fleet import Fleet, register_fleet
from bench.freshness import Probe
from bench.ingest import FULL, Bench, Options
from bench.publisher import AmqpPublisher, Publishers, Publishing
from bench.stack import BenchFailed, Stack, running_stack
from bench.traced_ingest import TracedBatch, key_of, read_trace
from gridfleet.kernel.db import open_database

__all__ = ["STAGES", "Followed", "follow", "main"]

STAGES: Final = (
    "publish to delivery: broker, and the ingest's event loop",
    "delivery to batch: collecting",
    "batch to prepared: verifying, decoding",
    "prepared to begun: the previous batch is written",
    "begun to written: statements",
    "written to committed: WAL on disk",
    "committed to found: the query that polls",
)
"""What lies between the times of a message, in their order."""
_SLOWEST: Final = 0.02
"""The share of messages whose mean is printed beside the percentiles: those that decide the 99th percentile."""


class Followed(NamedTuple):
    """A message: how late it was published, the seconds of each stage, and the number of messages of its batch."""

    delay: float
    stages: Sequence[float]
    batch_messages: int

    @property
    def total(self) -> float:
        """The seconds from publish to query."""
        return sum(self.stages)


def follow(probes: Sequence[Probe], batches: Sequence[TracedBatch]) -> list[Followed]:
    """Return the stages of each probe.

    Raises:
        BenchFailed: No batch has a probe's message.
    """
    batch_of = {key: batch for batch in batches for key in batch.delivered}
    found = []
    for probe in probes:
        batch = batch_of.get(key := key_of(probe.body))
        if batch is None:
            raise BenchFailed("a message is in no traced batch")
        times = [probe.published, batch.delivered[key], *batch[1:6], probe.found]
        # The query can find a row a moment before the ingest has the database's answer to the commit.
        stages = [after - before for before, after in pairwise(times)]
        found.append(Followed(probe.published - probe.due, stages, len(batch.delivered)))
    return found


def main() -> None:
    """Follow messages at each rate and print a table for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument("rates", nargs="*", type=int, default=[100_000, 200_000], help="points per second")
    parser.add_argument("--seconds", type=float, default=15.0, help="duration of each load")
    parser.add_argument("--plants", type=int, default=1_000)
    parser.add_argument("--over-amqp", action="store_true", help="publish without a connection for each plant")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds each load waits for a quiet machine")
    chosen = parser.parse_args()
    began = time.monotonic()
    for rate, followed in uvloop.run(_measure(chosen)):
        _show(rate, followed)
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)


async def _measure(chosen: argparse.Namespace) -> list[tuple[float, list[Followed]]]:
    scale = replace(FULL, plants=chosen.plants, freshness_seconds=chosen.seconds)
    measured = []
    with running_stack() as stack, TemporaryDirectory() as name:
        async with open_database(stack.database_url, name="gridfleet-bench", size=2) as database:
            fleet = await register_fleet(database, stack.keyring, chosen.plants)
            stack.start_api()
            async with _publishing(stack, fleet, over_amqp=chosen.over_amqp) as publishers:
                for number, rate in enumerate(chosen.rates):
                    folder = Path(name) / str(number)
                    folder.mkdir()
                    options = Options(patience=chosen.patience, ingest_module=("bench.traced_ingest", str(folder)))
                    found = await Bench(stack, database, fleet, publishers, scale, options).freshness(rate)
                    batches = await asyncio.to_thread(read_trace, folder)
                    measured.append((found.points_per_second, follow(found.probes, batches)))
    return measured


@asynccontextmanager
async def _publishing(stack: Stack, fleet: Fleet, *, over_amqp: bool) -> AsyncIterator[Publishing]:
    """Yield the connections of all plants, or one over AMQP to the exchange to which the broker passes their messages."""
    if over_amqp:
        async with AmqpPublisher.connect(stack.broker_url) as publisher:
            yield publisher
        return
    publishers = await Publishers.connect(fleet.plants, stack.settings.mqtt_port)
    try:
        yield publishers
    finally:
        publishers.close()


def _show(rate: float, followed: Sequence[Followed]) -> None:
    """Print the milliseconds of each stage: percentiles, and the mean of the slowest messages."""
    slowest = sorted(followed, key=lambda one: one.total)[-max(1, round(len(followed) * _SLOWEST)) :]
    table = Table(title=f"{rate:,.0f} points/s, {len(followed)} messages; milliseconds", title_justify="left")
    for title in ("", "p50", "p99", "mean", f"mean of the slowest {_SLOWEST:.0%}"):
        table.add_column(title, justify="right" if title else "left")

    def add(name: str, seconds: Sequence[float], of_slowest: Sequence[float]) -> None:
        figures = (percentile(seconds, 0.5), percentile(seconds), mean(seconds), mean(of_slowest))
        table.add_row(name, *(f"{figure * 1e3:.1f}" for figure in figures))

    for number, stage in enumerate(STAGES):
        add(stage, [one.stages[number] for one in followed], [one.stages[number] for one in slowest])
    table.add_section()
    add("publish to found", [one.total for one in followed], [one.total for one in slowest])
    add("due to publish, not included", [one.delay for one in followed], [one.delay for one in slowest])
    Console(width=110, highlight=False).print(table)
    sizes = [float(one.batch_messages) for one in followed]
    print(f"messages of its batch: p50 {percentile(sizes, 0.5):.0f}, p99 {percentile(sizes):.0f}")


if __name__ == "__main__":
    main()
