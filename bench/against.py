"""This revision compared with another one: the same benchmark of both, in turn, on the same machine.

Run with `make bench ARGS="--against REVISION"`. The other revision is checked out into a
temporary folder, installs there what its own lock files name, and measures with its own `bench` package. A machine's speed
changes during a day; the ratio of two measurements in turn does not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.measures import Measure, write_measures

__all__ = ["COMPARED", "Compared", "compare", "compared", "main"]

_ROOT: Final = Path(__file__).parent.parent
_Figures = Mapping[str, Any]


class Compared(NamedTuple):
    """A figure of `bench.ingest` that is compared.

    `goal` is the ratio of this revision to the other one. `is_p99` is whether the figure is a 99th percentile.
    """

    key: str
    label: str
    of: Callable[[_Figures], float]
    better: Literal["higher", "lower"]
    goal: float = 1.0
    is_p99: bool = False


def _of_size(size: str, figure: Callable[[_Figures], float]) -> Callable[[_Figures], float]:
    return lambda found: figure(found["ingest"]["other_message_sizes"][size])


def _cpu(found: _Figures) -> float:
    return float(sum(found["cpu_microseconds_per_point"].values()))


COMPARED: Final = (
    Compared("ingest", "broker to committed, points/s", lambda found: found["ingest"]["points_per_second"], "higher"),
    Compared("of_limit", "broker to committed, of the limit B", lambda found: found["ingest"]["ratio"], "higher"),
    Compared("cpu", "CPU of the whole path, µs a point", lambda found: _cpu(found["ingest"]), "lower"),
    Compared("small", "messages of 10 points, points/s", _of_size("10", lambda size: size["points_per_second"]), "higher"),
    Compared("small_cpu", "messages of 10 points, CPU, µs a point", _of_size("10", _cpu), "lower"),
    Compared("bytes", "bytes a point", lambda found: found["ingest"]["bytes_per_point"], "lower"),
    Compared("live", "publishing and ingest at once, points/s", lambda found: found["live"]["points_per_second"], "higher"),
    Compared("p50", "publish to queryable, p50 ms", lambda found: found["freshness"]["p50_milliseconds"], "lower"),
    Compared("p99", "publish to queryable, p99 ms", lambda found: found["freshness"]["p99_milliseconds"], "lower", is_p99=True),
    Compared(
        "day",
        "24 h of one signal, p99 ms",
        lambda found: found["rest"]["day_of_one_signal_p99_milliseconds"],
        "lower",
        is_p99=True,
    ),
    Compared("latest", "latest, p99 ms", lambda found: found["rest"]["latest_p99_milliseconds"], "lower", is_p99=True),
    Compared("latest_rate", "latest against an empty route", lambda found: found["rest"]["latest_to_empty"], "higher"),
)

_SHORT: Final = frozenset({"--quick", "--tiny"})


def compared(options: Sequence[str]) -> list[Compared]:
    """Return the figures that two benchmarks with these options can compare.

    A short benchmark measures 50 requests and 135 probes. The 99th percentile of so few is the slowest or second slowest of
    them, which other programs decide.
    """
    return [one for one in COMPARED if not (one.is_p99 and _SHORT.intersection(options))]


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


def _measure(folder: Path, python: str, options: Sequence[str]) -> _Figures:
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "figures.json"
        command = [python, "-m", "bench.ingest", *options, "--output", str(output)]
        subprocess.run(command, cwd=folder, env=_environment(), stdout=subprocess.DEVNULL, check=True)
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def compare(revision: str, options: Sequence[str], rounds: int) -> dict[str, tuple[float, float]]:
    """Measure both revisions in turn.

    Args:
        revision: The other revision, as git names it.
        options: Options of `bench.ingest`.
        rounds: Number of measurements of each revision.

    Returns:
        The medians of the other revision and of this one, by key of the figure, for each figure that both have and
        that the options allow to compare.

    Raises:
        subprocess.CalledProcessError: git, an installation or a benchmark failed.
    """
    found: tuple[list[_Figures], list[_Figures]] = ([], [])
    with _checkout(revision) as folder:
        sides = ((folder, str(folder / ".venv/bin/python")), (_ROOT, sys.executable))
        for number in range(rounds):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                found[side].append(_measure(*sides[side], options))
    figures: dict[str, tuple[float, float]] = {}
    for one in compared(options):
        try:
            theirs, ours = (median(map(one.of, side)) for side in found)
        except KeyError:  # a short benchmark does not measure every size
            continue
        figures[one.key] = theirs, ours
    return figures


def main() -> None:
    """Compare, print a table and write `bench/results/against.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--against", required=True, metavar="REVISION", help="the other revision, as git names it")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each revision")
    chosen, options = parser.parse_known_args()
    figures = compare(chosen.against, options, chosen.rounds)
    table = Table()
    for title in ("", chosen.against, "this revision", "ratio", "better"):
        table.add_column(title, justify="left" if title in ("", "better") else "right")
    measures = {}
    for one in COMPARED:
        if one.key in figures:
            theirs, ours = figures[one.key]
            measures[one.key] = Measure(round(ours / theirs, 3), f"ratio to {chosen.against}", one.goal, one.better)
            table.add_row(one.label, f"{theirs:,.2f}", f"{ours:,.2f}", f"{ours / theirs:.2f}", one.better)
    Console(width=110, highlight=False).print(table)
    print(f"written to {write_measures('against', measures)}")
