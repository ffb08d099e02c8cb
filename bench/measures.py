"""The figures of a benchmark: `bench/results/NAME.json` with one object for each measure, and a table with their goals."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from rich.console import Console
from rich.table import Table

__all__ = [
    "QUICK_RESULTS",
    "RESULTS",
    "Measure",
    "folder_of",
    "options",
    "read_measures",
    "report",
    "show",
    "significant",
    "write_measures",
]

RESULTS: Final = Path(__file__).parent / "results"
QUICK_RESULTS: Final = Path(__file__).parent.parent / "build" / "bench"
"""Figures of short runs: they are not valid, so they never replace those of a full run."""
_DIGITS: Final = 3


class Measure(NamedTuple):
    """A measured figure. `goal` is None if none was set."""

    value: float
    unit: str
    goal: float | None
    better: Literal["higher", "lower"]

    @property
    def reached(self) -> bool | None:
        """Whether the value reaches the goal, or None without a goal."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "higher" else self.value <= self.goal


def significant(value: float) -> float:
    """Round to three significant digits: the next ones differ between two runs on the same machine."""
    rounded = float(f"{value:.{_DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def write_measures(name: str, measures: Mapping[str, Measure], folder: Path = RESULTS) -> Path:
    """Write the measures, also those that miss their goals, and return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    rounded = {key: measure._replace(value=significant(measure.value))._asdict() for key, measure in measures.items()}
    path.write_text(json.dumps(rounded, ensure_ascii=False, indent=2, sort_keys=True) + "\n")
    return path


def read_measures(path: Path) -> dict[str, Measure]:
    """Return the measures of a file."""
    return {key: Measure(**measure) for key, measure in json.loads(path.read_text()).items()}


def show(name: str, measures: Mapping[str, Measure]) -> None:
    """Print each measure beside its goal."""
    table = Table(title=name, title_justify="left")
    for title in ("", "measured", "goal", "unit", "reached"):
        table.add_column(title, justify="right" if title in ("measured", "goal") else "left")
    for key, measure in sorted(measures.items()):
        goal = "" if measure.goal is None else f"{'≥' if measure.better == 'higher' else '≤'} {measure.goal:,}"
        reached = {True: "yes", False: "MISSED", None: ""}[measure.reached]
        table.add_row(key.replace("_", " "), f"{significant(measure.value):,}", goal, measure.unit, reached)
    Console(width=110, highlight=False).print(table)


def report(name: str, measures: Mapping[str, Measure], folder: Path) -> None:
    """Print the measures and write them to `folder`."""
    show(name, measures)
    print(f"written to {write_measures(name, measures, folder)}", flush=True)


def options(name: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has: `quick`, and `output`, the folder of the results.

    `output` is None unless it was given: see `folder_of`.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a short run; its figures are not valid")
    parser.add_argument("--output", type=Path, help="folder of the results; default: bench/results, if quick build/bench")
    return parser


def folder_of(chosen: argparse.Namespace) -> Path:
    """Return the folder that the options choose."""
    return chosen.output or (QUICK_RESULTS if chosen.quick else RESULTS)
