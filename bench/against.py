"""This revision compared with another one: the same benchmark of both, in turn, on the same machine.

Run with `make bench ARGS="--against REVISION"`. The other revision is checked out into a
temporary folder, installs there what its own lock files name, and measures with its own `bench` package. A machine's speed
changes during a day; the ratio of two measurements in turn does not.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, NamedTuple

from bench.measures import Measure, folder_of, options, read_measures, report

__all__ = ["COMPARED", "Compared", "Figures", "compare", "compared", "main", "read_figures"]

_ROOT: Final = Path(__file__).parent.parent
Figures = Mapping[str, float]
"""Values of measures by `FILE.MEASURE`."""


class Compared(NamedTuple):
    """A measure of `bench.ingest` that is compared: `FILE.MEASURE`.

    `goal` is the ratio of this revision to the other one. `is_p99` is whether the figure is a 99th percentile.
    """

    key: str
    label: str
    measure: str
    better: Literal["higher", "lower"]
    goal: float | None = None
    is_p99: bool = False


COMPARED: Final = (
    Compared("ingest", "broker to committed, points/s", "ingest.points_per_second", "higher", 1.5),
    Compared("of_limit", "broker to committed, of the limit B", "ingest.of_limit", "higher"),
    Compared("cpu", "CPU of the whole path, µs a point", "ingest.cpu", "lower", 0.7),
    Compared("small", "messages of 10 points, points/s", "ingest.messages_of_10_points_per_second", "higher", 1.5),
    Compared("small_cpu", "messages of 10 points, CPU, µs a point", "ingest.messages_of_10_cpu", "lower"),
    Compared("bytes", "bytes a point", "ingest.bytes_per_point", "lower"),
    Compared("live", "publishing and ingest at once, points/s", "ingest.live_points_per_second", "higher"),
    Compared("p50", "publish to queryable at half of that, p50 ms", "freshness.at_50_percent_p50", "lower"),
    Compared("p99", "publish to queryable at half of that, p99 ms", "freshness.at_50_percent_p99", "lower", is_p99=True),
    Compared("day", "24 h of one signal, p99 ms", "reads.day_of_one_signal_p99", "lower", is_p99=True),
    Compared("latest", "latest, p99 ms", "reads.latest_p99", "lower", is_p99=True),
    Compared("latest_rate", "latest against an empty route", "reads.latest_to_empty_route", "higher"),
)

_SHORT: Final = frozenset({"--quick", "--tiny"})


def compared(arguments: Sequence[str]) -> list[Compared]:
    """Return the figures that two benchmarks with these options can compare.

    A short benchmark measures 50 requests and 135 probes. The 99th percentile of so few is the slowest or second slowest of
    them, which other programs decide.
    """
    return [one for one in COMPARED if not (one.is_p99 and _SHORT.intersection(arguments))]


@contextmanager
def _checkout(revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder and install what its lock files name. Yields the folder."""
    with tempfile.TemporaryDirectory(prefix="gridfleet-against-") as name:
        folder = Path(name)
        files = subprocess.run(["git", "archive", revision], cwd=_ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "--extract", "--directory", name], input=files, check=True)
        subprocess.run(["make", "--silent", ".venv/.installed-development"], cwd=folder, env=_environment(), check=True)
        yield folder


def _environment() -> dict[str, str]:
    # `make` passes its own options on to a `make` that it starts.
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def _measure(folder: Path, python: str, arguments: Sequence[str]) -> Figures:
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "figures"
        command = [python, "-m", "bench.ingest", *arguments, "--output", str(output)]
        subprocess.run(command, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True)
        return read_figures(output)


def read_figures(output: Path) -> Figures:
    """Return what a revision's `bench.ingest` wrote: a folder of measures, or one file of nested figures until 816f4db."""
    if not output.is_dir():
        return _of_nested(json.loads(output.read_text()))
    return {
        f"{path.stem}.{name}": measure.value for path in output.glob("*.json") for name, measure in read_measures(path).items()
    }


def _of_nested(found: Mapping[str, Any]) -> Figures:
    ingest, freshness, rest = found["ingest"], found["freshness"], found["rest"]
    figures = {
        "ingest.live_points_per_second": found["live"]["points_per_second"],
        "freshness.at_50_percent_p50": freshness["p50_milliseconds"],
        "freshness.at_50_percent_p99": freshness["p99_milliseconds"],
        "reads.day_of_one_signal_p99": rest["day_of_one_signal_p99_milliseconds"],
        "reads.latest_p99": rest["latest_p99_milliseconds"],
        "reads.latest_to_empty_route": rest["latest_to_empty"],
    }
    sizes = {"": ingest} | {f"messages_of_{size}_": of_size for size, of_size in ingest["other_message_sizes"].items()}
    for prefix, of_size in sizes.items():
        figures |= {
            f"ingest.{prefix}points_per_second": of_size["points_per_second"],
            f"ingest.{prefix}of_limit": of_size["ratio"],
            f"ingest.{prefix}bytes_per_point": of_size["bytes_per_point"],
            f"ingest.{prefix}cpu": sum(of_size["cpu_microseconds_per_point"].values()),
        }
    return figures


def compare(revision: str, arguments: Sequence[str], rounds: int) -> dict[str, tuple[float, float]]:
    """Measure both revisions in turn.

    Args:
        revision: The other revision, as git names it.
        arguments: Options of `bench.ingest`.
        rounds: Number of measurements of each revision.

    Returns:
        The medians of the other revision and of this one, by key of the figure, for each figure that both have and
        that the options allow to compare.

    Raises:
        subprocess.CalledProcessError: git, an installation or a benchmark failed.
    """
    found: tuple[list[Figures], list[Figures]] = ([], [])
    with _checkout(revision) as folder:
        sides = ((folder, str(folder / ".venv/bin/python")), (_ROOT, sys.executable))
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                found[side].append(_measure(*sides[side], arguments))
    figures: dict[str, tuple[float, float]] = {}
    for one in compared(arguments):
        try:
            theirs, ours = (median(figures_of[one.measure] for figures_of in side) for side in found)
        except KeyError:  # a short benchmark does not measure every size
            continue
        figures[one.key] = theirs, ours
    return figures


def main() -> None:
    """Compare, print a table and write the result `against`."""
    parser = options("against", __doc__)
    parser.add_argument("--against", required=True, metavar="REVISION", help="the other revision, as git names it")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each revision")
    chosen, others = parser.parse_known_args()
    figures = compare(chosen.against, [*others, *(["--quick"] if chosen.quick else [])], chosen.rounds)
    measures = {}
    for one in COMPARED:
        if one.key in figures:
            theirs, ours = figures[one.key]
            print(f"{one.label:<50}{theirs:>14,.2f} in {chosen.against}{ours:>14,.2f} here")
            measures[one.key] = Measure(ours / theirs, f"ratio to {chosen.against}", one.goal, one.better)
    report("against", measures, folder_of(chosen))
