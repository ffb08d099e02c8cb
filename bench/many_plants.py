"""`python -m bench.many_plants`: the ingest with 20,000 plants compared with 1,000 of them, in turn, with as many messages.

Messages are published over AMQP to the exchange to which the broker passes those of MQTT, because 20,000 connections would need
most of the machine's memory. All plants are cached before a measurement begins.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import uvloop

from bench.fleet import register_fleet
from bench.freshness import Freshness
from bench.ingest import FULL, QUICK, TINY, Bench, Options, Scale
from bench.measures import Measure, folder_of, options, report
from bench.publisher import AmqpPublisher
from bench.stack import running_stack
from gridfleet.kernel.db import open_database

__all__ = ["main", "measures_of"]

LIVE_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Found:
    """Points per second of each run with warm caches, and of publishing and ingesting at once; the latency at half of that."""

    warm: list[float]
    live: float
    freshness: Freshness


def main() -> None:
    """Measure, print and write the result `many_plants`."""
    parser = options("many_plants", __doc__)
    parser.add_argument("--many", type=int, help="plants (20,000; if quick 2,000)")
    parser.add_argument("--few", type=int, help="plants to compare with (1,000; if quick 100)")
    parser.add_argument("--points", type=int, help="points of a run (3,000,000; if quick 900,000)")
    parser.add_argument("--rounds", type=int, help="runs of each (3; if quick 1)")
    parser.add_argument("--tiny", action="store_true", help="only to see that everything works; as invalid as a quick run")
    chosen = parser.parse_args()
    chosen.quick |= chosen.tiny
    scale = TINY if chosen.tiny else QUICK if chosen.quick else FULL
    points = chosen.points or scale.points[120]
    scale = replace(scale, points={120: points}, live_points=min(points, scale.live_points))
    of_bench = Options(patience=0.0) if chosen.tiny else Options()
    few, many = chosen.few or (100 if chosen.quick else 1_000), chosen.many or (2_000 if chosen.quick else 20_000)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    measures = uvloop.run(measure(scale, of_bench, few, many, chosen.rounds or (1 if chosen.quick else 3), say))
    report("many_plants", measures, folder_of(chosen))


async def measure(
    scale: Scale, of_bench: Options, few: int, many: int, rounds: int, say: Callable[[str], None]
) -> dict[str, Measure]:
    """Measure fleets of `few` and of `many` plants, of which the smaller one is a part of the larger."""
    say("starting PostgreSQL and RabbitMQ")
    with running_stack(**scale.settings) as stack:
        async with (
            open_database(stack.database_url, name="gridfleet-bench", size=2) as database,
            AmqpPublisher.connect(stack.broker_url) as publisher,
        ):
            fleet = await register_fleet(database, stack.keyring, many)
            benches = {
                plants: Bench(
                    stack,
                    database,
                    replace(fleet, plants=fleet.plants[:plants]),
                    publisher,
                    replace(scale, plants=plants),
                    of_bench,
                )
                for plants in (few, many)
            }
            warm: dict[int, list[float]] = {few: [], many: []}
            for number in range(rounds):
                for plants in (few, many) if number % 2 == 0 else (many, few):
                    warm[plants].append(rate := await benches[plants].warm())
                    say(f"{plants} plants: {rate:,.0f} points/s")
            found = {}
            for plants, bench in benches.items():
                live = await bench.live()
                freshness = await bench.freshness(live * LIVE_SHARE)
                found[plants] = Found(warm[plants], live, freshness)
                say(f"{plants} plants, publishing at once: {live:,.0f} points/s, p99 {freshness.percentile(0.99) * 1e3:.0f} ms")
            return measures_of(found[few], found[many])


def measures_of(few: Found, many: Found) -> dict[str, Measure]:
    """Return the measures: of both fleets, and their ratio."""
    measures = {"throughput_ratio": Measure(median(many.warm) / median(few.warm), "of the few plants", 0.9, "higher")}
    for name, found in (("few", few), ("many", many)):
        measures |= {
            f"{name}_points_per_second": Measure(median(found.warm), "points/s", None, "higher"),
            f"{name}_live_points_per_second": Measure(found.live, "points/s", None, "higher"),
            f"{name}_p50": Measure(found.freshness.percentile(0.5) * 1e3, "ms", None, "lower"),
            f"{name}_p99": Measure(found.freshness.percentile(0.99) * 1e3, "ms", 250.0 if name == "many" else None, "lower"),
        }
    return measures


if __name__ == "__main__":
    main()
